"""The columns of all sites put together by name, and what looks odd about them."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Literal, get_args

import numpy as np

from fedsparse.arrays import AnyArray, BoolArray, FloatArray, Int64Array
from fedsparse.tables.describing import SiteDescription
from fedsparse.tables.schemas import Outline
from fedsparse.tables.sentences import Finding, counted, error, joined, listed, warning
from fedsparse.tables.values import (
    FEWEST_IDENTIFIERS,
    MOST_LEVELS,
    Kind,
    is_identifier,
    sorted_labels,
)

_COLUMNS_SHOWN = 10
_IN_WORDS: dict[Kind, str] = {
    "number": "a number",
    "category": "text",
    "identifier": "text",
    "date": "a date",
}
_KINDS: tuple[Kind, ...] = get_args(Kind)
_NUMBER = _KINDS.index("number")

_WORD = r"(id|ids|identifier|index|key|mrn|nr|no|number|row|rownames|uid|uuid)"
_NAME = re.compile(rf"(?i:^(.*[^a-z])?{_WORD}$)|[a-z]I[dD]$|(?i:^(patient|case|subject|sample)id$)")


@dataclass(frozen=True, eq=False)
class MergedNumbers:
    """What sites say of columns of numbers; the last axis runs over sites.

    Attributes
    ----------
    totals
        The sum of all values.
    constants
        What all of them are, NaN if they differ.
    numbering, gapless
        As in `NumberSummary`.
    """

    totals: FloatArray
    constants: FloatArray
    numbering: BoolArray
    gapless: BoolArray

    def of(self, column: int, sites: BoolArray) -> "MergedNumbers":
        """What some sites say of one column; a view if it is all of them."""
        chosen = slice(None) if sites.all() else sites
        return MergedNumbers(
            self.totals[column, chosen],
            self.constants[column, chosen],
            self.numbering[column, chosen],
            self.gapless[column, chosen],
        )


@dataclass(frozen=True, eq=False)
class MergedColumn:
    """A column that all sites have, or that one withholds.

    Attributes
    ----------
    name
        Its name.
    kind
        What it is at the sites where it has values.
    sites
        The sites, in whose order the rest is.
    rows
        Of all sites.
    missing_at
        Missing values of each site.
    numbers
        What the sites that have values say of a column of numbers.
    levels_at
        How many rows of each site have each level of a category.
    is_site_mark
        Whether it is known to be the same in all rows of a site but not at all sites, where what
        each site has is not.

    Examples
    --------
    >>> levels = ({"ear": 3}, {"eye": 1})
    >>> column = MergedColumn(
    ...     "ward", "category", ("Bari", "Cork"), 6, np.array([0, 2]), levels_at=levels
    ... )
    >>> column.levels, column.missing, column.left_out
    (('ear', 'eye'), 2, None)
    """

    name: str
    kind: Kind | Literal["withheld", "uniform"]
    sites: tuple[str, ...]
    rows: int
    missing_at: Int64Array
    numbers: MergedNumbers | None = None
    levels_at: tuple[dict[str, int], ...] = ()
    is_site_mark: bool = False

    @cached_property
    def missing(self) -> int:
        """Missing values at all sites."""
        return int(self.missing_at.sum())

    @property
    def known(self) -> int:
        """Values that are not missing at all sites."""
        return self.rows - self.missing

    @property
    def missing_by_site(self) -> list[tuple[str, int]]:
        """Sites with missing values and how many, the worst first."""
        counts = zip(self.sites, self.missing_at.tolist(), strict=True)
        return sorted((pair for pair in counts if pair[1]), key=lambda pair: -pair[1])

    @cached_property
    def counts(self) -> Counter[str]:
        """Rows of each level at all sites."""
        counts: Counter[str] = Counter()
        for levels in self.levels_at:
            counts.update(levels)
        return counts

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """Levels of all sites in order; none if it is no category."""
        return sorted_labels(list(self.counts))

    @cached_property
    def left_out(self) -> str | None:
        """Why it is no feature; None if it is one."""
        if self.name == "" and self.kind in ("identifier", "empty"):
            return "unnamed"
        if self.numbers is not None:
            constants = self.numbers.constants
            return "constant" if (constants == constants[0]).all() else None
        if self.kind == "category":
            return "constant" if len(self.counts) == 1 else None
        return self.kind


@dataclass(frozen=True, eq=False)
class Matching:
    """Which columns sites have in common.

    Attributes
    ----------
    sites
        Their names.
    names, kinds
        Of the columns that all sites have and none withholds, and what they are.
    kinds_at
        Codes of what each is at every site.
    withheld
        Columns of which some site tells nothing but the name.
    findings
        An error that lists everything that does not match.
    """

    sites: tuple[str, ...]
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    kinds_at: AnyArray
    withheld: tuple[str, ...]
    findings: tuple[Finding, ...]


def match(descriptions: Sequence[Outline]) -> Matching:
    """Columns by name in the first site's order; a column that a site withholds matches whatever.

    Examples
    --------
    >>> age = {"names": ("age",), "kinds": ("empty",), "missing": (3,)}
    >>> match([SiteDescription(site="Bari", rows=3, **age)]).kinds
    ('empty',)
    """
    owners = Counter(name for site in descriptions for name in site.names)
    withheld = dict.fromkeys(name for site in descriptions for name in site.withheld)
    told = {name: count for name, count in owners.items() if name not in withheld}
    shared = [name for name, count in told.items() if count == len(descriptions)]
    partial = [name for name, count in told.items() if count < len(descriptions)]
    sites = tuple(site.site for site in descriptions)
    kinds_at = _kinds_at(descriptions, shared)
    at_sites = [[_KINDS[code] for code in own] for own in kinds_at.tolist()]
    kinds = [_merged_kind(own) for own in at_sites]
    clashes = [
        _clash(name, sites, own)
        for name, own, kind in zip(shared, at_sites, kinds, strict=True)
        if kind is None
    ]
    agreeing = [kind is not None for kind in kinds]
    return Matching(
        sites,
        tuple(compress(shared, agreeing)),
        tuple(kind for kind in kinds if kind is not None),
        kinds_at[np.array(agreeing, dtype=np.bool_)],
        tuple(withheld),
        tuple(_mismatch(_presence_faults(descriptions, partial), clashes)),
    )


def merge(
    descriptions: Sequence[SiteDescription],
) -> tuple[tuple[MergedColumn, ...], list[Finding]]:
    """Columns in the first site's order, and an error that lists everything that does not match.

    A column that a site withholds comes last and matches whatever the others have: it is left out.

    Examples
    --------
    >>> age = {"names": ("age",), "kinds": ("empty",), "missing": (3,)}
    >>> sites = [
    ...     SiteDescription(site="Bari", rows=3, **age),
    ...     SiteDescription(site="Cork", rows=3),
    ... ]
    >>> columns, findings = merge(sites)
    >>> print(findings[0].sentence)
    the sites' tables do not match: Cork lacks "age"; mend them, or leave columns out with --drop
    """
    matching = match(descriptions)
    rows = sum(site.rows for site in descriptions)
    none = np.zeros(len(descriptions), dtype=np.int64)
    columns = _shared_columns(descriptions, matching, rows)
    columns += [
        MergedColumn(name, "withheld", matching.sites, rows, none) for name in matching.withheld
    ]
    return tuple(columns), [*matching.findings, *crowded(columns)]


def _shared_columns(
    descriptions: Sequence[SiteDescription], matching: Matching, rows: int
) -> list[MergedColumn]:
    """The columns that all sites have."""
    missing, numbers = _stacked(descriptions, list(matching.names))
    return [
        _by_all_sites(
            MergedColumn(
                name,
                kind,
                matching.sites,
                rows,
                missing[place],
                numbers.of(place, matching.kinds_at[place] == _NUMBER)
                if kind == "number"
                else None,
                tuple(site.levels.get(name, {}) for site in descriptions)
                if kind == "category"
                else (),
            )
        )
        for place, (name, kind) in enumerate(zip(matching.names, matching.kinds, strict=True))
    ]


def _kinds_at(descriptions: Sequence[Outline], names: list[str]) -> AnyArray:
    """Codes of the kinds of columns: one row per column, one column per site."""
    codes = {kind: code for code, kind in enumerate(_KINDS)}
    kinds = np.empty((len(names), len(descriptions)), dtype=np.int8)
    for column, site in enumerate(descriptions):
        own = np.array([codes[kind] for kind in site.kinds], dtype=np.int8)
        kinds[:, column] = own[_own_places(site.names, names)]
    return kinds


def _stacked(
    descriptions: Sequence[SiteDescription], names: list[str]
) -> tuple[Int64Array, MergedNumbers]:
    """Missing values and numbers of columns: one row per column, one column per site."""
    shape = (len(names), len(descriptions))
    missing = np.empty(shape, dtype=np.int64)
    totals, constants = np.zeros(shape), np.full(shape, np.nan)
    numbering, gapless = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    places = {name: place for place, name in enumerate(names)}
    for column, site in enumerate(descriptions):
        own = _own_places(site.names, names)
        own_totals = np.zeros(len(site.kinds))
        own_totals[[kind == "number" for kind in site.kinds]] = site.numbers.totals
        missing[:, column] = np.array(site.missing, dtype=np.int64)[own]
        totals[:, column] = own_totals[own]
        for name, value in site.numbers.constants.items():
            if name in places:
                constants[places[name], column] = value
        for flags, flagged in (
            (numbering, site.numbers.numbering),
            (gapless, site.numbers.gapless),
        ):
            flags[[places[name] for name in flagged if name in places], column] = True
    return missing, MergedNumbers(totals, constants, numbering, gapless)


def _own_places(own: Sequence[str], names: list[str]) -> "slice | list[int]":
    """Where names are among a site's own."""
    if list(own) == names:
        return slice(None)
    places = {name: place for place, name in enumerate(own)}
    return [places[name] for name in names]


def _merged_kind(own: Iterable[Kind]) -> Kind | None:
    """The kind of a column at all sites; None if they contradict each other."""
    kinds = set(own) - {"empty"}
    if len(kinds) == 1:
        return kinds.pop()
    if not kinds:
        return "empty"
    return "identifier" if kinds == {"category", "identifier"} else None


def _by_all_sites(column: MergedColumn) -> MergedColumn:
    """The column; many small sites may show together that it tells rows apart."""
    if column.kind == "category" and len(column.sites) > 1 and is_identifier(column.counts):
        return replace(column, kind="identifier", levels_at=())
    return column


def crowded(columns: Sequence[MergedColumn]) -> list[Finding]:
    """Errors about categories with more levels than can be features.

    Examples
    --------
    >>> crowded([])
    []
    """
    return [
        error(
            f'column "{column.name}" has {len(column.counts):,} levels at all sites together, '
            f"more than {MOST_LEVELS}; merge rare levels or leave it out with --drop {column.name}",
            column.name,
        )
        for column in columns
        if column.kind == "category" and len(column.counts) > MOST_LEVELS
    ]


def _presence_faults(descriptions: Sequence[Outline], partial: Sequence[str]) -> list[str]:
    """Of columns that some have: which sites lack what most have, or have what most lack."""
    lacking: dict[str, list[str]] = {}
    extra: dict[str, list[str]] = {}
    present = [frozenset(site.names) for site in descriptions] if partial else []
    for name in partial:
        has_it = [name in names for names in present]
        is_usual = 2 * sum(has_it) >= len(descriptions)
        for site, has in zip(descriptions, has_it, strict=True):
            if has != is_usual:
                (lacking if is_usual else extra).setdefault(site.site, []).append(name)
    faults = [f"{site} lacks {listed(names, _COLUMNS_SHOWN)}" for site, names in lacking.items()]
    return faults + [
        f"only {site} has {listed(names, _COLUMNS_SHOWN)}" for site, names in extra.items()
    ]


def _clash(name: str, sites: Sequence[str], kinds: Sequence[Kind]) -> str:
    by_word: dict[str, list[str]] = {}
    for site, kind in zip(sites, kinds, strict=True):
        if kind != "empty":
            by_word.setdefault(_IN_WORDS[kind], []).append(site)
    where = [f"{word} at {joined(names)}" for word, names in by_word.items()]
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


def telltale_findings(used: Sequence[MergedColumn]) -> list[Finding]:
    """Warnings about features that are probably not meant to be any.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.describing import describe
    >>> from fedsparse.tables.inputs import Roles
    >>> frame = pl.DataFrame({"case": range(30), "relapse": [0, 1] * 15})
    >>> columns, _ = merge([describe(frame, "Bari", Roles(target="relapse"))])
    >>> print(telltale_findings(columns)[0].sentence)
    whole numbers that all differ and look like a numbering of rows: "case"; drop them with --drop
    if they are
    """
    numberings = [column.name for column in used if _is_numbering(column)]
    site_marks = [column.name for column in used if _marks_sites(column)]
    found = []
    if numberings:
        found.append(
            warning(
                "whole numbers that all differ and look like a numbering of rows: "
                f"{listed(numberings)}; drop them with --drop if they are"
            )
        )
    if site_marks:
        found.append(
            warning(
                f"the same in all rows of a site but not at all sites: {listed(site_marks)}; "
                "drop them with --drop if they merely tell sites apart"
            )
        )
    return found


def _is_numbering(column: MergedColumn) -> bool:
    numbers = column.numbers
    if numbers is None or not numbers.numbering.all():
        return False
    total = column.known
    if total < FEWEST_IDENTIFIERS:
        return False
    # Rows numbered from 0 or 1 whose sites take turns have gaps at each site, but add up.
    adds_up = 2 * sum(numbers.totals.tolist()) in (total * (total - 1), total * (total + 1))
    return adds_up or bool(numbers.gapless.all()) or _NAME.search(column.name) is not None


def _marks_sites(column: MergedColumn) -> bool:
    if len(column.sites) == 1:
        return column.is_site_mark
    if column.numbers is not None:
        return not np.isnan(column.numbers.constants).any()
    return all(len(levels) <= 1 for levels in column.levels_at)


def look_alike_findings(
    descriptions: Sequence[Outline], columns: Sequence[MergedColumn]
) -> list[Finding]:
    """Warnings about sites, and levels of a category, that differ only in case or blanks.

    Examples
    --------
    >>> sites = [SiteDescription(site=name, rows=9) for name in ("Bari", "bari")]
    >>> print(look_alike_findings(sites, [])[0].sentence)
    sites "Bari" (9 rows) and "bari" (9 rows) differ only in case or blanks; if they are one, write
    them alike
    """
    rows = {
        own.site: own.rows if isinstance(own, SiteDescription) else None for own in descriptions
    }
    found = [
        warning(f"sites {names} differ only in case or blanks; if they are one, write them alike")
        for names in _alike(rows)
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


def _alike(counts: Mapping[str, int | None]) -> list[str]:
    """Names that look alike, each with its rows if they are known."""
    groups: dict[str, list[str]] = {}
    for name in counts:
        groups.setdefault(plain(name), []).append(name)
    return [
        joined([f'"{name}"{_in_brackets(counts[name])}' for name in names])
        for names in groups.values()
        if len(names) > 1
    ]


def _in_brackets(rows: int | None) -> str:
    return "" if rows is None else f" ({counted(rows, 'row')})"
