"""What each site's own rows say of the coefficients, where an engine may single sites out.

The features are those that all sites chose together, on the same scale. What a site says is its
own refit without shrinkage: its second derivatives and gradients on these features, asked of it
alone. A site whose policy forbids that, or that has too few rows for it, says nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.engines.conversation import Conversation, together
from fedsparse.modelling.certainty import LEVEL, Estimated, Interval
from fedsparse.modelling.distributions import chi_squared_tail, student_reach
from fedsparse.modelling.fitting import Fitted, Prepared
from fedsparse.modelling.model import Feature
from fedsparse.modelling.refitting import Refitted, refitting
from fedsparse.modelling.summary import EstimatesAtSites

MOST_SITES = 30
"""Of more, nobody would read the estimates one by one."""


@dataclass(frozen=True, eq=False)
class FoundAtSites:
    """What sites say of the chosen features, in their order.

    Attributes
    ----------
    names
        Of the sites.
    support
        Places of the features.
    values, errors
        Of shape (sites, features); NaN where a site cannot say, or does not.
    freedom
        Of Student's distribution, by site; infinite for the normal one.
    """

    names: tuple[str, ...]
    support: Int64Array
    values: FloatArray
    errors: FloatArray
    freedom: FloatArray

    def of(self, feature: Feature, place: int, ratio: str | None) -> EstimatesAtSites:
        """What a model's file tells of a feature.

        Parameters
        ----------
        feature
            Of the model.
        place
            Of the feature.
        ratio
            What e to the power of a coefficient is called, if it means something.
        """
        (own,) = np.flatnonzero(self.support == place)
        values, errors = self.values[:, own], self.errors[:, own]
        reach = errors * student_reach((1.0 - LEVEL) / 2.0, self.freedom)
        spread = heterogeneity(values, errors)
        return EstimatesAtSites(
            feature=feature.name,
            by_site={
                name: None
                if not np.isfinite(far)
                else Estimated.of(
                    Interval.of(value, value - far, value + far),
                    feature.scale,
                    has_ratio=ratio is not None,
                    p_value=None,
                )
                for name, value, far in zip(self.names, values, reach, strict=True)
            },
            inconsistency=None if spread is None else spread[0],
            p_value=None if spread is None else spread[1],
        )


def estimating_at_sites(
    prepared: Prepared, fitted: Fitted, support: Int64Array
) -> Conversation[FoundAtSites | None]:
    """Have every site estimate the coefficients of a model's features, in lockstep.

    None if there is one site only, there are too many, or nobody may know of single sites.

    Parameters
    ----------
    prepared
        The rows.
    fitted
        The model.
    support
        Places of its features.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.modelling.fitting import FitOptions, fit_model, prepare
    >>> data = fs.datasets.simulation_1(clients=3, samples=40, width=9, relevant=2)
    >>> engine, options = fs.LocalEngine(data, "squared"), FitOptions(fs.SquaredError())
    >>> def estimated():
    ...     prepared = yield from prepare(engine, options)
    ...     model = yield from fit_model(prepared, 2, options)
    ...     return (yield from estimating_at_sites(prepared, model, np.array([0, 1])))
    >>> fs.converse(engine, estimated()).values.shape
    (3, 2)
    """
    engine = prepared.engine
    if not engine.can_single_out or not 1 < len(engine.names) <= MOST_SITES:
        return None
    found: list[Refitted] = yield from together(
        refitting(prepared, fitted.result.coef, support, site=site)
        for site in range(len(engine.names))
    )
    values = np.full((len(found), support.size), np.nan)
    errors, freedom = values.copy(), np.full(len(found), np.inf)
    for site, own in enumerate(found):
        if own.plain is not None:
            values[site], errors[site] = own.plain.values, own.plain.errors
            freedom[site] = own.plain.freedom
    return FoundAtSites(tuple(engine.names), support, values, errors, freedom)


def heterogeneity(values: FloatArray, errors: FloatArray) -> tuple[float, float] | None:
    """I² and the p-value of Cochran's Q, that all estimates are of one number.

    I² is the share of their variation that chance does not explain (Higgins & Thompson, Statistics
    in Medicine 2002). None of fewer than two estimates.

    Parameters
    ----------
    values, errors
        Estimates and their standard errors; where an error is not finite and positive, there is
        none.

    Examples
    --------
    >>> share, p_value = heterogeneity(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    >>> share, round(p_value, 4)
    (0.875, 0.0047)
    >>> heterogeneity(np.array([1.0, 3.0]), np.array([0.5, np.nan])) is None
    True
    """
    known = np.isfinite(errors) & (errors > 0)
    if np.count_nonzero(known) < 2:
        return None
    weights, told = 1.0 / errors[known] ** 2, values[known]
    q = float(weights @ (told - np.average(told, weights=weights)) ** 2)
    freedom = told.size - 1
    return max(0.0, 1.0 - freedom / q) if q > 0 else 0.0, chi_squared_tail(q, freedom)


def told_at_sites(
    found: FoundAtSites | None,
    features: Sequence[Feature],
    places: Sequence[int],
    ratio: str | None,
) -> tuple[EstimatesAtSites, ...]:
    """What a summary tells of a model's features; nothing if nothing was found."""
    if found is None or not np.isfinite(found.errors).any():
        return ()
    return tuple(
        found.of(feature, place, ratio) for feature, place in zip(features, places, strict=True)
    )
