"""Convergence charts, made from one table of runs.

The table has a row per method and round, the start being round 0, with the columns ``method``,
``round``, ``iterations``, ``objective``, ``nonzeros``, ``bytes_down``, ``bytes_up`` and
``seconds``; bytes and seconds count from the start of the run. A method's name may end in a comma
and a variant, as in "Fed-HT, extrapolated": variants of an algorithm share its colour and differ
in their dashes.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import altair as alt
import polars as pl

from fedsparse.files import write_atomically

Against = Literal["round", "megabytes"]

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""One per algorithm, after Okabe and Ito: told apart by colour-blind readers too."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))
"""One per variant of an algorithm."""

POINTS_PER_METHOD = 400
"""More could not be told apart on a screen, and would make the page slow."""

AXES: dict[Against, tuple[str, Literal["linear", "log"]]] = {
    "round": ("Communication rounds", "linear"),
    "megabytes": ("Data sent, both ways (MB)", "log"),
}

STYLE = alt.Config(
    axis=alt.AxisConfig(labelFontSize=12, titleFontSize=13, titlePadding=8, gridColor="#e8e8e8"),
    legend=alt.LegendConfig(
        orient="bottom",
        columns=2,
        columnPadding=24,
        labelFontSize=13,
        labelLimit=0,
        symbolSize=700,
        symbolStrokeWidth=2.5,
    ),
    view=alt.ViewConfig(stroke=None),
)
"""What all charts of a report share; belongs to a whole picture, not to its parts."""


@dataclass(frozen=True)
class Look:
    """How a method's line is drawn."""

    hue: str
    dash: tuple[int, ...]


def looks(methods: Sequence[str]) -> dict[str, Look]:
    """Give each algorithm a hue, and each of its variants a dash.

    Parameters
    ----------
    methods
        Names; what comes before a comma is the algorithm.

    Examples
    --------
    >>> looks(["Fed-HT", "Fed-HT, extrapolated"])["Fed-HT, extrapolated"]
    Look(hue='#0072B2', dash=(6, 3))
    """
    variants: dict[str, list[str]] = {}
    for method in methods:
        variants.setdefault(method.split(",")[0], []).append(method)
    return {
        method: Look(HUES[place % len(HUES)], DASHES[variant % len(DASHES)])
        for place, names in enumerate(variants.values())
        for variant, method in enumerate(names)
    }


def convergence_chart(history: pl.DataFrame, against: Against) -> alt.Chart:
    """Objective, on a logarithmic axis, against what it cost: a line per method.

    Parameters
    ----------
    history
        The table of runs; see the module.
    against
        ``"round"`` for communication rounds, ``"megabytes"`` for what was sent both ways.

    Examples
    --------
    >>> history = pl.DataFrame({
    ...     "method": ["Fed-HT", "Fed-HT"], "round": [0, 1], "iterations": [0, 10],
    ...     "objective": [8.0, 2.0], "nonzeros": [0, 20], "bytes_down": [0, 900],
    ...     "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> convergence_chart(history, "megabytes").to_dict()["encoding"]["x"]["title"]
    'Data sent, both ways (MB)'
    """
    drawn = looks(methods_in(history))
    hues = [look.hue for look in drawn.values()]
    dashes = [look.dash for look in drawn.values()]
    title, scale = AXES[against]
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(_points(history, against).to_dicts()))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X(f"{against}:Q", title=title).scale(type=scale, nice=False),
            y=alt.Y("objective:Q", title="Objective f(x)").scale(type="log", nice=False),
            # Colour and dash say the same, so they share one legend.
            color=alt.Color("method:N", title=None).scale(domain=list(drawn), range=hues),
            strokeDash=alt.StrokeDash("method:N", title=None).scale(
                domain=list(drawn), range=dashes
            ),
        )
        .properties(width=420, height=320)
    )
    return chart


def interactive_chart(history: pl.DataFrame, against: Against) -> alt.LayerChart:
    """Build the same chart for a page: as wide as its place, with tooltips.

    The signal ``chosen`` holds the method to bring out, or null for all.

    Parameters
    ----------
    history, against
        As in `convergence_chart`.

    Examples
    --------
    >>> history = pl.DataFrame({
    ...     "method": ["Fed-HT", "Fed-HT"], "round": [0, 1], "iterations": [0, 10],
    ...     "objective": [8.0, 2.0], "nonzeros": [0, 20], "bytes_down": [0, 900],
    ...     "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> interactive_chart(history, "megabytes").to_dict()["width"]
    'container'
    """
    chosen = alt.param(name="chosen", value=None)
    is_in_front = "chosen === null || chosen === datum.method"
    nearest = alt.selection_point(
        name="nearest", fields=["method", "round"], on="pointerover", nearest=True, empty=False
    )
    lines = convergence_chart(history, against)
    dots = lines.mark_point(filled=True, size=70).encode(
        opacity=alt.when(nearest).then(alt.value(1.0)).otherwise(alt.value(0.0)),
        tooltip=_tooltip(),
    )
    dimmed = lines.encode(
        opacity=alt.when(is_in_front).then(alt.value(1.0)).otherwise(alt.value(0.12))
    )
    layers = alt.LayerChart(layer=[dimmed, dots.add_params(nearest)]).add_params(chosen)
    return layers.properties(width="container", height=320)


def methods_in(history: pl.DataFrame) -> list[str]:
    """Names of the methods, in the order in which they ran.

    Examples
    --------
    >>> methods_in(pl.DataFrame({"method": ["Fed-HT", "Fed-HT", "Distributed-IHT"]}))
    ['Fed-HT', 'Distributed-IHT']
    """
    return [str(name) for name in history["method"].unique(maintain_order=True)]


def save_png(history: pl.DataFrame, path: Path) -> None:
    """Save the charts against rounds and megabytes, side by side, as a picture.

    Parameters
    ----------
    history
        The table of runs; see the module.
    path
        File to write, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> history = pl.DataFrame({
    ...     "method": ["Fed-HT", "Fed-HT"], "round": [0, 1], "iterations": [0, 10],
    ...     "objective": [8.0, 2.0], "nonzeros": [0, 20], "bytes_down": [0, 900],
    ...     "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> picture = Path(tempfile.mkdtemp()) / "run.png"
    >>> save_png(history, picture)
    >>> picture.read_bytes()[1:4]
    b'PNG'
    """
    charts = convergence_chart(history, "round") | convergence_chart(history, "megabytes")
    picture = io.BytesIO()
    charts.properties(config=STYLE, background="white", padding=16).save(
        picture, format="png", scale_factor=2
    )
    write_atomically(path, picture.getvalue())


def _points(history: pl.DataFrame, against: Against) -> pl.DataFrame:
    """Keep the rows a chart can show: positive where an axis is logarithmic, not too many."""
    megabytes = (pl.col("bytes_down") + pl.col("bytes_up")) / 1e6
    table = history.with_columns(megabytes=megabytes).drop("bytes_down", "bytes_up")
    table = table.filter(pl.col("objective").is_finite(), pl.col("objective") > 0)
    if against == "megabytes":
        table = table.filter(pl.col("megabytes") > 0)
    place = pl.int_range(pl.len()).over("method")
    count = pl.len().over("method")
    stride = (count / POINTS_PER_METHOD).ceil().cast(pl.Int64)
    return table.filter((place % stride == 0) | (place == count - 1))


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("method:N", title="Method"),
        alt.Tooltip("round:Q", title="Round"),
        alt.Tooltip("objective:Q", title="Objective", format=".4~g"),
        alt.Tooltip("iterations:Q", title="Local iterations"),
        alt.Tooltip("nonzeros:Q", title="Nonzeros"),
        alt.Tooltip("megabytes:Q", title="MB sent", format=".3~f"),
        alt.Tooltip("seconds:Q", title="Seconds", format=".2f"),
    ]
