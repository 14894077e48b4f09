"""The columns of all sites put together by name."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fedsparse.tables.description import ColumnDescription, NumberSummary, SiteDescription
from fedsparse.tables.findings import Finding, error, joined, listed
from fedsparse.tables.kinds import MOST_LEVELS, Kind, is_identifier
from fedsparse.tables.values import sorted_labels

_COLUMNS_SHOWN = 10
_IN_WORDS: dict[Kind, str] = {
    "number": "a number",
    "category": "text",
    "identifier": "text",
    "date": "a date",
}


@dataclass(frozen=True)
class MergedColumn:
    """A column that all sites have.

    Attributes
    ----------
    name
        Its name.
    kind
        What it is at the sites where it has values.
    parts
        What each site says of it.

    Examples
    --------
    >>> parts = {
    ...     "Bari": ColumnDescription(name="ward", kind="category", missing=0, levels={"ear": 3}),
    ...     "Cork": ColumnDescription(name="ward", kind="category", missing=2, levels={"eye": 1}),
    ... }
    >>> column = MergedColumn("ward", "category", parts)
    >>> column.levels, column.fill, column.missing, column.left_out
    (('ear', 'eye'), (0.75, 0.25), 2, None)
    """

    name: str
    kind: Kind
    parts: dict[str, ColumnDescription]

    @cached_property
    def missing(self) -> int:
        """Missing values at all sites."""
        return sum(part.missing for part in self.parts.values())

    @property
    def missing_by_site(self) -> list[tuple[str, int]]:
        """Sites with missing values and how many, the worst first."""
        counts = [(site, part.missing) for site, part in self.parts.items() if part.missing]
        return sorted(counts, key=lambda pair: -pair[1])

    @property
    def numbers(self) -> list[NumberSummary]:
        """Summaries of the sites that have values."""
        return [part.numbers for part in self.parts.values() if part.numbers is not None]

    @cached_property
    def counts(self) -> Counter[str]:
        """Rows of each level at all sites."""
        counts: Counter[str] = Counter()
        for part in self.parts.values():
            counts.update(part.levels or {})
        return counts

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """Levels of all sites in order; none if it is no category."""
        return sorted_labels(list(self.counts))

    @property
    def fill(self) -> tuple[float, ...]:
        """What stands for a missing value: the mean, or the share of each level."""
        if self.kind == "number":
            count = sum(summary.count for summary in self.numbers)
            return (sum(summary.total for summary in self.numbers) / count,)
        rows = sum(self.counts.values())
        return tuple(self.counts[level] / rows for level in self.levels)

    @cached_property
    def left_out(self) -> str | None:
        """Why it is no feature; None if it is one."""
        if self.kind in ("identifier", "date", "empty"):
            return self.kind
        if self.kind == "category":
            return "constant" if len(self.counts) == 1 else None
        values = {summary.constant for summary in self.numbers}
        return "constant" if len(values) == 1 and None not in values else None


def merge(
    descriptions: Sequence[SiteDescription],
) -> tuple[tuple[MergedColumn, ...], list[Finding]]:
    """Columns in the first site's order, and an error that lists everything that does not match.

    Examples
    --------
    >>> age = ColumnDescription(name="age", kind="empty", missing=3)
    >>> sites = [
    ...     SiteDescription(site="Bari", rows=3, columns=(age,)),
    ...     SiteDescription(site="Cork", rows=3, columns=()),
    ... ]
    >>> columns, findings = merge(sites)
    >>> print(findings[0].sentence)
    the sites' tables do not match: Cork lacks "age"; mend them, or leave columns out with --drop
    """
    parts: dict[str, dict[str, ColumnDescription]] = {}
    for site in descriptions:
        for column in site.columns:
            parts.setdefault(column.name, {})[site.site] = column
    shared = {name: own for name, own in parts.items() if len(own) == len(descriptions)}
    kinds = {name: _merged_kind(own) for name, own in shared.items()}
    clashes = [_clash(name, shared[name]) for name, kind in kinds.items() if kind is None]
    columns = tuple(
        _merged(name, kind, shared[name]) for name, kind in kinds.items() if kind is not None
    )
    findings = _mismatch(_presence_faults(descriptions, parts), clashes)
    return columns, findings + _crowded(columns)


def _merged_kind(parts: dict[str, ColumnDescription]) -> Kind | None:
    """The kind of a column at all sites; None if they contradict each other."""
    kinds = {part.kind for part in parts.values()} - {"empty"}
    if len(kinds) == 1:
        return kinds.pop()
    if not kinds:
        return "empty"
    return "identifier" if kinds == {"category", "identifier"} else None


def _merged(name: str, kind: Kind, parts: dict[str, ColumnDescription]) -> MergedColumn:
    """The column; many small sites may show together that it tells rows apart."""
    column = MergedColumn(name, kind, parts)
    if kind == "category" and len(parts) > 1 and is_identifier(column.counts):
        return MergedColumn(name, "identifier", parts)
    return column


def _crowded(columns: Sequence[MergedColumn]) -> list[Finding]:
    return [
        error(
            f'column "{column.name}" has {len(column.counts):,} levels at all sites together, '
            f"more than {MOST_LEVELS}; merge rare levels or leave it out with --drop {column.name}",
            column.name,
        )
        for column in columns
        if column.kind == "category" and len(column.counts) > MOST_LEVELS
    ]


def _presence_faults(
    descriptions: Sequence[SiteDescription], parts: dict[str, dict[str, ColumnDescription]]
) -> list[str]:
    """Which sites lack what most have, and which have what most lack."""
    lacking: dict[str, list[str]] = {}
    extra: dict[str, list[str]] = {}
    for name, own in parts.items():
        if len(own) == len(descriptions):
            continue
        is_usual = 2 * len(own) >= len(descriptions)
        for site in descriptions:
            if is_usual and site.site not in own:
                lacking.setdefault(site.site, []).append(name)
            elif not is_usual and site.site in own:
                extra.setdefault(site.site, []).append(name)
    faults = [f"{site} lacks {listed(names, _COLUMNS_SHOWN)}" for site, names in lacking.items()]
    return faults + [
        f"only {site} has {listed(names, _COLUMNS_SHOWN)}" for site, names in extra.items()
    ]


def _clash(name: str, parts: dict[str, ColumnDescription]) -> str:
    sites: dict[str, list[str]] = {}
    for site, part in parts.items():
        if part.kind != "empty":
            sites.setdefault(_IN_WORDS[part.kind], []).append(site)
    where = [f"{word} at {joined(names)}" for word, names in sites.items()]
    return f'"{name}" is {joined(where)}'


def _mismatch(presence: list[str], clashes: list[str]) -> list[Finding]:
    if not presence and not clashes:
        return []
    shown = clashes[:_COLUMNS_SHOWN]
    if len(clashes) > len(shown):
        shown.append(f"{len(clashes) - len(shown):,} more columns differ in kind")
    ways = ["leave columns out with --drop"]
    ways += ["make them categories with --category"] if clashes else []
    return [
        error(
            f"the sites' tables do not match: {'; '.join([*presence, *shown])}; "
            f"mend them, or {' or '.join(ways)}"
        )
    ]
