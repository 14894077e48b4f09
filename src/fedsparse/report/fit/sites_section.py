"""The section on where the rows are."""

from collections.abc import Iterable, Sequence

import polars as pl

from fedsparse.modelling.influence import influences_of, sentence_on_influence
from fedsparse.modelling.summary import FitSummary, Score, SiteCount
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.metric_words import metric_of
from fedsparse.report.fit.readable_numbers import counted, percent, size
from fedsparse.report.page import Section
from fedsparse.report.parts import Paragraph, Part, Table

MOST_CLASSES = 12
"""With more, a site's rows are not told class by class."""

_NOT_TOLD = "not told"

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
    parts += _influences(summary)
    return [Section("Sites and rows", parts)]


def _influences(summary: FitSummary) -> list[Part]:
    """What changes without each site; or, where nobody may know, at how many the model fails."""
    judged = summary.at_sites
    if judged is not None:
        return [
            Paragraph(
                f"At {judged.no_better} of {counted(judged.sites, 'site')} the model predicts no "
                "better than guessing the same for all rows. Which they are nobody is told; each "
                "site can see it for itself."
            )
        ]
    found = influences_of(summary)
    if not found:
        return []
    first = found[0]
    told = sentence_on_influence(summary) or (
        f"Without {first.site} the features change most, and no site stands out."
        if first.distance > 0
        else "Without any one of the sites the same features are found."
    )
    rows = [
        {
            "Without": own.site,
            "Features that stay": f"{own.kept:,}",
            "Others instead": f"{own.added:,}",
            "f over the other sites": f"{own.objective:.4g}",
            **_at_that_site(own.score),
        }
        for own in found[:MOST]
    ]
    return [Paragraph(told), Table(pl.DataFrame(rows))]


def _at_that_site(score: Score | None) -> dict[str, str]:
    """How the model of the others does there, by the first metric that tells it from a guess."""
    if score is None:
        return {}
    names = [score.decisive] if score.decisive else list(score.metrics)[:1]
    return {
        f"{metric_of(name).label} at that site": metric_of(name).with_interval(
            score.metrics[name], score.intervals.get(name)
        )
        for name in names
    }


def _explanation(summary: FitSummary) -> str:
    rows = counted(_together("", summary.sites, summary.together).rows or 0, "row")
    text = f"{counted(len(summary.sites), 'site')} with {rows} in all."
    if summary.together is not None:
        text += " How many rows each of them has was told to nobody: only their sum is known."
    kinds = [f"{count:,} {kind}" for kind, count in summary.columns.items()]
    if kinds:
        text += f" Columns of the table by kind: {', '.join(kinds)}."
    return f"{text} They give {counted(summary.candidates, 'feature')} to choose from."


def _table(summary: FitSummary) -> pl.DataFrame:
    sites = summary.sites
    ordered = sorted(sites, key=lambda site: site.rows or 0, reverse=True)
    shown, rest = list(sites), ordered[MOST:]
    if rest:
        others = "smaller site" if summary.together is None else "other site"
        shown = [*ordered[:MOST], _together(counted(len(rest), others), rest)]
    if len(sites) > 1:
        shown.append(_together("All sites together", sites, summary.together))
    labels = summary.model.classes or ()
    classes = labels if len(labels) <= MOST_CLASSES else ()
    return pl.DataFrame([_line(site, classes) for site in shown])


def _together(name: str, sites: Sequence[SiteCount], known: SiteCount | None = None) -> SiteCount:
    """Several sites as one; what is known of them together need not be added up."""
    counts: dict[str, int | None] = {}
    for site in sites:
        for label, count in (site.classes or {}).items():
            before = counts.get(label, 0)
            counts[label] = None if before is None or count is None else before + count
    return SiteCount(
        name=name,
        rows=_sum(site.rows for site in sites) if known is None else known.rows,
        classes=(counts or None) if known is None else known.classes,
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
    cells = {"Site": site.name, "Rows": _NOT_TOLD if site.rows is None else f"{site.rows:,}"}
    for label in classes:
        count = None if site.classes is None else site.classes.get(label, 0)
        cells[f"of class {label}"] = _rows_of_class(count, site.rows)
    if site.bytes_down is not None:
        cells["Sent to it"] = _sent(site.bytes_down, site.socket_down)
    if site.bytes_up is not None:
        cells["Sent by it"] = _sent(site.bytes_up, site.socket_up)
    if site.took_part is not None:
        cells["Took part"] = site.took_part
    return cells


def _rows_of_class(count: int | None, rows: int | None) -> str:
    if count is None:
        return _NOT_TOLD
    return f"{count:,} ({percent(count / rows)})" if rows else f"{count:,}"


def _sent(content: int, on_socket: int | None) -> str:
    return size(content) if on_socket is None else f"{size(content)} ({size(on_socket)})"
