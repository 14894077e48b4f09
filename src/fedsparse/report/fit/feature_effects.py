"""What each chosen feature does to the prediction, and how surely it belongs to the model."""

from dataclasses import dataclass
from typing import Any

from fedsparse.modelling.model import Model
from fedsparse.modelling.summary import Stability
from fedsparse.report.fit.readable_numbers import percent

MOST = 50
"""Features or sites that a chart or a table shows; more would no longer be read."""


@dataclass(frozen=True)
class Effect:
    """A feature of the model.

    Parameters
    ----------
    name
        Of the feature.
    coefficients
        On its own scale; one, or one per class.
    per_deviation
        Change of the score when the feature rises by one standard deviation; as many.
    frequency, without_a_site
        As in `fedsparse.modelling.summary.FeatureStability`; None if not known.
    is_stable
        Whether it is chosen as often as the threshold asks; None if not known.
    """

    name: str
    coefficients: tuple[float, ...]
    per_deviation: tuple[float, ...]
    frequency: float | None = None
    without_a_site: float | None = None
    is_stable: bool | None = None

    def size(self) -> float:
        """By which effects are ordered: the largest of the classes."""
        return max(abs(value) for value in self.per_deviation)

    def stability_text(self) -> str:
        """How often it is chosen, in percent."""
        return "–" if self.frequency is None else percent(self.frequency)

    def without_a_site_text(self) -> str:
        """How often it is chosen when a site is left out, in percent."""
        return "–" if self.without_a_site is None else percent(self.without_a_site)


def effects_of(model: Model, stability: Stability | None) -> list[Effect]:
    """All features of a model, those that matter most first.

    Parameters
    ----------
    model
        Its features.
    stability
        How often each is chosen. One that it does not list was never chosen.

    Examples
    --------
    >>> from fedsparse.modelling.model import Feature
    >>> age = Feature(name="age", column="age", coefficients=(0.02,), mean=60.0, scale=10.0)
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(age,),
    ...               columns=(), settings={}, fingerprint="", versions={})
    >>> effects_of(model, None)[0].per_deviation
    (0.2,)
    """
    effects = [
        Effect(
            feature.name,
            feature.coefficients,
            tuple(value * feature.scale for value in feature.coefficients),
            **_stability_of(feature.name, stability),
        )
        for feature in model.features
    ]
    return sorted(effects, key=Effect.size, reverse=True)


def unit_of(model: Model) -> str:
    """By how much a feature rises: a standard deviation, unless the model was learnt without.

    Examples
    --------
    >>> unit_of(Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={}))
    'unit'
    """
    is_standardized = any(feature.scale != 1.0 for feature in model.features)
    return "standard deviation" if is_standardized else "unit"


def _stability_of(name: str, stability: Stability | None) -> dict[str, Any]:
    if stability is None:
        return {}
    found = [each for each in stability.features if each.feature == name]
    frequency = found[0].frequency if found else 0.0
    return {
        "frequency": frequency,
        "without_a_site": found[0].without_a_site if found else None,
        "is_stable": frequency >= stability.threshold,
    }
