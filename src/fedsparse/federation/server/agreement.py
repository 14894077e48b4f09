"""What the sites' tables have in common, from what they told of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from fedsparse.errors import FederationError
from fedsparse.federation.sites.site_tables import Told, Wishes
from fedsparse.tables import Encoding, NumberedEncoding, Roles, SiteDescription
from fedsparse.tables.agreeing import (
    Agreement,
    decide_counted,
    lacking_targets,
    negotiate,
    negotiate_counted,
)
from fedsparse.tables.counting import Counts
from fedsparse.tables.encoding import Impute
from fedsparse.tables.merging import MergedColumn, match
from fedsparse.tables.numbered import negotiate_numbered, settle_numbered
from fedsparse.tables.schemas import SiteSchema
from fedsparse.tables.sentences import Finding, error, joined, nearest, note

_Outline = TypeVar("_Outline", SiteDescription, SiteSchema)


class Terms(Wishes):
    """On which terms tables are put together; more than the sites need to know.

    Examples
    --------
    >>> Terms(impute="mean").wishes
    Wishes(task='auto', drop=(), categories=(), minimum_rows=5, dry_run=False, open_sums=False)
    """

    keep: tuple[str, ...] = ()
    impute: Impute = None

    @property
    def wishes(self) -> Wishes:
        """What is sent to the sites."""
        own = {name: getattr(self, name) for name in Wishes.model_fields}
        return Wishes(**own)


def agree(
    told: Sequence[Told], terms: Terms, counts: Counts | None = None
) -> Encoding | NumberedEncoding:
    """One encoding for all sites, or an error that lists everything that does not match.

    Parameters
    ----------
    told
        In the order of the federation; the first site decides the order of columns.
    terms
        What columns are for, and what is to be refused.
    counts
        What was counted over all sites, where none told its own counts.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.federation.sites.site_tables import NamedTable
    >>> bari = NamedTable(pl.DataFrame({"age": [61, 47], "dose": [3, 4], "days": [9, 8]}), "days")
    >>> york = NamedTable(pl.DataFrame({"age": [55, 70], "days": [7, 5]}), "days")
    >>> told = [bari.describe("bari", Wishes()), york.describe("york", Wishes())]
    >>> agree(told, Terms(minimum_rows=2, task="regression"))
    Traceback (most recent call last):
        ...
    fedsparse.errors.FederationError: the sites' tables do not match: york lacks "dose"; mend them,
    or leave columns out with --drop
    """
    settled = settle(told, terms) if counts is None else settle_counted(told, terms, counts)
    _raise(settled.findings)
    assert settled.encoding is not None
    return settled.encoding


@dataclass(frozen=True)
class Settled:
    """What came of putting the sites' descriptions together.

    Attributes
    ----------
    encoding
        None if there is none.
    columns
        Every column that all sites have or that one withholds; none where features have numbers.
    findings
        All there is to say; errors among them forbid the encoding.
    """

    encoding: Encoding | NumberedEncoding | None
    columns: tuple[MergedColumn, ...]
    findings: tuple[Finding, ...]


def settle(told: Sequence[Told], terms: Terms) -> Settled:
    """Put together what sites told, and collect all there is to say; see `agree`.

    Examples
    --------
    >>> settle([], Terms()).findings[0].sentence
    'there are no sites; give at least one table'
    """
    descriptions = _told_as(SiteDescription, told)
    numbered = [own.numbered for own in descriptions if own.numbered is not None]
    if 0 < len(numbered) < len(told):
        return Settled(None, (), (_mixed(told),))
    if numbered:
        numbers, findings = negotiate_numbered(
            descriptions, numbered, _roles(told, terms), terms.task, terms.minimum_rows
        )
        return Settled(numbers, (), tuple(findings))
    roles = _roles(told, terms)
    agreement = negotiate(descriptions, roles, terms.task, terms.impute, terms.minimum_rows)
    return _settled(told, terms, agreement)


def settle_counted(told: Sequence[Told], terms: Terms, counts: Counts) -> Settled:
    """The same where sites told names and kinds, and counts are known of all together.

    A column of numbers is left out if few rows of all sites have a value that tells them apart,
    by the strictest of the sites' policies. Sites cannot check that: they know no sum.
    """
    schemas = schemas_of(told)
    numbered = [own.numbered for own in schemas if own.numbered is not None]
    if 0 < len(numbered) < len(told):
        return Settled(None, (), (_mixed(told),))
    roles = _roles(told, terms)
    if numbered:
        decision = decide_counted(schemas, counts, terms.task)
        numbers, findings = settle_numbered(schemas, numbered, roles, decision)
        return Settled(numbers, (), tuple(findings))
    fewest = max(own.smallest_samples for own in told)
    agreement = negotiate_counted(
        schemas, match(schemas), counts, roles, terms.task, terms.impute, fewest
    )
    return _settled(told, terms, agreement)


def settle_uncounted(told: Sequence[Told]) -> Settled:
    """What can be said before anything is counted: whether columns match and targets are alike.

    Examples
    --------
    >>> york = Told(description=SiteSchema(site="york"), target="days")
    >>> settle_uncounted([york]).findings[0].severity
    'note'
    """
    uncounted = note("rows are counted once all sites are there and none would refuse")
    findings = [*_target_findings(told), *match(schemas_of(told)).findings, uncounted]
    return Settled(None, (), tuple(findings))


def schemas_of(told: Sequence[Told]) -> list[SiteSchema]:
    """What sites told; a FederationError if one told more than names and kinds.

    Examples
    --------
    >>> schemas_of([Told(description=SiteSchema(site="bari"), target="days")])[0].site
    'bari'
    """
    return _told_as(SiteSchema, told)


def _told_as(kind: type[_Outline], told: Sequence[Told]) -> list[_Outline]:
    found = []
    for own in (each.description for each in told):
        if not isinstance(own, kind):
            raise FederationError(
                f"{own.site} describes its table in another way than it was asked to; install the "
                "same release of fedsparse there"
            )
        found.append(own)
    return found


def _roles(told: Sequence[Told], terms: Terms) -> Roles:
    named = next((own for own in told if own.description.numbered is None), None)
    return Roles(
        target=None if named is None else named.target,
        event=None if named is None else named.event or None,
        exposure=None if named is None else named.exposure or None,
        drop=terms.drop,
        categories=terms.categories,
        keep=terms.keep,
    )


def _settled(told: Sequence[Told], terms: Terms, agreement: Agreement) -> Settled:
    """An agreement on columns with names, and what else there is to say of what sites told."""
    names = [column.name for column in agreement.columns]
    without_faults = [own.description for own in told if own.target not in own.unusable]
    findings = [
        *_target_findings(told),
        *lacking_targets(without_faults),
        *_keep_findings(names, terms),
        *agreement.findings,
    ]
    return Settled(agreement.encoding, agreement.columns, tuple(findings))


def _raise(findings: Sequence[Finding]) -> None:
    """Raise all errors at once: mending one site's table after the other takes days."""
    errors = [finding.sentence for finding in findings if finding.severity == "error"]
    if errors:
        raise FederationError("\n".join(errors))


def _mixed(told: Sequence[Told]) -> Finding:
    names = [own.description.site for own in told if own.description.numbered is None]
    numbers = [own.description.site for own in told if own.description.numbered is not None]
    return error(
        f"columns have names at {joined(names)} and numbers at {joined(numbers)}; "
        "give all sites' files the same format"
    )


def _target_findings(told: Sequence[Told]) -> list[Finding]:
    findings = []
    for what in ("target", "event", "exposure"):
        sites: dict[str, list[str]] = {}
        for own in told:
            sites.setdefault(getattr(own, what), []).append(own.description.site)
        if len(sites) > 1:
            findings.append(_called(what, sites))
    return findings


def _called(what: str, sites: dict[str, list[str]]) -> Finding:
    lacking = sites.pop("", None)
    named = joined([f'"{name}" at {joined(own)}' for name, own in sites.items()])
    if lacking is not None:
        return error(
            f"the {what} is {named}, and {joined(lacking)} has none; start all sites with "
            f"--{what}, or none"
        )
    return error(f"the {what} is called {named}; rename the column at some sites")


def _keep_findings(names: Sequence[str], terms: Terms) -> list[Finding]:
    findings = []
    for name in terms.keep:
        if name not in names:
            near = nearest(name, names)
            advice = f'did you mean "{near}"?' if near is not None else "leave it out"
            findings.append(error(f'no site has a column "{name}" (--keep); {advice}'))
    return findings
