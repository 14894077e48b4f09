"""Sums over rows by which all clients fill and scale their columns alike.

A client tells them over what its rows weigh, and is weighted by that: sums over clients are those
over rows. So the value of a column that a single row has does not travel as it is.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import sparse

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.stacks import DenseStack, Stack
from fedsparse.problem.federated import FederatedData
from fedsparse.requests.request import Fields, Request, Shapes, Weights


@dataclass(frozen=True)
class ColumnSums(Request):
    """Ask how many rows there are, and for the sum of every feature.

    Parameters
    ----------
    with_target
        Ask for the sum of the target, too.
    classes
        How many classes labels stand for; 0: labels are not counted. Of survival there are two,
        rows without an event and with one.
    with_holes
        Values may be missing: ask for what the rows weigh in which a feature is known, too.
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "samples"

    with_target: bool = False
    classes: int = 0
    with_holes: bool = False

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """Numbers, and vectors as long as a row or as there are classes."""
        vectors = {"total": shape[:1], "known": shape[:1], "labels": (self.classes,)}
        is_asked = {"total": True, "known": self.with_holes, "labels": self.classes > 0}
        return {
            "rows": None,
            "stored": None,
            "target": None,
            **{name: own for name, own in vectors.items() if is_asked[name]},
        }

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``rows``, ``stored``, ``target``, ``total``, ``known`` and ``labels`` of each client."""
        sites = [clients.data.client(int(place)) for place in which]
        masses = np.array([float(site.masses[0]) for site in sites])

        def stacked(sums: list[FloatArray]) -> DenseStack:
            return DenseStack(np.array(sums) / masses[:, None], sums[0].shape)

        fields: dict[str, Stack | FloatArray] = {
            "rows": np.array([float(site.samples) for site in sites]) / masses,
            "stored": np.array([float(_stored(site)) for site in sites]) / masses,
            "target": np.array([self._target(site) for site in sites]) / masses,
            "total": stacked([_totals(site) for site in sites]),
        }
        if self.with_holes:
            fields["known"] = stacked([_known(site) for site in sites])
        if self.classes:
            codes = [_codes(clients, int(place)) for place in which]
            fields["labels"] = stacked(
                [np.bincount(own, minlength=self.classes).astype(float) for own in codes]
            )
        return fields

    def _target(self, site: FederatedData) -> float:
        return float(_weights(site) @ site.targets) if self.with_target else 0.0


@dataclass(frozen=True)
class ColumnSquares(Request):
    """Ask for Σ (feature − centre)² over rows in which it is known.

    Parameters
    ----------
    centre
        Of every feature; with means of all rows nothing cancels.
    """

    of_everyone: ClassVar[bool] = True
    is_round: ClassVar[bool] = False
    weights: ClassVar[Weights | None] = "samples"

    like_a_row: ClassVar[tuple[str, ...]] = ("centre",)

    centre: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """The centres."""
        return (self.centre,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector as long as a row."""
        return {"squares": shape[:1]}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``squares`` of each client."""
        sites = [clients.data.client(int(place)) for place in which]
        sums = [_squares(site, self.centre) / float(site.masses[0]) for site in sites]
        return {"squares": DenseStack(np.array(sums), clients.shape[:1])}


def _codes(clients: Clients, client: int) -> Int64Array:
    targets = clients.targets_of(client)[:, 0]
    return (targets > 0 if clients.loss.outcome == "survival" else targets).astype(np.int64)


def _stored(site: FederatedData) -> int:
    features = site.features
    return int(features.nnz if isinstance(features, sparse.csr_array) else features.size)


def _weights(site: FederatedData) -> FloatArray:
    return np.ones(site.samples) if site.row_weights is None else site.row_weights


def _totals(site: FederatedData) -> FloatArray:
    # Row by row in a fixed order, without a copy in float64 of float32 data.
    if isinstance(site.features, sparse.csr_array):
        return np.asarray(site.features.T.astype(np.float64) @ _weights(site))
    return np.asarray(np.einsum("ij,i->j", _without_holes(site.features), _weights(site)))


def _known(site: FederatedData) -> FloatArray:
    """What the rows weigh in which each feature is known."""
    if isinstance(site.features, sparse.csr_array):
        return np.full(site.width, float(site.masses[0]))
    is_known = ~np.isnan(site.features)
    return np.asarray(np.einsum("ij,i->j", is_known.astype(np.float64), _weights(site)))


def _squares(site: FederatedData, centre: FloatArray) -> FloatArray:
    weights = _weights(site)
    if not isinstance(site.features, sparse.csr_array):
        deviations = _without_holes(site.features - centre)
        return np.asarray(np.einsum("ij,ij,i->j", deviations, deviations, weights))
    stored = site.features.tocoo()
    row, column = stored.coords
    own = weights[row]
    deviations = stored.data - centre[column]
    of_stored = np.bincount(column, weights=own * deviations**2, minlength=site.width)
    mass_of_stored = np.bincount(column, weights=own, minlength=site.width)
    return np.asarray(of_stored + np.maximum(weights.sum() - mass_of_stored, 0.0) * centre**2)


def _without_holes(values: AnyArray) -> AnyArray:
    """Zero in place of what is missing, which adds nothing."""
    is_missing = np.isnan(values)
    return np.where(is_missing, 0.0, values) if is_missing.any() else values
