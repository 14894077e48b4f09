"""Figure 3: every number of local steps and every step size of the grid."""

import math
from collections.abc import Sequence

import altair as alt
import polars as pl

from fedsparse.engines.run import HOPELESS
from fedsparse.report.points import csv_data, thinned
from fedsparse.research.experiments.experiment_tables import ALGORITHMS, REFERENCE, Tables

STEP_HUES = (
    *("#1a237e", "#1976d2", "#00a5b5", "#2e9e4f", "#93ad15"),
    *("#e0a800", "#f07818", "#d32f2f", "#7b1042"),
)
"""From the smallest step size to the largest."""

POINTS_PER_RUN = 80
PANEL_WIDTH, PANEL_HEIGHT = 205, 190

ROOM_ABOVE, ROOM_BELOW = 1.2, 1.05
"""Multiples of f(0) and of the lowest f where panels end."""

_FEWEST_TICKS = 3
"""Of which an axis can be read."""

DRAWN, HIGH, DIVERGED = "drawn", "ended above f(0)", "diverged"
"""What became of a setting."""


def grid_figure(tables: Tables, experiment: str) -> alt.VConcatChart:
    """Objective against rounds: columns for K, rows for the algorithm, colours for γ.

    A setting that diverged, or ended above f(0), has no line, and a K without any line no panel:
    words tell of them.

    Parameters
    ----------
    tables
        ``results`` has the runs of the grid.
    experiment
        Whose grid to draw.
    """
    runs = _with_endings(_grid_runs(tables, experiment))
    lines = runs.filter(ending=DRAWN)
    rows = []
    for algorithm in (name for name in ALGORITHMS if name in lines["algorithm"]):
        counts = lines.filter(algorithm=algorithm)["local_steps"].unique().sort().to_list()
        panels = [_panel(runs, algorithm, steps, is_left=steps == counts[0]) for steps in counts]
        rows.append(alt.hconcat(*panels, spacing=14))
    title = alt.TitleParams(
        f"{tables.title(experiment)}: every K and γ of the grid",
        subtitle=_about(runs),
        offset=14,
    )
    return alt.vconcat(*rows, spacing=14).properties(title=title)


def has_grid(tables: Tables, experiment: str) -> bool:
    """Whether there are lines to draw."""
    return not _with_endings(_grid_runs(tables, experiment)).filter(ending=DRAWN).is_empty()


def _grid_runs(tables: Tables, experiment: str) -> pl.DataFrame:
    return tables.results.filter(
        pl.col("experiment") == experiment,
        pl.col("stage") == "grid",
        pl.col("algorithm") != REFERENCE,  # takes one local step: it has no column for K
        pl.col("step_size").is_not_null(),
        pl.col("objective") > 0,
    )


def _with_endings(runs: pl.DataFrame) -> pl.DataFrame:
    """Rows in order, with what became of the setting."""
    setting = ["algorithm", "local_steps", "step_size", "seed"]
    runs = runs.sort(*setting, "round")
    first, last = (
        pl.col("objective").first().over(setting),
        pl.col("objective").last().over(setting),
    )
    ending = (
        pl.when("diverged")
        .then(pl.lit(DIVERGED))
        .when(last > first)
        .then(pl.lit(HIGH))
        .otherwise(pl.lit(DRAWN))
    )
    runs = runs.with_columns(ending=ending, objective=pl.col("objective").round_sig_figs(5))
    return thinned(runs, setting, POINTS_PER_RUN)


def _panel(runs: pl.DataFrame, algorithm: str, steps: int, *, is_left: bool) -> alt.LayerChart:
    """One algorithm at one K, on the scales of all; the left ones name the values."""
    mine = runs.filter(pl.col("algorithm") == algorithm, pl.col("local_steps") == steps)
    lines = runs.filter(ending=DRAWN)
    lowest, start, last = lines.select(
        low=pl.col("objective").min(),
        start=pl.col("objective").filter(pl.col("round") == 0).max(),
        last=pl.col("round").max(),
    ).row(0)
    x = alt.X("round:Q", title="Communication rounds")
    y = alt.Y("objective:Q", title="Objective f(x)" if is_left else None)
    lowest, top = lowest / ROOM_BELOW, ROOM_ABOVE * start
    y = y.axis(labels=is_left, ticks=is_left, format="~g", values=_ticks(lowest, top))
    chart = (
        alt.Chart(csv_data(_drawn(mine.filter(ending=DRAWN))))
        .mark_line(strokeWidth=1.8, clip=True)
        .encode(
            x=x.scale(domain=[0, last], nice=False),
            y=y.scale(type="log", domain=[lowest, top], nice=False),
            color=_step_colours(runs),
            detail="seed:N",
        )
    )
    title = alt.TitleParams(
        f"{algorithm}, K = {steps}",
        subtitle=_not_drawn(mine),
        frame="group",
        fontSize=13,
        subtitleFontSize=12,
    )
    return alt.LayerChart(layer=[chart]).properties(
        title=title, width=PANEL_WIDTH, height=PANEL_HEIGHT
    )


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten; where few of them fall on the axis, every multiple.

    Vega's own would be crowded on less than a decade.

    Examples
    --------
    >>> _ticks(0.4, 60.0), _ticks(0.38, 0.75)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [0.4, 0.5, 0.6, 0.7])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values: list[float] = []
    for multiples in ((1, 2, 5), range(1, 10)):
        values = [float(f"{times}e{power}") for power in powers for times in multiples]
        values = [value for value in values if low <= value <= high]
        if len(values) >= _FEWEST_TICKS:
            break
    return values


def _drawn(points: pl.DataFrame) -> pl.DataFrame:
    """Only the columns a panel encodes, step sizes as text so that they are told apart."""
    step = pl.col("step_size").map_elements(_text, return_dtype=pl.String)
    return points.select(step.alias("step"), "seed", "round", "objective")


def _step_colours(runs: pl.DataFrame) -> alt.Color:
    """Of the whole grid, so that a step size has the same colour in every figure."""
    steps = runs["step_size"].unique().sort().to_list()
    places = [
        round(place * (len(STEP_HUES) - 1) / max(1, len(steps) - 1)) for place in range(len(steps))
    ]
    colours = alt.Color("step:N", title="Step size γ").scale(
        domain=[_text(step) for step in steps], range=[STEP_HUES[place] for place in places]
    )
    drawn = runs.filter(ending=DRAWN)["step_size"].unique().sort().to_list()
    return colours.legend(values=[_text(step) for step in drawn], columns=5, columnPadding=14)


def _about(runs: pl.DataFrame) -> list[str]:
    """The rule, and which K have no panel."""
    about = [f"diverged: f is no finite number, or above {HOPELESS:,.0f} f(0)"]
    for (algorithm,), own in runs.group_by("algorithm", maintain_order=True):
        with_lines = set(own.filter(ending=DRAWN)["local_steps"])
        alike: dict[str, list[str]] = {}
        for steps in own["local_steps"].unique().sort():
            if steps not in with_lines:
                ends = "; ".join(_not_drawn(own.filter(local_steps=steps)))
                alike.setdefault(ends, []).append(str(steps))
        about += [
            f"no panel: {algorithm}, K = {' and '.join(steps)}: {ends}"
            for ends, steps in alike.items()
        ]
    return about


def _not_drawn(own: pl.DataFrame) -> list[str]:
    """Say which of the step sizes of an algorithm and K have no line, and why."""
    grid = own["step_size"].unique().sort().to_list()
    words = []
    for ending in (DIVERGED, HIGH):
        steps = own.filter(ending=ending)["step_size"].unique().sort().to_list()
        if steps:
            words.append(f"{_which(steps, grid)} {ending}")
    return words or ["none diverged"]


def _which(steps: Sequence[float], grid: Sequence[float]) -> str:
    """Some step sizes of the grid in few words."""
    if len(steps) == len(grid):
        return "every γ"
    begin = grid.index(steps[0])
    if len(steps) > 1 and list(steps) == list(grid[begin : begin + len(steps)]):
        if steps[-1] == grid[-1]:
            return f"γ ≥ {_text(steps[0])}"
        return f"γ = {_text(steps[0])} to {_text(steps[-1])}"
    return f"γ = {', '.join(map(_text, steps))}"


def _text(step: float) -> str:
    return f"{step:g}"
