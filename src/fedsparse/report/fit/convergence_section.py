"""The section on what learning took: rounds, and data sent."""

import math
from collections.abc import Sequence

import altair as alt
import polars as pl

from fedsparse.modelling.summary import FitSummary, RoundRecord
from fedsparse.report.convergence_charts import POINTS_PER_METHOD, scale_for
from fedsparse.report.fit.chart_axes import close_scale
from fedsparse.report.fit.readable_numbers import counted, number, size
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Paragraph, Part, Table
from fedsparse.report.points import thinned
from fedsparse.report.style import FIRST

COSTS = {"round": "Communication rounds", "megabytes": "Data sent, both ways (MB)"}
"""What the objective is drawn against."""


def convergence_sections(summary: FitSummary) -> list[Section]:
    """Objective against rounds and data, and what the other steps cost; nothing without a history.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> convergence_sections(FitSummary(
    ...     title="", created="", model=model, source="a.csv", columns={}, sites=(), candidates=12,
    ...     history=(), settings={}))
    []
    """
    history = [record for record in summary.history if math.isfinite(record.objective)]
    if not history:
        return []
    parts: list[Part] = [Paragraph(_explanation(history[-1]))]
    if len(history) > 1:
        parts.append(Charts([objective_chart(history, cost) for cost in COSTS]))
    steps = _steps(summary)
    if len(steps) > 1:
        parts.append(Table(pl.DataFrame(steps)))
    return [Section("What learning took", parts)]


def objective_chart(history: Sequence[RoundRecord], cost: str) -> alt.LayerChart:
    """The objective, which learning makes small, against what that cost.

    Parameters
    ----------
    history
        With finite objectives.
    cost
        One of `COSTS`.

    Examples
    --------
    >>> history = [RoundRecord(round=place, objective=objective, nonzeros=5,
    ...                        bytes_down=900 * place, bytes_up=1600 * place, seconds=0.1 * place)
    ...            for place, objective in enumerate([90.0, 3.0, 2.5])]
    >>> objective_chart(history, "round").to_dict()["layer"][0]["encoding"]["y"]["scale"]["type"]
    'log'
    """
    points = _points(history)
    scales = {column: scale_for(points[column]) for column in (cost, "objective")}
    for column, scale in scales.items():
        if scale == "log":
            points = points.filter(pl.col(column) > 0)  # the rest has no place on such an axis
    x = alt.X(f"{cost}:Q", title=COSTS[cost], scale=close_scale(scales[cost], 8))
    y = alt.Y("objective:Q", title="Objective (lower is better)")
    steps = alt.Axis(grid=False, tickMinStep=1 if cost == "round" else alt.Undefined)
    base = alt.Chart(alt.InlineData(points.to_dicts())).encode(
        x=x.axis(steps), y=y.scale(close_scale(scales["objective"], 8))
    )
    line = base.mark_line(stroke=FIRST, strokeWidth=2)
    dots = base.mark_point(fill=FIRST, strokeWidth=0, size=45, opacity=1).encode(
        tooltip=[
            alt.Tooltip("round:Q", title="Round", format=","),
            alt.Tooltip("objective:Q", title="Objective", format=".4~g"),
            alt.Tooltip("nonzeros:Q", title="Coefficients that are not zero", format=","),
            alt.Tooltip("megabytes:Q", title="MB sent", format=".3~g"),
            alt.Tooltip("seconds:Q", title="Seconds computing", format=".2f"),
        ]
    )
    return alt.LayerChart(layer=[line, dots]).properties(
        width="container",
        height=240,
        description=f"The objective against {COSTS[cost].lower()}: from "
        f"{number(history[0].objective)} to {number(history[-1].objective)}.",
    )


def _points(history: Sequence[RoundRecord]) -> pl.DataFrame:
    table = pl.DataFrame([record.model_dump() for record in history])
    megabytes = (pl.col("bytes_down") + pl.col("bytes_up")) / 1e6
    table = table.with_columns(megabytes=megabytes.round_sig_figs(6), run=pl.lit("fit"))
    return thinned(table, ["run"], POINTS_PER_METHOD).drop("run", "bytes_down", "bytes_up")


def _explanation(last: RoundRecord) -> str:
    return (
        "In a round the server asks every site something about its rows, such as in which "
        "direction the coefficients should change, and combines the answers. The final model took "
        f"{counted(last.round, 'round')} and {size(last.bytes_down + last.bytes_up)} to and from "
        "all sites. The objective is the model's average error on the rows it learnt from."
        f"{_absence(last)}"
    )


def _absence(last: RoundRecord) -> str:
    """What did not come, on a network."""
    if last.absent == 0:
        return ""
    return f" {counted(last.absent, 'answer')} did not come; the others counted for more."


def _steps(summary: FitSummary) -> list[dict[str, str]]:
    last = summary.history[-1]
    steps = [_step("Learning the final model", last.round, last.bytes_down + last.bytes_up)]
    if summary.selection:
        chosen = summary.selection
        sent = chosen.bytes_down + chosen.bytes_up
        steps.append(_step("Choosing the number of features", chosen.rounds, sent))
    if summary.stability:
        steps.append(_step("Stability", summary.stability.rounds, None))
    if summary.evaluation and summary.evaluation.rounds:
        steps.append(_step("Judging on held-out rows", summary.evaluation.rounds, None))
    if summary.exchanges:  # all steps that do not wait for each other share their messages
        steps.append(_step("Everything, in lockstep", summary.exchanges, None))
    return steps


def _step(name: str, rounds: int, sent: int | None) -> dict[str, str]:
    return {
        "Step": name,
        "Rounds": f"{rounds:,}",
        "Data sent": "not counted" if sent is None else size(sent),
    }
