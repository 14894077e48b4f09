"""A report as one HTML file that needs no network: sections of charts, tables and pictures.

The files are written by the templates in ``templates``; modules of reports only say what to show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined

from fedsparse.files import PathLike, write_atomically
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
    is_drawn
        Whether it has charts; one without needs no scripts, and is a hundredth of the size.

    Examples
    --------
    >>> from fedsparse.report.parts import Paragraph
    >>> page = Page("A run", "One method.", [Section("Outcome", [Paragraph("f < 1 at the end.")])])
    >>> "f &lt; 1 at the end." in page.html()
    True
    """

    title: str
    introduction: str
    sections: Sequence[Section]
    is_narrow: bool = False
    is_drawn: bool = True

    def html(self) -> str:
        """Make the whole page, scripts included."""
        template = templates().get_template("page.html")
        return template.render(page=self, chart_library=_chart_library)

    def save(self, path: PathLike) -> None:
        """Write the page, whole or not at all."""
        write_atomically(Path(path), self.html().encode())


@cache
def templates() -> Environment:
    """All markup; what is put into it is escaped.

    Examples
    --------
    >>> templates().from_string("<b>{{ name }}</b>").render(name="<script>")
    '<b>&lt;script&gt;</b>'
    """
    found = Environment(
        loader=PackageLoader("fedsparse.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Screen readers are told of a mark's values in the order in which its chart names them.
    found.policies["json.dumps_kwargs"] = {"sort_keys": False}
    return found


@cache
def _chart_library() -> str:
    """Bundle the scripts that draw charts, at the version the charts are written for."""
    version = ".".join(alt.VEGALITE_VERSION.split(".")[:2])
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
