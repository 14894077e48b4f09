"""Curves of a model of classes: ROC, calibration and decision curve, and figures at a threshold."""

from collections.abc import Sequence

import altair as alt
import polars as pl

from fedsparse.modelling.summary import Calibration, ClassCurves
from fedsparse.report.fit.metric_words import Metric
from fedsparse.report.fit.readable_numbers import SPACE, counted, number, quoted
from fedsparse.report.parts import Charts, Paragraph, Part, Subheading, Table
from fedsparse.report.style import FIRST, LINES, SECOND

_SHARE, _NUMBER = Metric("", is_share=True), Metric("")
_HEIGHT = 240
_MOST_CLASSES = 6
_GUESS = [5, 4]
"""Dashes of the line of a model that knows nothing."""


def curve_parts(curves: Sequence[ClassCurves]) -> list[Part]:
    """A table with a line per class, and three charts for each.

    Parameters
    ----------
    curves
        Of the classes that are told from others; nothing is shown without them.

    Examples
    --------
    >>> curve_parts(())
    []
    """
    if not curves:
        return []
    parts: list[Part] = [
        Subheading("At a threshold, and how far probabilities can be trusted"),
        Table(pl.DataFrame([_line(own) for own in curves])),
        Paragraph(_explanation(curves), is_hint=True),
    ]
    drawn = [own for own in curves if own.points][:_MOST_CLASSES]
    for own in drawn:
        if len(drawn) > 1:
            parts.append(Subheading(f"Telling {quoted(own.label)} from the others"))
        parts.append(Charts([roc_chart(own), calibration_chart(own), decision_chart(own)]))
    return [*parts, *([Paragraph(_reading(drawn[0]), is_hint=True)] if drawn else [])]


def calibration_parts(calibration: Calibration | None) -> list[Part]:
    """What numbers are over what was predicted, in a sentence; nothing without it."""
    if calibration is None:
        return []
    slope = _NUMBER.with_interval(calibration.slope, calibration.slope_interval)
    intercept = _NUMBER.with_interval(calibration.intercept, calibration.intercept_interval)
    return [
        Paragraph(
            f"Calibration: slope {slope}, intercept {intercept}. Best are 1 and 0; a slope below 1 "
            "says that predictions are too extreme."
        )
    ]


def _line(own: ClassCurves) -> dict[str, str]:
    line = {
        "Class": own.label,
        "Rows": f"{own.of_class:,}",
        "AUC": _NUMBER.with_interval(own.auc, own.auc_interval),
        "Sensitivity": _SHARE.with_interval(own.sensitivity, own.sensitivity_interval),
        "Specificity": _SHARE.with_interval(own.specificity, own.specificity_interval),
        "Slope": "–",
        "Intercept": "–",
    }
    if (fit := own.calibration) is not None:
        line["Slope"] = _NUMBER.with_interval(fit.slope, fit.slope_interval)
        line["Intercept"] = _NUMBER.with_interval(fit.intercept, fit.intercept_interval)
    return line


def _explanation(curves: Sequence[ClassCurves]) -> str:
    share = _SHARE.text(curves[0].threshold)
    return (
        f"Rows are taken for a class if its probability is at least {share}. Sensitivity: how many "
        "of its rows are. Specificity: how many of the others are not. Best calibrated are a "
        "slope of 1 and an intercept of 0: a lower slope says that probabilities are too extreme, "
        f"a higher intercept that they are too low. In brackets: 95{SPACE}% intervals. All of it "
        "is worked out from counts of rows in coarse bins of probability."
    )


def _reading(own: ClassCurves) -> str:
    fewest = min(share.rows for share in own.shares)
    return (
        "ROC curve: the further to the upper left, the better; the dashed line is guessing. "
        "Calibration: dots on the dashed line are right, and upright lines are their intervals. "
        "Decision curve: what acting on the model gains over acting on nobody, if acting in vain "
        "weighs as the threshold says; the dashed line acts on everybody. "
        f"Every point stands for {counted(fewest, 'row')} or more."
    )


def roc_chart(own: ClassCurves) -> alt.LayerChart:
    """Sensitivity against one less the specificity."""
    points = [
        {"wrong": 1.0 - point.specificity, "right": point.sensitivity,
         "threshold": _SHARE.text(point.threshold)}
        for point in own.points
    ]  # fmt: skip
    ends = [{"wrong": end, "right": end, "threshold": "–"} for end in (0.0, 1.0)]
    x, y = _across("wrong", "1 − specificity"), _upwards("right", "Sensitivity")
    base = alt.Chart(alt.InlineData([ends[0], *points, ends[1]])).encode(x=x, y=y)
    line = base.mark_line(stroke=FIRST, strokeWidth=1.5).encode(order="right:Q")
    dots = base.mark_point(fill=FIRST, strokeWidth=0, size=40, opacity=1).encode(
        tooltip=[
            alt.Tooltip("threshold:N", title="From a probability of"),
            alt.Tooltip("right:Q", title="Sensitivity", format=".0%"),
            alt.Tooltip("wrong:Q", title="1 − specificity", format=".0%"),
        ]
    )
    return _layers([_diagonal("wrong", "right"), line, dots], own, "ROC curve")


def calibration_chart(own: ClassCurves) -> alt.LayerChart:
    """Observed shares against predicted probabilities."""
    rows = [
        {"predicted": share.predicted, "observed": share.observed, "rows": share.rows,
         **dict(zip(("low", "high"), share.interval or (None, None), strict=True))}
        for share in own.shares
    ]  # fmt: skip
    base = alt.Chart(alt.InlineData(rows)).encode(x=_across("predicted", "Predicted probability"))
    y = _upwards("observed", "Share observed")
    whiskers = base.mark_rule(stroke=SECOND, strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    dots = base.mark_point(fill=SECOND, strokeWidth=0, size=50, opacity=1).encode(
        y=y,
        tooltip=[
            alt.Tooltip("predicted:Q", title="Predicted", format=".0%"),
            alt.Tooltip("observed:Q", title="Observed", format=".0%"),
            alt.Tooltip("rows:Q", title="Rows", format=","),
        ],
    )
    return _layers([_diagonal("predicted", "observed"), whiskers, dots], own, "Calibration curve")


def decision_chart(own: ClassCurves) -> alt.LayerChart:
    """Net benefit against the threshold."""
    least = -0.05 * own.of_class / own.rows
    rows = [
        {"threshold": point.threshold, "benefit": max(point.net_benefit, least),
         "all": point.of_all, "written": number(point.net_benefit)}
        for point in own.points
    ]  # fmt: skip
    x, y = _across("threshold", "Threshold"), alt.Y("benefit:Q", title="Net benefit a row")
    base = alt.Chart(alt.InlineData(rows)).encode(x=x)
    nobody = alt.Chart(alt.InlineData([{"benefit": 0.0}])).mark_rule(stroke=LINES).encode(y=y)
    everybody = base.mark_line(stroke=LINES, strokeDash=_GUESS, clip=True)
    everybody = everybody.transform_filter(f"datum.all >= {least}").encode(y="all:Q")
    line = base.mark_line(stroke=FIRST, strokeWidth=1.5).encode(y=y)
    dots = base.mark_point(fill=FIRST, strokeWidth=0, size=40, opacity=1).encode(
        y=y,
        tooltip=[
            alt.Tooltip("threshold:Q", title="Threshold", format=".1%"),
            alt.Tooltip("written:N", title="Net benefit"),
        ],
    )
    return _layers([nobody, everybody, line, dots], own, "Decision curve")


_AXIS, _SCALE = alt.Axis(format=".0%", tickCount=5), alt.Scale(domain=[0, 1])


def _across(name: str, title: str) -> alt.X:
    return alt.X(f"{name}:Q", title=title, axis=_AXIS, scale=_SCALE)


def _upwards(name: str, title: str) -> alt.Y:
    return alt.Y(f"{name}:Q", title=title, axis=_AXIS, scale=_SCALE)


def _diagonal(x: str, y: str) -> alt.Chart:
    base = alt.Chart(alt.InlineData([{x: end, y: end} for end in (0.0, 1.0)]))
    line: alt.Chart = base.mark_line(stroke=LINES, strokeDash=_GUESS)
    return line.encode(x=f"{x}:Q", y=f"{y}:Q")


def _layers(layers: Sequence[alt.Chart], own: ClassCurves, name: str) -> alt.LayerChart:
    return alt.LayerChart(layer=list(layers)).properties(
        width="container",
        height=_HEIGHT,
        title=name,
        description=f"{name} of {own.label}, from {own.rows:,} held-out rows in coarse bins of "
        "probability.",
    )
