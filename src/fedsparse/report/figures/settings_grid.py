"""Figure 3: every number of local steps and every step size of the grid."""

import altair as alt
import polars as pl

from fedsparse.report.convergence_charts import CEILING
from fedsparse.report.points import csv_data, thinned
from fedsparse.research.experiments.experiment_tables import ALGORITHMS, REFERENCE, Tables

STEP_HUES = (
    *("#1a237e", "#1976d2", "#00a5b5", "#2e9e4f", "#93ad15"),
    *("#e0a800", "#f07818", "#d32f2f", "#7b1042"),
)
"""From the smallest step size to the largest."""

POINTS_PER_RUN = 80
PANEL_WIDTH, PANEL_HEIGHT = 205, 190


def grid_figure(tables: Tables, experiment: str) -> alt.ConcatChart:
    """Objective against rounds: columns for K, rows for the algorithm, colours for γ.

    Parameters
    ----------
    tables
        ``results`` has the runs of the grid.
    experiment
        Whose grid to draw.
    """
    points = _points(tables, experiment)
    algorithms = [name for name in ALGORITHMS if name in points["algorithm"]]
    counts = points["local_steps"].unique().sort().to_list()
    panels = [
        _panel(points, algorithm, steps, is_left=steps == counts[0])
        for algorithm in algorithms
        for steps in counts
    ]
    title = alt.TitleParams(
        f"{tables.title(experiment)}: every K and γ of the grid",
        subtitle=f"×: a run diverged; values above {CEILING:g} f(0) are drawn at the top",
        offset=14,
    )
    return alt.concat(*panels, columns=len(counts), spacing=14).properties(title=title)


def has_grid(tables: Tables, experiment: str) -> bool:
    """Whether there are runs to draw."""
    return not _grid_runs(tables, experiment).is_empty()


def _grid_runs(tables: Tables, experiment: str) -> pl.DataFrame:
    return tables.results.filter(
        pl.col("experiment") == experiment,
        pl.col("stage") == "grid",
        pl.col("algorithm") != REFERENCE,  # takes one local step: it has no column for K
        pl.col("step_size").is_not_null(),
        pl.col("objective") > 0,
    )


def _points(tables: Tables, experiment: str) -> pl.DataFrame:
    """Rows to draw, cut off at the ceiling, with ``ended`` where a run diverged."""
    setting = ["algorithm", "local_steps", "step_size", "seed"]
    runs = _grid_runs(tables, experiment).sort(*setting, "round")
    ceiling = CEILING * pl.col("objective").first().over(setting)
    is_over = ~pl.col("objective").is_finite() | (pl.col("objective") > ceiling)
    overs_before = is_over.cast(pl.Int64).cum_sum().over(setting) - is_over.cast(pl.Int64)
    runs = runs.with_columns(
        objective=pl.when(is_over).then(ceiling).otherwise("objective").round_sig_figs(5),
        is_past=pl.col("diverged") & (overs_before > 0),
    ).filter(~pl.col("is_past"))
    is_last = pl.col("round") == pl.col("round").max().over(setting)
    runs = runs.with_columns(ended=pl.col("diverged") & is_last)
    return thinned(runs, setting, POINTS_PER_RUN).select(*setting, "round", "objective", "ended")


def _panel(points: pl.DataFrame, algorithm: str, steps: int, *, is_left: bool) -> alt.LayerChart:
    """One algorithm at one K, on the scales of all; the left ones name the values."""
    mine = points.filter(pl.col("algorithm") == algorithm, pl.col("local_steps") == steps)
    lowest, highest, last = points.select(
        low=pl.col("objective").min(), high=pl.col("objective").max(), last=pl.col("round").max()
    ).row(0)
    x = alt.X("round:Q", title="Communication rounds")
    y = alt.Y("objective:Q", title="Objective f(x)" if is_left else None)
    y = y.axis(labels=is_left, ticks=is_left, format="~g")
    where = {  # with a margin for the crosses
        "x": x.scale(domain=[-0.03 * last, 1.02 * last], nice=False),
        "y": y.scale(type="log", domain=[lowest, 1.1 * highest], nice=False),
        "color": _step_colours(points),
    }
    lines = alt.Chart(csv_data(_drawn(mine))).mark_line(strokeWidth=1.8)
    crosses = alt.Chart(csv_data(_drawn(mine.filter("ended")))).mark_point(
        shape="M-1,-1L1,1M-1,1L1,-1", size=60, strokeWidth=2, opacity=1
    )
    title = alt.TitleParams(
        f"{algorithm}, K = {steps}",
        subtitle=_divergence(mine),
        frame="group",
        fontSize=13,
        subtitleFontSize=12,
    )
    drawn = [lines.encode(**where, detail="seed:N"), crosses.encode(**where)]
    return alt.LayerChart(layer=drawn).properties(
        title=title, width=PANEL_WIDTH, height=PANEL_HEIGHT
    )


def _drawn(points: pl.DataFrame) -> pl.DataFrame:
    """Only the columns a panel encodes, step sizes as text so that they are told apart."""
    step = pl.col("step_size").map_elements(_text, return_dtype=pl.String)
    return points.select(step.alias("step"), "seed", "round", "objective")


def _step_colours(points: pl.DataFrame) -> alt.Color:
    steps = points["step_size"].unique().sort().to_list()
    places = [
        round(place * (len(STEP_HUES) - 1) / max(1, len(steps) - 1)) for place in range(len(steps))
    ]
    colours = alt.Color("step:N", title="Step size γ").scale(
        domain=[_text(step) for step in steps], range=[STEP_HUES[place] for place in places]
    )
    return colours.legend(columns=len(steps), columnPadding=14)


def _divergence(points: pl.DataFrame) -> str:
    """Say which runs diverged: crosses at the same place hide each other."""
    diverged = points.filter("ended")["step_size"].unique().sort().to_list()
    kept = [step for step in points["step_size"].unique() if step not in diverged]
    if not diverged:
        return "none diverged"
    if not kept:
        return "all diverged"
    if len(diverged) > 1 and max(kept) < diverged[0]:
        return f"γ ≥ {_text(diverged[0])} diverged"
    return f"γ = {', '.join(map(_text, diverged))} diverged"


def _text(step: float) -> str:
    return f"{step:g}"
