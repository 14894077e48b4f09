"""Figures 4, 5, 6 and 8: the methods compared, a panel per experiment."""

from collections.abc import Callable, Sequence

import altair as alt

from fedsparse.report.convergence_charts import ITERATIONS, ROUNDS, Axis, convergence_chart
from fedsparse.report.final_runs import final_history, method_looks
from fedsparse.research.experiments.experiment_tables import Tables

PICTURE_WIDTH = 960
"""Points; what a page shows at full size."""

WIDEST_PANEL = 420
PANEL_HEIGHT = 250
ROOM_FOR_AXIS = 70


def comparison(tables: Tables, experiments: Sequence[str], title: str) -> alt.ConcatChart:
    """Objective against rounds above, against local iterations below; experiments side by side.

    Parameters
    ----------
    tables
        ``results`` has the final runs.
    experiments
        The columns.
    title
        Of the whole.
    """
    panels = [(name, axis) for axis in (ROUNDS, ITERATIONS) for name in experiments]
    return _figure(tables, panels, len(experiments), title)


def costs(
    tables: Tables, experiments: Sequence[str], axis_of: Callable[[str], Axis], title: str
) -> alt.ConcatChart:
    """Objective against a cost, a panel per experiment.

    Parameters
    ----------
    tables, experiments, title
        As in `comparison`.
    axis_of
        The cost, given the experiment.
    """
    panels = [(name, axis_of(name)) for name in experiments]
    return _figure(tables, panels, min(3, len(experiments)), title)


def _figure(
    tables: Tables, panels: Sequence[tuple[str, Axis]], columns: int, title: str
) -> alt.ConcatChart:
    looks = method_looks(tables)
    width = min(WIDEST_PANEL, PICTURE_WIDTH // columns - ROOM_FOR_AXIS)
    charts = [
        convergence_chart(final_history(tables, name), axis, looks).properties(
            title=alt.TitleParams(tables.title(name), fontSize=14, anchor="middle"),
            width=width,
            height=PANEL_HEIGHT,
        )
        for name, axis in panels
    ]
    subtitle = "line: median over seeds; band: lowest to highest"
    heading = alt.TitleParams(title, subtitle=subtitle, offset=14)
    return alt.concat(*charts, columns=columns, spacing=20).properties(title=heading)
