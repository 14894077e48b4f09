"""Charts as pictures: pixels for slides, vectors for papers and pages."""

import io
from pathlib import Path

import altair as alt
import vl_convert

from fedsparse.files import write_atomically
from fedsparse.report.style import STYLE

Chart = alt.LayerChart | alt.HConcatChart | alt.VConcatChart | alt.ConcatChart


def save_picture(chart: Chart, path: Path) -> list[Path]:
    """Save a chart as a PNG and as an SVG.

    Parameters
    ----------
    chart
        Such as `fedsparse.report.figures.figures` makes.
    path
        Without a suffix: ``.png`` and ``.svg`` are added. Each file is written whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> dots = alt.Chart(alt.InlineData([{"x": 1}])).mark_point().encode(x="x:Q")
    >>> files = save_picture(alt.layer(dots), Path(tempfile.mkdtemp()) / "figure-1")
    >>> [file.name for file in files]
    ['figure-1.png', 'figure-1.svg']
    """
    png, svg = (path.with_name(path.name + suffix) for suffix in (".png", ".svg"))
    drawn = svg_of(chart)
    write_atomically(png, _in_pixels(drawn))
    write_atomically(svg, drawn.encode())
    return [png, svg]


def save_png(chart: Chart, path: Path) -> None:
    """Save a chart as a PNG alone, two pixels to a point.

    Parameters
    ----------
    chart
        As in `save_picture`.
    path
        File to write, whole or not at all.

    Examples
    --------
    >>> import tempfile
    >>> dots = alt.Chart(alt.InlineData([{"x": 1}])).mark_point().encode(x="x:Q")
    >>> picture = Path(tempfile.mkdtemp()) / "dots.png"
    >>> save_png(alt.layer(dots), picture)
    >>> picture.read_bytes()[1:4]
    b'PNG'
    """
    write_atomically(path, _in_pixels(svg_of(chart)))


def svg_of(chart: Chart) -> str:
    """Draw a chart as the text of an SVG file.

    Examples
    --------
    >>> dots = alt.Chart(alt.InlineData([{"x": 1}])).mark_point().encode(x="x:Q")
    >>> svg_of(alt.layer(dots))[1:4]
    'svg'
    """
    picture = io.StringIO()
    _framed(chart).save(picture, format="svg")
    return picture.getvalue()


def _in_pixels(svg: str) -> bytes:
    return bytes(vl_convert.svg_to_png(svg, scale=2))


def _framed(chart: Chart) -> Chart:
    return chart.properties(config=STYLE, background="white", padding=16)
