"""How much each site has to do with the model: what is found without it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsparse.modelling.summary import FitSummary, Score

_FEWEST_SITES = 3
_DISTANCE, _FEWEST_LOST = 0.5, 2
"""From here on, a model without a site is called another; a single feature is soon exchanged."""
_TIMES = 2.0
"""So much more than any other site one must change to stand out."""


@dataclass(frozen=True)
class Influence:
    """What changes without a site.

    Attributes
    ----------
    site
        The one left out.
    kept, lost, added
        Features of the model that are chosen without it, too, those that are not, and others.
    distance
        Jaccard distance of the features with and without it: 0 if they are the same, 1 if none is.
    objective
        f of the model without it, over the rows of the others.
    score
        Of that model at the site itself; None if that was not measured.
    """

    site: str
    kept: int
    lost: int
    added: int
    distance: float
    objective: float
    score: Score | None = None


def influences_of(summary: FitSummary) -> list[Influence]:
    """What changes without each site, the largest change first; nothing if that is not known.

    Parameters
    ----------
    summary
        Of a fit with stability.

    Examples
    --------
    >>> from fedsparse.modelling.model import Feature, Model
    >>> from fedsparse.modelling.summary import LeftOut, Stability
    >>> chosen = [Feature(name=name, column=name, coefficients=(1.0,), mean=0.0, scale=1.0)
    ...           for name in ("age", "ldl")]
    >>> model = Model(task="regression", target="y", intercepts=(0.0,), features=tuple(chosen),
    ...               columns=(), settings={}, fingerprint="", versions={})
    >>> without = (LeftOut(site="bari", features=("age", "ldl"), objective=1.0),
    ...            LeftOut(site="cork", features=("age", "bmi"), objective=0.9))
    >>> stability = Stability(subsamples=2, sparsity=2, threshold=0.75, expected_false=0.1,
    ...                       features=(), rounds=3, left_out=without)
    >>> summary = FitSummary(title="", created="", model=model, source="", sites=(), columns={},
    ...                      candidates=9, history=(), stability=stability, settings={})
    >>> [(own.site, own.kept, round(own.distance, 2)) for own in influences_of(summary)]
    [('cork', 1, 0.67), ('bari', 2, 0.0)]
    """
    if summary.stability is None:
        return []
    chosen = {feature.name for feature in summary.model.features}
    found = []
    for own in summary.stability.left_out:
        others = set(own.features)
        kept, lost, added = len(chosen & others), len(chosen - others), len(others - chosen)
        distance = (lost + added) / max(kept + lost + added, 1)
        found.append(Influence(own.site, kept, lost, added, distance, own.objective, own.score))
    return sorted(found, key=lambda own: (-own.distance, own.objective))


def sentence_on_influence(summary: FitSummary) -> str | None:
    """Which site alone makes the model what it is, in words; None if none stands out.

    One does if without it at least half of the features are others and two are lost, or f is half
    of what it is without any other, and no other site comes near that. It may be a fault or a lie,
    or simply another kind of patients.
    """
    found = influences_of(summary)
    if len(found) < _FEWEST_SITES:
        return None
    for one in found:
        others = [own for own in found if own is not one]
        if _changes_features(one, others) or _lowers_objective(one, others):
            features = len(summary.model.features)
            return (
                f"{one.site} changes the model most: without it {one.kept} of {features} features "
                f"stay and f is {one.objective:.3g}, without any other site at least "
                f"{min(own.kept for own in others)} stay and f is at least "
                f"{min(own.objective for own in others):.3g}. See to its table, units and labels."
            )
    return None


def _changes_features(one: Influence, others: Sequence[Influence]) -> bool:
    largest = max(own.distance for own in others)
    is_another = one.distance >= _DISTANCE and one.lost >= _FEWEST_LOST
    return is_another and one.distance >= _TIMES * largest


def _lowers_objective(one: Influence, others: Sequence[Influence]) -> bool:
    lowest = min(own.objective for own in others)
    return one.objective >= 0 and _TIMES * one.objective < lowest
