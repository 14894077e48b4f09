"""The section on the chosen features: what they do, and how surely they belong."""

from collections.abc import Sequence
from math import exp

import polars as pl

from fedsparse.modelling.model import RATIOS, Model
from fedsparse.modelling.summary import Stability
from fedsparse.report.fit.feature_charts import bars_chart, colour_map
from fedsparse.report.fit.feature_effects import MOST, Effect, effects_of, unit_of
from fedsparse.report.fit.readable_numbers import counted, number, percent, quoted
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Key, Paragraph, Part, Subheading, Symbol, Table
from fedsparse.report.style import FIRST

_MOST_OF_A_CLASS = 5
"""Features named in a sentence; the map above has all of them."""


def features_sections(model: Model, stability: Stability | None) -> list[Section]:
    """Chart and table of the chosen features; nothing if there are none.

    Parameters
    ----------
    model
        Has the features.
    stability
        How often each is chosen; its columns vanish if that was not worked out.

    Examples
    --------
    >>> from fedsparse.modelling.model import Feature
    >>> age = Feature(name="age", column="age", coefficients=(0.02,), mean=60.0, scale=10.0)
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(age,),
    ...               columns=(), settings={}, fingerprint="", versions={})
    >>> [section.heading for section in features_sections(model, None)]
    ['The features that were chosen']
    """
    effects = effects_of(model, stability)
    if not effects:
        return []
    shown = effects[:MOST]
    parts: list[Part] = [
        Paragraph(_explanation(model)),
        *_key(shown, stability),
        _chart(model, shown),
        *_by_class(model, effects),
        Table(_table(model, shown)),
        Paragraph(_hint(model, effects), is_hint=True),
    ]
    return [Section("The features that were chosen", parts)]


def _explanation(model: Model) -> str:
    unit = unit_of(model)
    rises = f"when the feature rises by one {unit} and all else stays"
    if unit == "unit":
        compare = "Features in different units do not compare: they were not standardized."
    else:
        compare = (
            "It is the coefficient times the feature's standard deviation, so that features in "
            "different units compare."
        )
    if model.task == "regression":
        return (
            f"A bar says by how much the predicted {quoted(model.target)} changes {rises}. "
            f"{compare}"
        )
    if model.task in RATIOS:
        what = "rate" if model.task == "counts" else "hazard"
        return (
            f"Bars to the right raise the {what} of {quoted(model.predicted_in_words)}, bars to "
            f"the left lower it. A bar's length is the change of its logarithm {rises}: e to that "
            f"power is the {RATIOS[model.task]}. {compare}"
        )
    if model.task == "binary":
        low, high = model.classes or ("the first class", "the second class")
        return (
            f"Bars to the right speak for {quoted(high)}, bars to the left for {quoted(low)}. A "
            f"bar's length is the change in log-odds {rises}. {compare}"
        )
    return (
        "A cell says how much a feature speaks for a class (blue) or against it (orange) "
        f"{rises}. {compare} Empty cells are zero: the feature is not used for that class."
    )


def _key(shown: Sequence[Effect], stability: Stability | None) -> list[Part]:
    if stability is None or len(shown[0].coefficients) > 1:
        return []
    often = percent(stability.threshold)
    return [
        Key(
            {
                f"chosen in at least {often} of random halves of the rows": Symbol("bar", FIRST),
                "chosen less often": Symbol("pale_bar", FIRST),
            }
        )
    ]


def _chart(model: Model, shown: Sequence[Effect]) -> Charts:
    if model.task == "multiclass":
        return Charts([colour_map(shown, model.classes or (), unit_of(model))])
    return Charts([bars_chart(shown, unit_of(model))])


def _by_class(model: Model, effects: Sequence[Effect]) -> list[Part]:
    """Which features speak for and against each class, the strongest first."""
    if model.task != "multiclass":
        return []
    rows = [
        {
            "Class": name,
            "Speak for it": _named(effects, place, +1),
            "Speak against it": _named(effects, place, -1),
        }
        for place, name in enumerate(model.classes or ())
    ]
    parts: list[Part] = [
        Subheading("Which features speak for which class"),
        Table(pl.DataFrame(rows), is_prose=True),
    ]
    if effects[0].frequency is not None:
        hint = "In brackets: how often the feature is chosen from random halves of the rows."
        parts.append(Paragraph(hint, is_hint=True))
    return parts


def _named(effects: Sequence[Effect], place: int, sign: int) -> str:
    """The strongest features of a sign, each with its stability."""
    own = [effect for effect in effects if sign * effect.per_deviation[place] > 0]
    own = sorted(own, key=lambda effect: -abs(effect.per_deviation[place]))
    names = [
        effect.name if effect.frequency is None else f"{effect.name} ({effect.stability_text()})"
        for effect in own[:_MOST_OF_A_CLASS]
    ]
    more = len(own) - len(names)
    return ", ".join([*names, *([f"{more:,} more"] if more > 0 else [])]) or "none"


def _table(model: Model, shown: Sequence[Effect]) -> pl.DataFrame:
    columns = {"Feature": [effect.name for effect in shown]}
    if model.task == "multiclass":
        for place, name in enumerate(model.classes or ()):
            heading = f"Coefficient for {quoted(name)}"
            columns[heading] = [number(effect.coefficients[place]) for effect in shown]
    else:
        columns["Coefficient"] = [number(effect.coefficients[0]) for effect in shown]
    if model.task != "multiclass" and unit_of(model) != "unit":
        heading = f"Per {unit_of(model)}"
        columns[heading] = [number(effect.per_deviation[0]) for effect in shown]
    ratio = RATIOS.get(model.task)
    if ratio is not None:
        columns[ratio.capitalize()] = [number(exp(effect.coefficients[0])) for effect in shown]
    if shown[0].frequency is not None:
        columns["Stability"] = [effect.stability_text() for effect in shown]
    if any(effect.without_a_site is not None for effect in shown):
        columns["Chosen without a site"] = [effect.without_a_site_text() for effect in shown]
    return pl.DataFrame(columns)


def _hint(model: Model, effects: Sequence[Effect]) -> str:
    sentences = [
        "Coefficient: for one unit of the feature, on the scale of the table it came from.",
        _intercepts(model),
    ]
    if len(effects) > MOST:
        sentences.insert(0, f"The {MOST} largest of {counted(len(effects), 'feature')} are shown.")
    if effects[0].frequency is not None:
        sentences.append("Stability: how often the feature is chosen from random halves of rows.")
    if any(effect.without_a_site is not None for effect in effects):
        sentences.append("Chosen without a site: how often, when each site in turn is left out.")
    return " ".join(sentences)


def _intercepts(model: Model) -> str:
    if model.task == "survival":
        return "Hazard ratio: for one unit of the feature, too."
    if model.task == "counts":
        rate = f"Rate at features of 0: {number(exp(model.intercepts[0]))}"
        unit = "" if model.exposure is None else f" per {model.exposure}"
        return f"{rate}{unit}. Rate ratio: for one unit of the feature, too."
    if model.task != "multiclass":
        return f"Intercept: {number(model.intercepts[0])}."
    pairs = zip(model.classes or (), model.intercepts, strict=False)
    return (
        f"Intercepts: {', '.join(f'{number(value)} for {quoted(name)}' for name, value in pairs)}."
    )
