"""Convergence charts, made from one table of runs.

The table has a row per method and round, the start being round 0, with the columns ``method``,
``round``, ``iterations``, ``objective``, ``nonzeros``, ``bytes_down``, ``bytes_up`` and
``seconds``; bytes and seconds count from the start of the run. Where a row stands for several
runs, the columns ``low`` and ``high`` say between which objectives they lie. A method's name may
end in a comma and a variant, as in "Fed-HT, adaptive": variants of an algorithm share its
colour and differ in their dashes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import altair as alt
import polars as pl

from fedsparse.report.points import csv_data, thinned
from fedsparse.report.style import Look, looks, methods_in

POINTS_PER_METHOD = 150
"""More could hardly be told apart on a screen, and would make a page of many charts slow."""

CEILING = 2.0
"""Multiple of f(0) where charts end: x = 0 is a poor model already, and a run that diverges would
leave no room for the others."""

SPAN_FOR_LOG = 10.0
"""Values whose largest is this many times the smallest need a logarithmic axis."""


@dataclass(frozen=True)
class Axis:
    """What the objective is drawn against.

    Parameters
    ----------
    column
        Of the table of runs, or the name of what ``formula`` works out.
    title
        Of the axis.
    scale
        The start, round 0, has no place on a logarithmic one.
    formula
        A Vega expression of the columns of the table.
    numbers
        What readers of a page may change, by the names the formula has for them.
    """

    column: str
    title: str
    scale: Literal["linear", "log"] = "linear"
    formula: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Height:
    """What the column ``objective`` holds.

    Parameters
    ----------
    title
        Of the axis.
    scale
        By default the one that shows the values best.
    floor
        Share of the value at the start below which nothing is shown.
    """

    title: str
    scale: Literal["linear", "log"] | None = None
    floor: float = 0.0


OBJECTIVE = Height("Objective f(x)")
GAP = Height("f(x) − f*", scale="log", floor=1e-4)
"""Above the lowest f that was found; a line that gets there leaves the picture at the bottom."""

ROUNDS = Axis("round", "Communication rounds")
ITERATIONS = Axis("iterations", "Local iterations of each client")
MEGABYTES = Axis("megabytes", "Data sent, both ways (MB)", scale="log")


def convergence_chart(
    history: pl.DataFrame,
    axis: Axis,
    drawn: Mapping[str, Look] | None = None,
    height: Height = OBJECTIVE,
) -> alt.LayerChart:
    """Objective against what it cost: a line per method, in a band where it stands for several.

    Parameters
    ----------
    history
        The table of runs; see the module.
    axis
        Such as `ROUNDS` or `MEGABYTES`.
    drawn
        How each method looks; charts that stand together share it. Those of the table by default.
    height
        What the table has in its column ``objective``.

    Examples
    --------
    >>> history = pl.DataFrame({
    ...     "method": ["Fed-HT", "Fed-HT"], "round": [0, 1], "iterations": [0, 10],
    ...     "objective": [8.0, 2.0], "nonzeros": [0, 20], "bytes_down": [0, 900],
    ...     "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> convergence_chart(history, MEGABYTES).to_dict()["layer"][0]["encoding"]["x"]["title"]
    'Data sent, both ways (MB)'
    """
    marks = _Marks(history, axis, drawn or looks(methods_in(history)), height)
    layers = alt.LayerChart(layer=[*marks.bands(), marks.lines()])
    return layers.properties(width=420, height=320)


def interactive_chart(
    history: pl.DataFrame, axis: Axis, drawn: Mapping[str, Look] | None = None
) -> alt.LayerChart:
    """Build the same chart for a page: as wide as its place, with tooltips.

    The signal ``chosen`` holds the method to bring out, or null for all; the axis's numbers are
    signals, too.

    Parameters
    ----------
    history, axis, drawn
        As in `convergence_chart`.

    Examples
    --------
    >>> history = pl.DataFrame({
    ...     "method": ["Fed-HT", "Fed-HT"], "round": [0, 1], "iterations": [0, 10],
    ...     "objective": [8.0, 2.0], "nonzeros": [0, 20], "bytes_down": [0, 900],
    ...     "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> interactive_chart(history, MEGABYTES).to_dict()["width"]
    'container'
    """
    signals = [alt.param(name=name, value=value) for name, value in axis.numbers.items()]
    nearest = alt.selection_point(
        name="nearest", fields=["method", "round"], on="pointerover", nearest=True, empty=False
    )
    marks = _Marks(history, axis, drawn or looks(methods_in(history)))
    dots = (
        marks.lines()
        .mark_point(filled=True, size=70, clip=True)
        .encode(
            opacity=alt.when(nearest).then(alt.value(1.0)).otherwise(alt.value(0.0)),
            tooltip=_tooltip(axis),
        )
    )
    layers = [
        *(_dimmed(band, 0.15, 0.03) for band in marks.bands()),
        _dimmed(marks.lines(), 1.0, 0.12),
        dots.add_params(nearest),
    ]
    chart = alt.LayerChart(layer=layers).add_params(alt.param(name="chosen", value=None), *signals)
    return chart.properties(width="container", height=320)


def side_by_side(history: pl.DataFrame, axes: Sequence[Axis]) -> alt.HConcatChart:
    """Put convergence charts of the same runs, against several costs, into one picture.

    Parameters
    ----------
    history
        The table of runs; see the module.
    axes
        The costs, from left to right.

    Examples
    --------
    >>> history = pl.DataFrame({
    ...     "method": ["Fed-HT", "Fed-HT"], "round": [0, 1], "iterations": [0, 10],
    ...     "objective": [8.0, 2.0], "nonzeros": [0, 20], "bytes_down": [0, 900],
    ...     "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> len(side_by_side(history, [ROUNDS, MEGABYTES]).hconcat)
    2
    """
    return alt.hconcat(*(convergence_chart(history, axis) for axis in axes))


def scale_for(values: pl.Series) -> Literal["linear", "log"]:
    """Choose the scale that shows all of the values well: by how far the positive ones span.

    Examples
    --------
    >>> scale_for(pl.Series([2.3, 0.4])), scale_for(pl.Series([2300.0, 0.4]))
    ('linear', 'log')
    """
    shown = values.filter(values.is_finite() & (values > 0))
    if shown.is_empty():
        return "linear"
    span = float(shown.max() / shown.min())  # type: ignore[operator, arg-type]
    return "log" if span >= SPAN_FOR_LOG else "linear"


@dataclass(frozen=True)
class _Marks:
    """The lines and bands of one chart."""

    history: pl.DataFrame
    axis: Axis
    drawn: Mapping[str, Look]
    height: Height = OBJECTIVE

    def lines(self) -> alt.Chart:
        # Colour and dash say the same, so they share one legend.
        dashes = [look.dash for look in self.drawn.values()]
        dash = alt.StrokeDash("method:N", title=None)
        lines: alt.Chart = (
            self._canvas()
            .mark_line(strokeWidth=2, clip=True)
            .encode(
                y=self._objective("objective"),
                strokeDash=dash.scale(domain=list(self.drawn), range=dashes),
            )
        )
        return lines

    def bands(self) -> list[alt.Chart]:
        """Between the lowest and the highest of several runs; none if there is one of each."""
        if "low" not in self.history.columns or (self.history["low"] == self.history["high"]).all():
            return []
        area = self._canvas().mark_area(opacity=0.15, clip=True)
        return [area.encode(y=self._objective("low"), y2="high:Q")]

    def _canvas(self) -> alt.Chart:
        chart = alt.Chart(csv_data(_points(self._shown())))
        if self.axis.formula is not None:
            chart = chart.transform_calculate(**{self.axis.column: self.axis.formula})
        if self.axis.scale == "log":
            chart = chart.transform_filter("datum.round > 0")
        x = alt.X(f"{self.axis.column}:Q", title=self.axis.title)
        hues = [look.hue for look in self.drawn.values()]
        color = alt.Color("method:N", title=None)
        encoded: alt.Chart = chart.encode(
            x=x.scale(type=self.axis.scale, nice=False),
            color=color.scale(domain=list(self.drawn), range=hues),
        )
        return encoded

    def _objective(self, column: str) -> alt.Y:
        y = alt.Y(f"{column}:Q", title=self.height.title)
        scale = self.height.scale or scale_for(self.history["objective"])
        return y.scale(type=scale, domain=self._domain(), nice=False)

    def _shown(self) -> pl.DataFrame:
        """The table, with what has no place on a logarithmic axis below its end."""
        if self.height.scale != "log":
            return self.history
        below = self._domain()[0] / 10
        heights = [name for name in ("objective", "low", "high") if name in self.history.columns]
        return self.history.with_columns(pl.col(heights).clip(lower_bound=below))

    def _domain(self) -> list[float]:
        """Room for the lines; of the bands, only what lies between."""
        low = "low" if "low" in self.history.columns else "objective"
        median, start = pl.col("objective"), pl.col("objective").filter(pl.col("round") == 0).max()
        shown = self.history.filter(median.is_finite(), median > 0)
        lowest, highest, first = shown.select(
            low=pl.col(low).filter(pl.col(low) > 0).min(), high=median.max(), start=start
        ).row(0)
        floor = self.height.floor * first
        return [max(lowest, floor), min(highest, CEILING * first)]


def _dimmed(chart: alt.Chart, in_front: float, behind: float) -> alt.Chart:
    """Fade what belongs to other methods than the chosen one."""
    is_in_front = "chosen === null || chosen === datum.method"
    faded: alt.Chart = chart.encode(
        opacity=alt.when(is_in_front).then(alt.value(in_front)).otherwise(alt.value(behind))
    )
    return faded


def _points(history: pl.DataFrame) -> pl.DataFrame:
    """Keep the rows and the digits a chart can show."""
    megabytes = (pl.col("bytes_down") + pl.col("bytes_up")) / 1e6
    table = history.with_columns(megabytes=megabytes).drop("bytes_down", "bytes_up")
    table = table.filter(pl.col("objective").is_finite(), pl.col("objective") > 0)
    table = table.with_columns(pl.selectors.float().round_sig_figs(6))
    return thinned(table, ["method"], POINTS_PER_METHOD)


def _tooltip(axis: Axis) -> list[alt.Tooltip]:
    worked_out = [] if axis.formula is None else [(axis.column, axis.title, ".4~g")]
    return [
        alt.Tooltip("method:N", title="Method"),
        *(
            alt.Tooltip(f"{column}:Q", title=title, format=form)
            for column, title, form in [
                ("round", "Round", ","),
                ("objective", "Objective", ".4~g"),
                ("iterations", "Local iterations", ","),
                ("nonzeros", "Nonzeros", ","),
                ("megabytes", "MB sent", ".3~f"),
                ("seconds", "Seconds computing", ".2f"),
                *worked_out,
            ]
        ),
    ]
