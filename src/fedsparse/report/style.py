"""How methods look, in every chart of every report.

A method's name may end in a comma and a variant, as in "Fed-HT, adaptive": variants of an
algorithm share its colour and differ in their dashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#767676")
"""One per algorithm, after Okabe and Ito: told apart by colour-blind readers too. Their black would
not show on a dark page, so grey stands in for it."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))
"""One per variant of an algorithm."""

# Colours of a page, which has them for light and for dark screens and for paper.
PAPER = "var(--paper)"
INK = "var(--ink)"
FAINT = "var(--faint)"
LINES = "var(--lines)"
GRID = "var(--grid)"
FIRST = "var(--first)"
SECOND = "var(--second)"
THIRD = "var(--third)"


def _style(
    *, font: str, background: str, ink: str, faint: str, lines: str, grid: str
) -> alt.Config:
    return alt.Config(
        background=background,
        font=font,
        axis=alt.AxisConfig(
            labelFontSize=12,
            labelColor=ink,
            labelSeparation=6,
            titleFontSize=13,
            titleColor=ink,
            titlePadding=8,
            domainColor=lines,
            tickColor=lines,
            gridColor=grid,
        ),
        legend=alt.LegendConfig(
            orient="bottom",
            columns=2,
            columnPadding=24,
            labelFontSize=13,
            titleFontSize=13,
            labelLimit=0,
            symbolSize=700,
            symbolType="stroke",  # also where a band adds a surface to a line
            symbolOpacity=1,
            symbolStrokeWidth=2.5,
        ),
        title=alt.TitleConfig(
            fontSize=15, subtitleFontSize=13, color=ink, subtitleColor=faint, anchor="start"
        ),
        view=alt.ViewConfig(stroke=None),
    )


STYLE = _style(
    font="sans-serif",
    background="white",
    ink="#000000",
    faint="#555555",
    lines="#888888",
    grid="#e8e8e8",
)
"""What all pictures of a report share; belongs to a whole picture, not to its parts."""

PAGE_STYLE = _style(
    font="system-ui, sans-serif",
    background="transparent",
    ink=INK,
    faint=FAINT,
    lines=LINES,
    grid=GRID,
)
"""The same for charts that a page draws, which go dark with it."""


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
    >>> looks(["Fed-HT", "Fed-HT, adaptive"])["Fed-HT, adaptive"]
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


def methods_in(history: pl.DataFrame) -> list[str]:
    """Names of the methods, in the order in which they ran.

    Examples
    --------
    >>> methods_in(pl.DataFrame({"method": ["Fed-HT", "Fed-HT", "Distributed-IHT"]}))
    ['Fed-HT', 'Distributed-IHT']
    """
    return [str(name) for name in history["method"].unique(maintain_order=True)]
