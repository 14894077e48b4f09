"""Names that are probably the same, spelt in two ways."""

from collections.abc import Mapping, Sequence

from fedsparse.tables.describing import SiteDescription
from fedsparse.tables.merging import MergedColumn
from fedsparse.tables.sentences import Finding, counted, joined, warning


def look_alike_findings(
    descriptions: Sequence[SiteDescription], columns: Sequence[MergedColumn]
) -> list[Finding]:
    """Warnings about sites, and levels of a category, that differ only in case or blanks.

    Examples
    --------
    >>> sites = [SiteDescription(site=name, rows=9) for name in ("Bari", "bari")]
    >>> print(look_alike_findings(sites, [])[0].sentence)
    sites "Bari" (9 rows) and "bari" (9 rows) differ only in case or blanks; if they are one, write
    them alike
    """
    found = [
        warning(f"sites {names} differ only in case or blanks; if they are one, write them alike")
        for names in _alike({site.site: site.rows for site in descriptions})
    ]
    for column in columns:
        found += [
            warning(
                f'column "{column.name}" has the levels {names}, which differ only in case or '
                "blanks; if they are one, write them alike",
                column.name,
            )
            for names in _alike(column.counts)
        ]
    return found


def plain(name: str) -> str:
    """A name without what people write in different ways.

    Examples
    --------
    >>> plain(" St.  Mary") == plain("st. mary")
    True
    """
    return " ".join(name.casefold().split())


def _alike(counts: Mapping[str, int]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(plain(name), []).append(name)
    return [
        joined([f'"{name}" ({counted(counts[name], "row")})' for name in names])
        for names in groups.values()
        if len(names) > 1
    ]
