"""Figures 4, 5, 6, 8 and 9: the methods compared, a panel per experiment."""

from collections.abc import Callable, Sequence

import altair as alt
import polars as pl

from fedsparse.report.convergence_charts import (
    GAP,
    ITERATIONS,
    OBJECTIVE,
    ROUNDS,
    Axis,
    Height,
    convergence_chart,
)
from fedsparse.report.final_runs import (
    about_lowest,
    final_history,
    final_runs,
    gap_history,
    method_looks,
)
from fedsparse.report.style import Look
from fedsparse.research.experiments.experiment_tables import ALGORITHMS, Tables

PICTURE_WIDTH = 960
"""Points; what a page shows at full size."""

WIDEST_PANEL = 420
PANEL_HEIGHT = 250
ROOM_FOR_AXIS = 70


def comparison(
    tables: Tables, experiments: Sequence[str], title: str, height: Height = OBJECTIVE
) -> alt.ConcatChart:
    """The paper's three against rounds above, against local iterations below.

    Parameters
    ----------
    tables
        ``results`` has the final runs.
    experiments
        The columns.
    title
        Of the whole.
    height
        f, or f − f*.
    """
    panels = [(name, axis) for axis in (ROUNDS, ITERATIONS) for name in experiments]
    looks = {name: look for name, look in method_looks(tables).items() if name in ALGORITHMS}
    return _figure(tables, panels, looks, len(experiments), title, height)


def untuned(tables: Tables, experiments: Sequence[str], title: str) -> alt.ConcatChart:
    """What has no γ to choose, and is not the paper's, against rounds.

    Parameters
    ----------
    tables, experiments, title
        As in `comparison`.
    """
    panels = [(name, ROUNDS) for name in experiments]
    looks = {name: look for name, look in method_looks(tables).items() if name not in ALGORITHMS}
    return _figure(tables, panels, looks, min(3, len(experiments)), title, GAP)


def has_untuned(tables: Tables, experiment: str) -> bool:
    """Whether `untuned` has something to draw of an experiment."""
    return not set(final_runs(tables, experiment)["method"]) <= set(ALGORITHMS)


def costs(
    tables: Tables, experiments: Sequence[str], axis_of: Callable[[str], Axis], title: str
) -> alt.ConcatChart:
    """Objective of all methods against a cost, a panel per experiment.

    Parameters
    ----------
    tables, experiments, title
        As in `comparison`.
    axis_of
        The cost, given the experiment.
    """
    panels = [(name, axis_of(name)) for name in experiments]
    looks = method_looks(tables)
    return _figure(tables, panels, looks, min(3, len(experiments)), title, OBJECTIVE)


def _figure(
    tables: Tables,
    panels: Sequence[tuple[str, Axis]],
    looks: dict[str, Look],
    columns: int,
    title: str,
    height: Height,
) -> alt.ConcatChart:
    width = min(WIDEST_PANEL, PICTURE_WIDTH // columns - ROOM_FOR_AXIS)
    read = gap_history if height is GAP else final_history
    charts = [
        convergence_chart(
            read(tables, name).filter(pl.col("method").is_in(list(looks))), axis, looks, height
        ).properties(
            title=alt.TitleParams(tables.title(name), fontSize=14, anchor="middle"),
            width=width,
            height=PANEL_HEIGHT,
        )
        for name, axis in panels
    ]
    subtitle = ["line: median over seeds; band: lowest to highest"]
    if height is GAP:
        subtitle.append(about_lowest(tables, list(dict.fromkeys(name for name, _ in panels))))
        subtitle.append(
            f"a line that leaves a panel at the bottom gets below {GAP.floor:g} (f(0) − f*)"
        )
    heading = alt.TitleParams(title, subtitle=subtitle, offset=14)
    return alt.concat(*charts, columns=columns, spacing=20).properties(title=heading)
