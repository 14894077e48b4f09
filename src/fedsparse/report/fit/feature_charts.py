"""Charts of what the chosen features do: bars, or a map of colours if there are several classes."""

from collections.abc import Sequence

import altair as alt

from fedsparse.report.fit.chart_axes import ROW, SHORTENED, names_axis
from fedsparse.report.fit.feature_effects import Effect
from fedsparse.report.fit.readable_numbers import number
from fedsparse.report.style import FAINT, FIRST, INK, PAPER, SECOND

COLUMN_OF_STABILITY = 66
"""Points of width beside the bars."""

CLASSES_WITH_NUMBERS = 6
"""More leave no room for numbers in the cells."""

FAINTEST, STRONGEST = 0.08, 0.6
"""Opacity of a cell; a number in it stays legible."""

PALE, FULL = 0.2, 0.9
"""Opacity of a bar: of a feature that is chosen less often than the threshold asks, and else."""


def bars_chart(effects: Sequence[Effect], unit: str) -> alt.LayerChart:
    """Signed bars, one per feature, with a column that says how often it is chosen.

    Parameters
    ----------
    effects
        From top to bottom, with one coefficient each.
    unit
        By how much features rise.

    Examples
    --------
    >>> effects = [Effect("age", (0.02,), (0.02,)), Effect("dose", (-0.1,), (-0.1,))]
    >>> bars_chart(effects, "unit").to_dict()["height"]
    34
    """
    rows = [_bar(effect) for effect in effects]
    has_stability = effects[0].frequency is not None
    names = alt.Y("feature:N", sort=None, title=None, axis=names_axis())
    base = alt.Chart(alt.InlineData(rows)).encode(y=names)
    colour = alt.when("datum.effect > 0").then(alt.value(FIRST)).otherwise(alt.value(SECOND))
    bars = base.mark_bar(height=alt.RelativeBandSize(0.7)).encode(
        x=alt.X("effect:Q", title=f"Coefficient per {unit}"),
        fill=colour,
        stroke=colour,
        fillOpacity=alt.FillOpacity("opacity:Q", scale=None, legend=None),
        tooltip=_tooltip(unit, has_stability),
    )
    zero = alt.Chart(alt.InlineData([{"x": 0}])).mark_rule(color=FAINT).encode(x="x:Q")
    layers = [bars, zero, *(_column(base) if has_stability else [])]
    return alt.LayerChart(layer=layers).properties(
        width="container",
        height=ROW * len(rows),
        description=f"Bar chart of the chosen features with their coefficients per {unit}; "
        "the table below has the same numbers.",
    )


def colour_map(effects: Sequence[Effect], classes: Sequence[str], unit: str) -> alt.LayerChart:
    """A cell per feature and class, coloured by sign and by size.

    Parameters
    ----------
    effects
        From top to bottom, with a coefficient for each class.
    classes
        From left to right.
    unit
        By how much features rise.

    Examples
    --------
    >>> effect = Effect("age", (0.0, 0.1, -0.1), (0.0, 1.0, -1.0))
    >>> chart = colour_map([effect], ["a", "b", "c"], "standard deviation")
    >>> len(chart.layer)
    2
    """
    has_numbers = len(classes) <= CLASSES_WITH_NUMBERS
    largest = max(effect.size() for effect in effects)
    rows = [
        _cell(effect, name, place, largest)
        for effect in effects
        for place, name in enumerate(classes)
    ]
    base = alt.Chart(alt.InlineData(rows)).encode(
        y=alt.Y("feature:N", sort=None, title=None, axis=names_axis()),
        x=alt.X("class:N", sort=None, title=None, axis=_classes_axis(len(classes), has_numbers)),
        tooltip=[
            alt.Tooltip("class:N", title="Class"),
            *_tooltip(unit, effects[0].frequency is not None),
        ],
    )
    colour = alt.when("datum.effect > 0").then(alt.value(FIRST)).otherwise(alt.value(SECOND))
    cells = base.mark_rect(stroke=PAPER, strokeWidth=1).encode(
        fill=colour, fillOpacity=alt.FillOpacity("opacity:Q", scale=None, legend=None)
    )
    numbers = base.mark_text(fontSize=11, fill=INK).encode(text="written:N")
    return alt.LayerChart(layer=[cells, *([numbers] if has_numbers else [])]).properties(
        width="container",
        height=ROW * len(effects),
        description=f"Coefficients per {unit} of the chosen features, for each class.",
    )


def _bar(effect: Effect) -> dict[str, object]:
    return {
        **_described(effect, 0),
        "opacity": PALE if effect.is_stable is False else FULL,
    }


def _cell(effect: Effect, name: str, place: int, largest: float) -> dict[str, object]:
    value = effect.per_deviation[place]
    return {
        **_described(effect, place),
        "class": name,
        "opacity": FAINTEST + (STRONGEST - FAINTEST) * abs(value) / largest if value else 0,
        "written": number(value) if value else "",
    }


def _described(effect: Effect, place: int) -> dict[str, object]:
    return {
        "feature": effect.name,
        "effect": effect.per_deviation[place],
        "per_deviation": number(effect.per_deviation[place]),
        "coefficient": number(effect.coefficients[place]),
        "stability": effect.stability_text(),
    }


def _tooltip(unit: str, has_stability: bool) -> list[alt.Tooltip]:
    shown = {
        "feature": "Feature",
        "per_deviation": f"Per {unit}",
        "coefficient": "Coefficient",
        **({"stability": "Stability"} if has_stability else {}),
    }
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in shown.items()]


def _column(base: alt.Chart) -> list[alt.Chart]:
    """Stability as text to the right of the bars, and its heading."""
    right = COLUMN_OF_STABILITY - 4
    numbers = base.mark_text(align="right", dx=right, fontSize=12, fill=INK)
    heading = alt.Chart(alt.InlineData([{}])).mark_text(
        align="right", dx=right, fontSize=12, fill=FAINT, text="Stability"
    )
    end = alt.value("width")
    return [numbers.encode(x=end, text="stability:N"), heading.encode(x=end, y=alt.value(-12))]


def _classes_axis(classes: int, is_wide: bool) -> alt.Axis:
    """Names of classes above their columns, cut where these are too narrow for them."""
    return alt.Axis(
        orient="top",
        labelExpr=SHORTENED,
        labelAngle=0 if is_wide else -90,
        labelLimit=alt.ExprRef(f"width / {classes} - 6") if is_wide else 120,
        ticks=False,
        domain=False,
    )
