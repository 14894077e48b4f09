"""The forest plot: what each coefficient may be, as an interval."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from fedsparse.modelling.certainty import Estimated, HowSure, Interval
from fedsparse.modelling.model import Feature, Model
from fedsparse.report.fit.chart_axes import names_axis
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.readable_numbers import number, percent
from fedsparse.report.style import FAINT, FIRST, HUES, INK

_ROW = 26
_APART = 4
"""Points between the two intervals of a feature and the middle of its row."""

_FARTHEST = math.log(1000.0)
"""Ratios beyond 1,000 or 1/1,000 are cut off: they would press all others together."""

_MOST_TICKS = 8
_FINE = (1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)


@dataclass(frozen=True)
class ForestLook:
    """Colours and width of a forest plot."""

    sure: str
    naive: str
    ink: str
    width: int | str

    @classmethod
    def on_page(cls) -> "ForestLook":
        """As wide as the page, in its colours for light and dark."""
        return cls(FIRST, FAINT, INK, "container")

    @classmethod
    def in_picture(cls) -> "ForestLook":
        """For paper."""
        return cls(HUES[0], "#777777", "#000000", 480)


def forest_chart(features: Sequence[Feature], sure: HowSure, look: ForestLook) -> alt.LayerChart:
    """Two intervals a feature: as if chosen beforehand, and valid after the choice.

    Parameters
    ----------
    features
        From top to bottom.
    sure
        What their certainties are about.
    look
        Colours and width.

    Examples
    --------
    >>> from fedsparse.modelling.certainty import Certainty
    >>> own = Estimated.of(Interval.of(0.5, 0.1, 0.9), 9.0, has_ratio=True, p_value=0.01)
    >>> age = Feature(name="age", column="age", coefficients=(0.5,), mean=50.0, scale=9.0,
    ...               certainty=Certainty(refitted=own))
    >>> about = HowSure(level=0.95, ratio="odds ratio", splits=50, exchanges=9)
    >>> forest_chart([age], about, ForestLook.in_picture()).to_dict()["height"]
    26
    """
    is_ratio = sure.ratio is not None
    naive, valid, shrunk = (_rows(features, way, is_ratio) for way in _WAYS)
    scale, axis = across([*naive, *valid, *shrunk], is_ratio=is_ratio)
    x = alt.X("value:Q", title=_title(sure), scale=scale, axis=axis)
    names = alt.Y(
        "feature:N",
        sort=None,
        title=None,
        axis=names_axis(has_lines=True),
        scale=alt.Scale(domain=[feature.name for feature in features]),
    )
    tooltip = [
        alt.Tooltip("feature:N", title="Feature"),
        alt.Tooltip("way:N", title="How"),
        alt.Tooltip("written:N", title=_title(sure)),
    ]

    def layers(
        rows: list[dict[str, object]], offset: int, width: float, colour: str, mark: dict[str, Any]
    ) -> list[alt.Chart]:
        base = alt.Chart(alt.InlineData(rows)).encode(y=names, tooltip=tooltip)
        bars = base.transform_filter("datum.low != null").mark_rule(
            color=colour, strokeWidth=width, yOffset=offset, clip=True
        )
        marks = base.mark_point(opacity=1, clip=True, yOffset=offset, **mark)
        return [bars.encode(x=alt.X("low:Q", scale=scale), x2="high:Q"), marks.encode(x=x)]

    none = alt.Chart(alt.InlineData([{"value": 1.0 if is_ratio else 0.0}])).mark_rule(
        stroke=look.naive, strokeDash=[4, 3], strokeWidth=1.5
    )
    above = -_APART if sure.splits else 0
    ring = {"shape": "circle", "size": 45, "stroke": look.naive, "filled": False}
    dot = {"shape": "circle", "size": 60, "color": look.sure, "filled": True}
    tick = {"shape": "stroke", "angle": 90, "size": 110, "stroke": look.ink, "strokeWidth": 2}
    return alt.LayerChart(
        layer=[
            none.encode(x=alt.X("value:Q", scale=scale)),
            *layers(naive, above, 1.5, look.naive, ring),
            *layers([row | {"low": None} for row in shrunk], above, 0, look.ink, tick)[1:],
            *layers(valid, _APART, 3, look.sure, dot),
        ]
    ).properties(
        width=look.width,
        height=_ROW * len(features),
        description=f"Forest plot: {_title(sure).lower()} of each chosen feature with intervals; "
        "the table below has the same numbers.",
    )


_WAYS = ("as if chosen beforehand", "valid after the choice", "the model's own, with shrinkage")


def _rows(features: Sequence[Feature], way: str, is_ratio: bool) -> list[dict[str, object]]:
    """Estimates and intervals of the features that have some."""
    rows: list[dict[str, object]] = []
    for feature in features:
        own = _told(feature, way, is_ratio)
        if own is not None:
            has_both = own.low is not None and own.high is not None
            rows.append(
                {
                    "feature": feature.name,
                    "way": way,
                    "value": own.value,
                    "low": own.low if has_both else None,
                    "high": own.high if has_both else None,
                    "written": interval_text(own),
                }
            )
    return rows


def _told(feature: Feature, way: str, is_ratio: bool) -> Interval | None:
    certainty = feature.certainty
    if certainty is None:
        return None
    of_way: dict[str, Estimated | None] = dict(
        zip(_WAYS, (certainty.refitted, certainty.after_choosing, certainty.shrunk), strict=True)
    )
    own = of_way[way]
    if own is None:
        return None
    told = own.ratio_per_deviation if is_ratio else own.per_deviation
    if way == _WAYS[1] and told is not None and told.low is None and told.high is None:
        return None  # a point without bounds would look sure
    return told


def forest_picture(model: Model) -> alt.LayerChart:
    """The forest plot of a model with a title that explains it, for slides and papers.

    Parameters
    ----------
    model
        One whose certainties were worked out.
    """
    sure = model.how_sure
    assert sure is not None
    after = "; thick: valid after the choice" if sure.splits else ""
    subtitle = [
        f"Thin: {percent(sure.level)} interval as if chosen beforehand{after}.",
        "Upright mark: the model’s own coefficient, with shrinkage.",
    ]
    chart = forest_chart(features_by_size(model)[:MOST], sure, ForestLook.in_picture())
    return chart.properties(title=alt.Title(model.predicted_in_words, subtitle=subtitle, offset=12))


def features_by_size(model: Model) -> list[Feature]:
    """Features that have certainties, those that matter most first.

    Examples
    --------
    >>> features_by_size(Model(task="regression", target="ldl", intercepts=(3.1,), features=(),
    ...                        columns=(), settings={}, fingerprint="", versions={}))
    []
    """
    told = [feature for feature in model.features if feature.certainty is not None]
    return sorted(told, key=lambda own: abs(own.coefficients[0]) * own.scale, reverse=True)


def interval_text(own: Interval | None) -> str:
    """An estimate with its interval, for tables.

    Examples
    --------
    >>> interval_text(Interval.of(2.0, 1.0, float("inf"))), interval_text(None)
    ('2.00 (1.00 to ∞)', '–')
    >>> interval_text(Interval.of(0.997, 0.9943, 0.9997))
    '0.997 (0.994 to 0.9997)'
    """
    if own is None:
        return "–"
    if own.low is None and own.high is None:
        return f"{number(own.value)} (no bounds)"
    low = "−∞" if own.low is None else _end_text(own.low)
    high = "∞" if own.high is None else _end_text(own.high)
    return f"{number(own.value)} ({low} to {high})"


def _end_text(end: float) -> str:
    """Of an interval: a ratio that is not 1 does not read as 1, which would say no effect."""
    if number(end) != "1.00" or end == 1.0:
        return number(end)
    texts = (f"{end:.{digits}f}" for digits in range(3, 10))
    return next((text for text in texts if float(text) != 1.0), "1.00")


def _title(sure: HowSure) -> str:
    return f"{(sure.ratio or 'coefficient').capitalize()} per standard deviation"


def across(rows: Sequence[Mapping[str, object]], *, is_ratio: bool) -> tuple[alt.Scale, alt.Axis]:
    """Scale and axis that hold all intervals, and no effect.

    Parameters
    ----------
    rows
        With ``value``, ``low`` and ``high``.
    is_ratio
        Whether they are ratios, which stand on a log axis around 1.

    Examples
    --------
    >>> across([{"value": 2.0, "low": 1.5, "high": 3.0}], is_ratio=False)[0].to_dict()
    {'domain': [0.0, 3.0], 'nice': True}
    """
    none = 1.0 if is_ratio else 0.0
    ends = [none] + [
        value
        for row in rows
        for value in (row["value"], row["low"], row["high"])
        if isinstance(value, float)
    ]
    if not is_ratio:
        return alt.Scale(domain=[min(ends), max(ends)], nice=True), alt.Axis(tickCount=6, grid=True)
    farthest = math.exp(_FARTHEST)
    low = max(min(ends), 1.0 / farthest) / 1.1
    high = min(max(ends), farthest) * 1.1
    values = _log_ticks(low, high)
    axis = alt.Axis(values=values, format="~g", grid=True, labelOverlap=True)
    return alt.Scale(type="log", domain=[low, high], nice=False), axis


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two ends, as many as can be read.

    Examples
    --------
    >>> _log_ticks(0.3, 2.4), _log_ticks(0.01, 2000.0)
    ([0.3, 0.5, 0.7, 1.0, 1.5, 2.0], [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0])
    >>> _log_ticks(0.88, 1.2)
    [0.9, 1.0, 1.1, 1.2]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in (_FINE, (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        ticks = [
            float(f"{step}e{power}")
            for power in powers
            for step in steps
            if low <= float(f"{step}e{power}") <= high
        ]
        if len(ticks) <= _MOST_TICKS:
            break
    return ticks
