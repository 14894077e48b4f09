"""How methods look, in every chart of every report.

A method's name may end in a comma and a variant, as in "Fed-HT, extrapolated": variants of an
algorithm share its colour and differ in their dashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import polars as pl

HUES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""One per algorithm, after Okabe and Ito: told apart by colour-blind readers too."""

DASHES = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))
"""One per variant of an algorithm."""

STYLE = alt.Config(
    axis=alt.AxisConfig(
        labelFontSize=12, titleFontSize=13, titlePadding=8, gridColor="#e8e8e8", labelSeparation=6
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
    title=alt.TitleConfig(fontSize=15, subtitleFontSize=13, subtitleColor="#555", anchor="start"),
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


def methods_in(history: pl.DataFrame) -> list[str]:
    """Names of the methods, in the order in which they ran.

    Examples
    --------
    >>> methods_in(pl.DataFrame({"method": ["Fed-HT", "Fed-HT", "Distributed-IHT"]}))
    ['Fed-HT', 'Distributed-IHT']
    """
    return [str(name) for name in history["method"].unique(maintain_order=True)]
