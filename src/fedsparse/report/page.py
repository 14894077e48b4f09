"""A report as one HTML file that needs no network: charts, closing table and settings."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import altair as alt
import polars as pl
import vl_convert

from fedsparse.files import write_atomically
from fedsparse.report.charts import AXES, STYLE, interactive_chart, looks, methods_in


@dataclass(frozen=True)
class Page:
    """What a report shows.

    Parameters
    ----------
    title
        Heading, and title of the browser's tab.
    introduction
        One paragraph on what is shown.
    history
        The table of runs the charts are made from; see `fedsparse.report.charts`.
    closing
        A table of text, the first column naming the rows.
    note
        A line under that table.
    settings
        What was run, by name.

    Examples
    --------
    >>> history = pl.DataFrame({
    ...     "method": ["Fed-HT", "Fed-HT"], "round": [0, 1], "iterations": [0, 10],
    ...     "objective": [8.0, 2.0], "nonzeros": [0, 20], "bytes_down": [0, 900],
    ...     "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> closing = pl.DataFrame({"Method": ["Fed-HT"]})
    >>> page = Page("A run", "One method.", history, closing, "", {})
    >>> page.html().startswith("<!doctype html>")
    True
    """

    title: str
    introduction: str
    history: pl.DataFrame
    closing: pl.DataFrame
    note: str
    settings: Mapping[str, str]

    def html(self) -> str:
        """Make the whole page, scripts included."""
        template = resources.files("fedsparse.report").joinpath("page.html").read_text("utf-8")
        return Template(template).substitute(
            title=escape(self.title),
            introduction=escape(self.introduction),
            charts=json.dumps(_chart_specs(self.history)).replace("</", "<\\/"),
            legend=_legend(methods_in(self.history)),
            closing=_table(self.closing),
            note=escape(self.note),
            settings=_definitions(self.settings),
            library=_chart_library(),
        )

    def save(self, path: Path) -> None:
        """Write the page, whole or not at all."""
        write_atomically(path, self.html().encode())


def _chart_specs(history: pl.DataFrame) -> list[dict[str, object]]:
    """Build the charts without legends: the page has one for all of them."""
    charts = [interactive_chart(history, against).properties(config=STYLE) for against in AXES]
    return [chart.configure_legend(disable=True).to_dict() for chart in charts]


@cache
def _chart_library() -> str:
    """Bundle the scripts that draw charts, at the version the charts are written for."""
    version = ".".join(alt.VEGALITE_VERSION.split(".")[:2])
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)


def _legend(methods: list[str]) -> str:
    """One button per method, with a stroke of its line."""
    return "\n".join(
        f'<button type="button" value="{escape(method)}" aria-pressed="false">'
        '<svg width="34" height="10" aria-hidden="true"><path d="M1 5h32" stroke-width="2.5" '
        f'stroke="{look.hue}" stroke-dasharray="{" ".join(map(str, look.dash))}"/></svg>'
        f"{escape(method)}</button>"
        for method, look in looks(methods).items()
    )


def _table(table: pl.DataFrame) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    rows = "".join(f"<tr>{_cells(row)}</tr>\n" for row in table.iter_rows())
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>"


def _cells(row: tuple[str, ...]) -> str:
    name, *values = row
    return f'<th scope="row">{escape(name)}</th>' + "".join(
        f"<td>{escape(value)}</td>" for value in values
    )


def _definitions(settings: Mapping[str, str]) -> str:
    return "\n".join(
        f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in settings.items()
    )
