"""What the sections of a page are made of."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

import altair as alt
import polars as pl

from fedsparse.report.convergence_charts import Axis, interactive_chart
from fedsparse.report.network import Network
from fedsparse.report.style import PAGE_STYLE, Look, methods_in


class Part(Protocol):
    """Something a page shows."""

    def html(self) -> str:
        """Its markup."""
        ...


@dataclass(frozen=True)
class Subheading:
    """A heading inside a section."""

    text: str

    def html(self) -> str:
        """Its markup."""
        return f"<h3>{escape(self.text)}</h3>"


@dataclass(frozen=True)
class Paragraph:
    """Plain text; a hint is smaller, for those who look for it."""

    text: str
    is_hint: bool = False

    def html(self) -> str:
        """Its markup."""
        kind = ' class="hint"' if self.is_hint else ""
        return f"<p{kind}>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Notes:
    """Sentences a reader should not miss."""

    heading: str
    notes: Sequence[str]

    def html(self) -> str:
        """A box with a list."""
        entries = "".join(f"<li>{escape(note)}</li>\n" for note in self.notes)
        return (
            f'<div class="notes" role="note">\n<p>{escape(self.heading)}</p>\n'
            f"<ul>\n{entries}</ul>\n</div>"
        )


@dataclass(frozen=True)
class Symbol:
    """What stands for something in a chart.

    Parameters
    ----------
    shape
        One of `SHAPES`.
    colour
        As CSS writes it, such as ``var(--first)``.
    """

    shape: str
    colour: str

    def html(self) -> str:
        """A small drawing."""
        return (
            '<svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true" '
            f'style="color: {self.colour}">{SHAPES[self.shape]}</svg>'
        )


SHAPES = {
    "circle": '<circle cx="8" cy="8" r="5" fill="currentColor"/>',
    "square": '<path d="M3.5 3.5h9v9h-9z" fill="currentColor"/>',
    "triangle": '<path d="M8 3 13.5 13h-11z" fill="currentColor"/>',
    "diamond": '<path d="M8 1.5 14.5 8 8 14.5 1.5 8z" fill="currentColor"/>',
    "ring": '<circle cx="8" cy="8" r="4.5" fill="none" stroke="currentColor" stroke-width="2"/>',
    "tick": '<path d="M8 2v12" stroke="currentColor" stroke-width="2"/>',
    "dashes": '<path d="M8 1v14" stroke="currentColor" stroke-width="1.5" stroke-dasharray="3 2"/>',
    "whisker": '<path d="M8 2v12M5 2h6M5 14h6" fill="none" stroke="currentColor"/>',
    "bar": '<path d="M1 4h14v8H1z" fill="currentColor"/>',
    "pale bar": '<path d="M1.5 4.5h13v7h-13z" fill="currentColor" fill-opacity=".2" '
    'stroke="currentColor"/>',
}
"""How symbols are drawn, by name."""


@dataclass(frozen=True)
class Key:
    """What the symbols of a chart stand for."""

    entries: Mapping[str, Symbol]

    def html(self) -> str:
        """A list in a line."""
        items = "".join(
            f"<li>{symbol.html()}{escape(text)}</li>\n" for text, symbol in self.entries.items()
        )
        return f'<ul class="key">\n{items}</ul>'


@dataclass(frozen=True)
class Legend:
    """A button for each method, which brings it out in all charts of the page."""

    looks: Mapping[str, Look]

    def html(self) -> str:
        """Buttons, each with a stroke of its method's line."""
        buttons = "\n".join(
            f'<button type="button" value="{escape(method)}" aria-pressed="false">'
            '<svg width="34" height="10" aria-hidden="true"><path d="M1 5h32" stroke-width="2.5" '
            f'stroke="{look.hue}" stroke-dasharray="{" ".join(map(str, look.dash))}"/></svg>'
            f"{escape(method)}</button>"
            for method, look in self.looks.items()
        )
        return f'<div class="legend">\n{buttons}\n</div>'


@dataclass(frozen=True)
class Charts:
    """Interactive charts side by side, without legends of their own.

    Parameters
    ----------
    charts
        Such as `fedsparse.report.convergence_charts.interactive_chart` makes. Data that several of
        them share are written once.
    """

    charts: Sequence[alt.LayerChart]

    def html(self) -> str:
        """A place for the charts, and what the page's script draws there."""
        specs: list[dict[str, Any]] = [
            chart.properties(config=PAGE_STYLE).configure_legend(disable=True).to_dict()
            for chart in self.charts
        ]
        datasets = {name: data for spec in specs for name, data in spec.pop("datasets").items()}
        content = json.dumps({"charts": specs, "datasets": datasets}).replace("<", "\\u003c")
        return f'<div class="charts"><script type="application/json">{content}</script></div>'


@dataclass(frozen=True)
class Table:
    """A table of text, the first column naming the rows.

    Parameters
    ----------
    table
        What it says.
    is_prose
        Whether cells hold sentences, which read from the left, instead of numbers.
    """

    table: pl.DataFrame
    is_prose: bool = False

    def html(self) -> str:
        """Its markup."""
        rows = [
            [
                f'<th scope="row">{escape(name)}</th>',
                *(f"<td>{escape(value)}</td>" for value in values),
            ]
            for name, *values in self.table.iter_rows()
        ]
        return table_markup(self.table.columns, rows, is_prose=self.is_prose)


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

    svg: str
    description: str

    def html(self) -> str:
        """An image that holds the drawing: names inside drawings cannot clash that way."""
        content = base64.b64encode(self.svg.encode()).decode()
        return (
            '<div class="scroll" tabindex="0"><img class="picture" '
            f'alt="{escape(self.description)}" src="data:image/svg+xml;base64,{content}"></div>'
        )


@dataclass(frozen=True)
class Settings:
    """Names and what they stand for."""

    settings: Mapping[str, str]

    def html(self) -> str:
        """Its markup."""
        entries = "\n".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>"
            for name, value in self.settings.items()
        )
        return f"<dl>\n{entries}\n</dl>"


@dataclass(frozen=True)
class NetworkForm:
    """Delay and bandwidth for readers to change."""

    network: Network

    def html(self) -> str:
        """Two inputs, which the page's script listens to."""
        return (
            '<form class="network" onsubmit="return false">\n'
            '<label>Delay of a round <input name="delay" type="number" min="0" step="any" required '
            f'value="{self.network.delay:g}"> ms</label>\n'
            '<label>Bandwidth of a client <input name="bandwidth" type="number" min="0.001" '
            f'step="any" required value="{self.network.bandwidth:g}"> Mbit/s</label>\n'
            "</form>"
        )


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


def table_markup(head: Sequence[str], rows: Sequence[Sequence[str]], *, is_prose: bool) -> str:
    """Put a table together.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Cells as markup.
    is_prose
        As in `Table`.

    Examples
    --------
    >>> table_markup(["K"], [["<td>3</td>"]], is_prose=False).count("<tr>")
    2
    """
    kind = ' class="prose"' if is_prose else ""
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    lines = "".join(f"<tr>{''.join(cells)}</tr>\n" for cells in rows)
    return (
        f'<div class="scroll" tabindex="0">\n<table{kind}>\n<thead><tr>{names}</tr></thead>\n'
        f"<tbody>\n{lines}</tbody>\n</table>\n</div>"
    )
