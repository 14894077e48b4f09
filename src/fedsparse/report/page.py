"""A report as one HTML file that needs no network: sections of charts, tables and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import altair as alt
import vl_convert

from fedsparse.files import write_atomically
from fedsparse.report.parts import Part


@dataclass(frozen=True)
class Section:
    """Parts of a page under a heading.

    Parameters
    ----------
    heading
        Of the section; "" for one that follows the introduction.
    parts
        What it shows, from top to bottom.
    """

    heading: str
    parts: Sequence[Part]

    def html(self) -> str:
        """Heading and parts."""
        heading = [f"<h2>{escape(self.heading)}</h2>"] if self.heading else []
        return "\n".join(
            ["<section>", *heading, *(part.html() for part in self.parts), "</section>"]
        )


@dataclass(frozen=True)
class Page:
    """What a report shows.

    Parameters
    ----------
    title
        Heading, and title of the browser's tab.
    introduction
        One paragraph on what is shown.
    sections
        The rest, from top to bottom.
    is_narrow
        Whether single charts and tables make up the page, instead of rows of charts.

    Examples
    --------
    >>> from fedsparse.report.parts import Paragraph
    >>> page = Page("A run", "One method.", [Section("Outcome", [Paragraph("It ended well.")])])
    >>> page.html().startswith("<!doctype html>")
    True
    """

    title: str
    introduction: str
    sections: Sequence[Section]
    is_narrow: bool = False

    def html(self) -> str:
        """Make the whole page, scripts included."""
        template = resources.files("fedsparse.report").joinpath("page.html").read_text("utf-8")
        return Template(template).substitute(
            title=escape(self.title),
            kind=' class="narrow"' if self.is_narrow else "",
            introduction=escape(self.introduction),
            sections="\n".join(section.html() for section in self.sections),
            library=_chart_library(),
        )

    def save(self, path: Path) -> None:
        """Write the page, whole or not at all."""
        write_atomically(path, self.html().encode())


@cache
def _chart_library() -> str:
    """Bundle the scripts that draw charts, at the version the charts are written for."""
    version = ".".join(alt.VEGALITE_VERSION.split(".")[:2])
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
