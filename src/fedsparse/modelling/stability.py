"""Stability selection: which features are found again on half of the rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count
from fedsparse.engines.conversation import Conversation, exchanges_of, together
from fedsparse.engines.engine import Engine
from fedsparse.errors import OptionError
from fedsparse.modelling.fitting import (
    FitOptions,
    Fitted,
    OnModel,
    Prepared,
    fit_model,
    parting,
    prepare,
    tell_nobody,
)
from fedsparse.modelling.judging import judged_on_site
from fedsparse.modelling.summary import FeatureStability, LeftOut, Score, Stability
from fedsparse.problem.rows import Rows


def select_stably(
    engine: Engine,
    sparsity: int,
    options: FitOptions,
    names: Sequence[str],
    *,
    pairs: int = 25,
    threshold: float = 0.75,
    on_model: OnModel = tell_nobody,
) -> Conversation[Stability | None]:
    """How often each feature is chosen on random halves of every site's rows, and without a site.

    Halves come in complementary pairs (Shah & Samworth, J. R. Stat. Soc. B 2013). Calling features
    stable that are chosen in a share of at least π halves, the expected number of stable features
    that one half chooses no more often than a random draw would (with probability at most q/d) is
    at most q² / ((2π − 1) d), q being how many features a half chooses on average. All fits are in
    lockstep: they take the exchanges of the slowest. None if no half can be learnt from. No site is
    left out where an engine may not single one out.

    Parameters
    ----------
    engine, options, on_model
        As in `cross_validate`.
    sparsity
        τ of the models.
    names
        Of the features.
    pairs
        How many times the rows are halved.
    threshold
        π, above ½.

    Examples
    --------
    >>> import fedsparse as fs
    >>> Z = np.random.default_rng(0).standard_normal((60, 30))
    >>> y = Z[:, 3] - Z[:, 7]
    >>> data = fs.FederatedData.from_table(Z, y, ["north", "south"] * 30)
    >>> engine = fs.LocalEngine(data, "squared")
    >>> names = [f"gene {number}" for number in range(30)]
    >>> halving = select_stably(engine, 2, FitOptions(fs.SquaredError()), names, pairs=5)
    >>> found = fs.converse(engine, halving)
    >>> found.features[0].frequency, found.features[0].without_a_site
    (1.0, 1.0)
    """
    _check_threshold(threshold)
    again = yield from choose_again(engine, sparsity, options, pairs=pairs, on_model=on_model)
    return stability_of(again, sparsity, names, threshold)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A model of some rows.

    Attributes
    ----------
    prepared
        The rows.
    model
        Fitted on them.
    score
        At the site that had no part in it, where one was left out.
    """

    prepared: Prepared
    model: Fitted
    score: Score | None = None

    @property
    def support(self) -> Int64Array:
        """Places of the features it uses."""
        rows = self.model.coefficients.reshape(len(self.model.coefficients), -1)
        return np.flatnonzero(np.abs(rows).max(axis=1))


@dataclass(frozen=True, eq=False)
class ChosenAgain:
    """Models on halves of the rows, and without each of the sites; None: nothing can be learnt.

    Attributes
    ----------
    halves
        In complementary pairs.
    without
        By the site that is left out.
    exchanges
        That all of them took.
    """

    halves: tuple[tuple[Chosen | None, Chosen | None], ...]
    without: dict[str, Chosen]
    exchanges: int

    @property
    def pairs(self) -> list[tuple[Chosen, Chosen]]:
        """Pairs of which both halves can be learnt from."""
        return [(one, other) for one, other in self.halves if one is not None and other is not None]


def choose_again(
    engine: Engine,
    sparsity: int,
    options: FitOptions,
    *,
    pairs: int = 25,
    on_model: OnModel = tell_nobody,
) -> Conversation[ChosenAgain]:
    """The models that `select_stably` compares; parameters are as there."""
    check_count("pairs", pairs)
    rows, left_out = engine.lens.rows, sites_left_out(engine)
    halves = [
        rows.part(half, **parting(options.loss, 2, options.seed + pair))
        for pair in range(pairs)
        for half in (0, 1)
    ]
    without = [rows.without(site) for site in range(len(left_out))]
    judges = [*(None for _ in halves), *range(len(left_out))]
    labels = ["half of the rows"] * len(halves) + [f"without {name}" for name in left_out]
    fits = [
        _chosen(engine, own, sparsity, options, label, on_model, judge)
        for own, label, judge in zip([*halves, *without], labels, judges, strict=True)
    ]
    found, exchanges = yield from exchanges_of(together(fits))
    of_sites = zip(left_out, found[len(halves) :], strict=True)
    return ChosenAgain(
        halves=tuple(zip(found[: len(halves) : 2], found[1 : len(halves) : 2], strict=True)),
        without={site: own for site, own in of_sites if own is not None},
        exchanges=exchanges,
    )


def stability_of(
    again: ChosenAgain, sparsity: int, names: Sequence[str], threshold: float = 0.75
) -> Stability | None:
    """How often each feature was chosen; parameters are those of `select_stably`."""
    of_halves = [own.support for pair in again.halves for own in pair if own is not None]
    if not of_halves:
        return None
    of_sites = {site: own.support for site, own in again.without.items()}
    average = float(np.mean([support.size for support in of_halves]))
    return Stability(
        subsamples=len(of_halves),
        sparsity=sparsity,
        threshold=threshold,
        expected_false=average**2 / ((2.0 * threshold - 1.0) * len(names)),
        features=_frequencies(of_halves, list(of_sites.values()), names),
        rounds=again.exchanges,
        left_out=tuple(
            LeftOut(
                site=site,
                features=tuple(names[feature] for feature in support),
                objective=again.without[site].model.result.objective,
                score=again.without[site].score,
            )
            for site, support in of_sites.items()
        ),
    )


def _check_threshold(threshold: float) -> None:
    if not 0.5 < threshold <= 1.0:
        raise OptionError(f"threshold must be above 0.5 and at most 1, not {threshold!r}")


def sites_left_out(engine: Engine) -> tuple[str, ...]:
    """Sites without which a model is fitted, each in turn.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=3, samples=40, width=20, relevant=3)
    >>> len(sites_left_out(fs.LocalEngine(data, "squared")))
    3
    """
    return engine.names if len(engine.names) > 1 and engine.can_single_out else ()


def _chosen(
    engine: Engine,
    rows: Rows,
    sparsity: int,
    options: FitOptions,
    label: str,
    on_model: OnModel,
    judge: int | None,
) -> Conversation[Chosen | None]:
    """A model of some rows; None if nothing can be learnt from them."""
    prepared = yield from prepare(engine.where(rows), options)
    if not prepared.is_learnable:
        return None
    model = yield from fit_model(prepared, sparsity, options.nearly)
    on_model(label)
    if judge is None:
        return Chosen(prepared, model)
    score = yield from judged_on_site(engine, prepared, model, options, judge)
    return Chosen(prepared, model, score)


def _frequencies(
    halves: Sequence[Int64Array], without: Sequence[Int64Array], names: Sequence[str]
) -> tuple[FeatureStability, ...]:
    """Shares of every feature chosen at all, the most frequent first."""
    chosen, counts = np.unique(np.concatenate([*halves, *without]), return_counts=True)
    of_halves = _shares(halves, len(names))
    of_sites = _shares(without, len(names)) if without else None
    order = chosen[np.lexsort((chosen, -counts, -of_halves[chosen]))]
    return tuple(
        FeatureStability(
            feature=names[feature],
            frequency=of_halves[feature],
            without_a_site=None if of_sites is None else of_sites[feature],
        )
        for feature in order
    )


def _shares(supports: Sequence[Int64Array], width: int) -> FloatArray:
    return np.asarray(np.bincount(np.concatenate(supports), minlength=width) / len(supports))
