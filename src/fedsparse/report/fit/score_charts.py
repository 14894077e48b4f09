"""Charts of metrics: a row per site, a mark per way of learning."""

from collections.abc import Sequence

import altair as alt
import polars as pl

from fedsparse.modelling.summary import Score
from fedsparse.report.convergence_charts import scale_for
from fedsparse.report.fit.chart_axes import close_scale, names_axis
from fedsparse.report.fit.metric_words import Metric, metric_of
from fedsparse.report.fit.readable_numbers import number
from fedsparse.report.parts import Symbol
from fedsparse.report.style import FIRST, SECOND, THIRD

SYMBOLS = {
    "federated": Symbol("circle", FIRST),
    "alone": Symbol("square", SECOND),
    "pooled": Symbol("triangle", THIRD),
}
"""How ways of learning are drawn."""

VEGA_SHAPES = {"circle": "circle", "square": "square", "triangle": "triangle-up"}

ROW = 30
"""Points of height for a site, which holds a mark for each way of learning."""


def score_chart(scores: Sequence[Score], name: str) -> alt.LayerChart:
    """Dots for one metric: a row per site, a colour and a shape per way of learning.

    Parameters
    ----------
    scores
        From top to bottom.
    name
        Of the metric.

    Examples
    --------
    >>> score = Score(method="federated", site="Bari", rows=40, metrics={"R²": 0.7})
    >>> score_chart([score], "R²").to_dict()["layer"][0]["encoding"]["x"]["title"]
    'R²'
    """
    metric = metric_of(name)
    rows = [_row(score, name) for score in scores if score.metrics.get(name) is not None]
    methods, symbols = list(SYMBOLS), list(SYMBOLS.values())
    colours = [symbol.colour for symbol in symbols]
    fill, shapes = alt.Fill("method:N", legend=None), alt.Shape("method:N", legend=None)
    stroke = alt.Stroke("method:N", legend=None).scale(domain=methods, range=colours)
    chart = alt.Chart(alt.InlineData(rows)).encode(
        y=alt.Y("site:N", sort=None, title=None, axis=names_axis(has_lines=True)),
        yOffset=alt.YOffset("method:N", sort=methods),
        tooltip=_tooltip(metric),
    )
    dots = chart.mark_point(size=60, strokeWidth=0, opacity=1).encode(
        x=_values(metric, scores, name),
        fill=fill.scale(domain=methods, range=colours),
        shape=shapes.scale(domain=methods, range=[VEGA_SHAPES[symbol.shape] for symbol in symbols]),
    )
    intervals = chart.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=1.5)
    intervals = intervals.encode(x="low:Q", x2="high:Q", stroke=stroke)
    has_intervals = any(row["low"] is not None for row in rows)
    return alt.LayerChart(layer=[dots, intervals] if has_intervals else [dots]).properties(
        width="container",
        height=ROW * len({row["site"] for row in rows}),
        description=f"Dot chart of {metric.label} by site and way of learning, with 95 % "
        "intervals; the table below has the same numbers.",
    )


def site_of(score: Score) -> str:
    """Whose rows a score is about.

    Examples
    --------
    >>> site_of(Score(method="pooled", site=None, rows=40, metrics={}))
    'All sites together'
    """
    return "All sites together" if score.site is None else score.site


def _row(score: Score, name: str) -> dict[str, object]:
    metric, value, around = metric_of(name), score.metrics[name], score.intervals.get(name)
    assert value is not None
    return {
        "site": site_of(score),
        "method": score.method,
        "value": metric.drawn(value),
        "low": None if around is None else metric.drawn(around[0]),
        "high": None if around is None else metric.drawn(around[1]),
        "written": metric.with_interval(value, around),
        "rows": score.rows,
    }


def _values(metric: Metric, scores: Sequence[Score], name: str) -> alt.X:
    known = [score.metrics.get(name) for score in scores]
    limits = [limit for score in scores for limit in score.intervals.get(name) or ()]
    values = [value for value in (*known, *limits) if value is not None]
    title = metric.label
    if metric.floor is not None and min(values) < metric.floor:
        title = f"{title} (what is below {number(metric.floor)} is drawn there)"
    scale = scale_for(pl.Series(values, dtype=pl.Float64)) if metric.is_error else "linear"
    # A label that would stand out at the end is left out rather than cut by the chart's edge.
    axis = alt.Axis(format=".0%" if metric.is_share else "~g", tickCount=5, labelBound=True)
    return alt.X("value:Q", title=title, axis=axis).scale(close_scale(scale, 10))


def _tooltip(metric: Metric) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("site:N", title="Site"),
        alt.Tooltip("method:N", title="Learned"),
        alt.Tooltip("written:N", title=metric.label),
        alt.Tooltip("rows:Q", title="Rows", format=","),
    ]
