"""What the sections of a page are made of; ``templates/parts.html`` has a macro for each part."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import altair as alt
import polars as pl

from fedsparse.report.convergence_charts import Axis, interactive_chart
from fedsparse.report.network import Network
from fedsparse.report.style import PAGE_STYLE, Look, methods_in


class Part(Protocol):
    """Something a page shows.

    Parameters
    ----------
    macro
        Name of the macro that writes it.
    """

    macro: ClassVar[str]


@dataclass(frozen=True)
class Subheading:
    """A heading inside a section."""

    macro: ClassVar[str] = "subheading"
    text: str


@dataclass(frozen=True)
class Paragraph:
    """Plain text; a hint is smaller, for those who look for it."""

    macro: ClassVar[str] = "paragraph"
    text: str
    is_hint: bool = False


@dataclass(frozen=True)
class Notes:
    """Sentences a reader should not miss."""

    macro: ClassVar[str] = "notes"
    heading: str
    notes: Sequence[str]


@dataclass(frozen=True)
class Symbol:
    """What stands for something in a chart.

    Parameters
    ----------
    shape
        One of those that ``templates/symbols.html`` draws.
    colour
        As CSS writes it, such as ``var(--first)``.
    """

    shape: Literal[
        "circle",
        "square",
        "triangle",
        "diamond",
        "ring",
        "tick",
        "dashes",
        "whisker",
        "bar",
        "pale_bar",
    ]
    colour: str


@dataclass(frozen=True)
class Key:
    """What the symbols of a chart stand for."""

    macro: ClassVar[str] = "key"
    entries: Mapping[str, Symbol]


@dataclass(frozen=True)
class Legend:
    """A button for each method, which brings it out in all charts of the page."""

    macro: ClassVar[str] = "legend"
    looks: Mapping[str, Look]


@dataclass(frozen=True)
class Charts:
    """Interactive charts side by side, without legends of their own.

    Parameters
    ----------
    charts
        Such as `fedsparse.report.convergence_charts.interactive_chart` makes. Data that several of
        them share are written once.
    """

    macro: ClassVar[str] = "charts"
    charts: Sequence[alt.LayerChart]

    def specifications(self) -> dict[str, Any]:
        """What the page's script draws."""
        charts: list[dict[str, Any]] = [
            chart.properties(config=PAGE_STYLE).configure_legend(disable=True).to_dict()
            for chart in self.charts
        ]
        datasets = {name: data for chart in charts for name, data in chart.pop("datasets").items()}
        return {"charts": charts, "datasets": datasets}


@dataclass(frozen=True)
class Table:
    """A table of text, the first column naming the rows; a null is shown as a dash.

    Cells of prose read from the left, and on a phone one below the other.
    """

    macro: ClassVar[str] = "table"
    table: pl.DataFrame
    is_prose: bool = False


@dataclass(frozen=True)
class Picture:
    """A drawing that keeps its proportions.

    Parameters
    ----------
    svg
        The drawing.
    description
        What it shows, for those who cannot see it.
    """

    macro: ClassVar[str] = "picture"
    svg: str
    description: str

    def encoded(self) -> str:
        """The drawing as an image's address holds it."""
        return base64.b64encode(self.svg.encode()).decode()


@dataclass(frozen=True)
class SettingsList:
    """Names and what they stand for."""

    macro: ClassVar[str] = "settings"
    settings: Mapping[str, str]


@dataclass(frozen=True)
class NetworkForm:
    """Delay and bandwidth for readers to change; the page's script listens to it."""

    macro: ClassVar[str] = "network_form"
    network: Network


def comparison(
    history: pl.DataFrame, axes: Sequence[Axis], looks: Mapping[str, Look]
) -> list[Part]:
    """Charts of the same runs against several costs, with a legend to choose from.

    Parameters
    ----------
    history
        The table of runs; see `fedsparse.report.convergence_charts`.
    axes
        The costs.
    looks
        How each method is drawn.
    """
    charts = [interactive_chart(history, axis, looks) for axis in axes]
    shown = {method: looks[method] for method in methods_in(history)}
    hint = "Point at a line for its numbers. Choose a method to bring it out, again to see all."
    return [Legend(shown), Charts(charts), Paragraph(hint, is_hint=True)]
