"""The section on where the rows are."""

from collections.abc import Iterable, Sequence

import polars as pl

from fedsparse.modelling.summary import FitSummary, SiteCount
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.readable_numbers import counted, percent, size
from fedsparse.report.page import Section
from fedsparse.report.parts import Paragraph, Part, Table

MOST_CLASSES = 12
"""With more, a site's rows are not told class by class."""

BYTES = (
    "Sent to and by a site: the content of its messages. In brackets, what crossed its network "
    "connection by its own count, with all that carries the messages; looking for messages while "
    "there are none is left out. The amount told with the rounds is that of the vectors alone."
)


def sites_sections(summary: FitSummary) -> list[Section]:
    """Rows of each site, by class where there are classes; nothing without sites.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> summary = FitSummary(
    ...     title="", created="", model=model, source="a.csv", columns={"number": 12},
    ...     sites=(SiteCount(name="Bari", rows=80),), candidates=12, history=(), settings={})
    >>> [section.heading for section in sites_sections(summary)]
    ['Sites and rows']
    """
    if not summary.sites:
        return []
    parts: list[Part] = [Paragraph(_explanation(summary)), Table(_table(summary))]
    if summary.is_networked:
        parts.append(Paragraph(BYTES, is_hint=True))
    return [Section("Sites and rows", parts)]


def _explanation(summary: FitSummary) -> str:
    rows = counted(sum(site.rows for site in summary.sites), "row")
    text = f"{counted(len(summary.sites), 'site')} with {rows} in all."
    kinds = [f"{count:,} {kind}" for kind, count in summary.columns.items()]
    if kinds:
        text += f" Columns of the table by kind: {', '.join(kinds)}."
    return f"{text} They give {counted(summary.candidates, 'feature')} to choose from."


def _table(summary: FitSummary) -> pl.DataFrame:
    sites = summary.sites
    ordered = sorted(sites, key=lambda site: site.rows, reverse=True)
    shown, rest = list(sites), ordered[MOST:]
    if rest:
        shown = [*ordered[:MOST], _together(f"{counted(len(rest), 'smaller site')}", rest)]
    if len(sites) > 1:
        shown.append(_together("All sites together", sites))
    labels = summary.model.classes or ()
    classes = labels if len(labels) <= MOST_CLASSES else ()
    return pl.DataFrame([_line(site, classes) for site in shown])


def _together(name: str, sites: Sequence[SiteCount]) -> SiteCount:
    counts: dict[str, int | None] = {}
    for site in sites:
        for label, count in (site.classes or {}).items():
            before = counts.get(label, 0)
            counts[label] = None if before is None or count is None else before + count
    return SiteCount(
        name=name,
        rows=sum(site.rows for site in sites),
        classes=counts or None,
        bytes_down=_sum(site.bytes_down for site in sites),
        bytes_up=_sum(site.bytes_up for site in sites),
        socket_down=_sum(site.socket_down for site in sites),
        socket_up=_sum(site.socket_up for site in sites),
        took_part=None if all(site.took_part is None for site in sites) else "",
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _line(site: SiteCount, classes: Sequence[str]) -> dict[str, str]:
    counts = site.classes or {}
    cells = {"Site": site.name, "Rows": f"{site.rows:,}"}
    for label in classes:
        cells[f"of class {label}"] = _rows_of_class(counts.get(label, 0), site.rows)
    if site.bytes_down is not None:
        cells["Sent to it"] = _sent(site.bytes_down, site.socket_down)
    if site.bytes_up is not None:
        cells["Sent by it"] = _sent(site.bytes_up, site.socket_up)
    if site.took_part is not None:
        cells["Took part"] = site.took_part
    return cells


def _rows_of_class(count: int | None, rows: int) -> str:
    if count is None:
        return "not told"
    return f"{count:,} ({percent(count / rows)})" if rows else f"{count:,}"


def _sent(content: int, on_socket: int | None) -> str:
    return size(content) if on_socket is None else f"{size(content)} ({size(on_socket)})"
