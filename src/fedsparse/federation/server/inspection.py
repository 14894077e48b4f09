"""A dry run: what the sites' tables come to and all that would go wrong, with nothing learnt."""

import csv
import io
import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from flwr.serverapp import Grid

from fedsparse.engines.engine import FEWEST_IN_A_SUM
from fedsparse.federation.server.agreement import (
    Settled,
    Terms,
    settle,
    settle_counted,
    settle_uncounted,
)
from fedsparse.federation.server.correspondence import Correspondence
from fedsparse.federation.server.mailbox import Mailbox
from fedsparse.federation.server.member import members_of
from fedsparse.federation.server.outcome import recorded, write_outcome
from fedsparse.federation.server.roll_call import dry_roll_call
from fedsparse.federation.server.secure_sums import SecureSums
from fedsparse.federation.server.training import DryRun
from fedsparse.federation.sites.site_tables import Told
from fedsparse.files import write_atomically
from fedsparse.tables.counting import Counts
from fedsparse.tables.encoding import REASONS
from fedsparse.tables.inspecting import (
    Inspection,
    grouped,
    inspected_sites,
    inspected_together,
    ordered,
)
from fedsparse.tables.merging import match
from fedsparse.tables.schemas import ALL_SITES
from fedsparse.tables.sentences import Finding, counted, error, warning

log = logging.getLogger("fedsparse.federation")

INSPECTION = "inspection.json"
LEFT_OUT = "left-out.csv"


class LeftOut(NamedTuple):
    """A column that would not be learnt from."""

    column: str
    kind: str
    """Why, in a word, such as ``"constant"``."""
    reason: str
    """Why, in a few."""
    site: str
    """Because of whom."""


def inspect_sites(grid: Grid, dry_run: DryRun) -> Inspection:
    """Have the sites that a grid reaches describe their tables, and write what training would meet.

    Goes to ``inspection.json``; ``left-out.csv`` names each column that would be left out.
    """
    terms, conduct, folder = dry_run.terms(), dry_run.conduct(), dry_run.folder()
    with recorded(folder):
        roster = dry_run.known_sites()
        wishes = terms.wishes.model_copy(update={"open_sums": roster is None})
        with closing(Mailbox(grid, conduct.round_seconds)) as mailbox:
            by_node, absences = dry_roll_call(mailbox, wishes, conduct)
            told = list(by_node.values())
            findings = [error(problem) for problem in absences]
            counts = None
            if roster is not None and not findings and _may_count(told):
                members = members_of(by_node, roster)
                letters = Correspondence(mailbox, members, conduct)
                counts = SecureSums(roster, letters).count(told, wishes)
        settled = _settled(told, terms, counts, is_open=roster is None)
        columns = list(left_out(told, settled))
        found = _inspection(told, settled, columns, findings, counts)
        if folder is not None:
            write_atomically(folder / INSPECTION, found.model_dump_json(indent=2).encode())
            write_atomically(folder / LEFT_OUT, _as_csv(columns))
            write_outcome(folder, {"errors": len(found.errors)})
    log.info("%d sites described their tables, nothing was learnt", len(told))
    return found


def _may_count(told: Sequence[Told]) -> bool:
    """Whether all sites could train as they are.

    Else some may be left out later, and sites count nothing again with few sites more or fewer.
    """
    names = {own.description.site for own in told}
    is_ready = len(names) == len(told) >= FEWEST_IN_A_SUM
    return is_ready and not any(own.problems for own in told)


def _settled(
    told: Sequence[Told], terms: Terms, counts: Counts | None, *, is_open: bool
) -> Settled:
    if is_open:
        return settle(told, terms)
    return settle_uncounted(told) if counts is None else settle_counted(told, terms, counts)


def read_inspection(folder: Path) -> Inspection:
    """Read what `inspect_sites` wrote."""
    return Inspection.model_validate_json((folder / INSPECTION).read_bytes())


def left_out(told: Sequence[Told], settled: Settled) -> Iterator[LeftOut]:
    """Columns that would not be learnt from, each with the reason and the site it comes from.

    Those that do not match are among them: training would fail unless they are dropped or mended.
    """
    for column in settled.columns:
        if column.kind == "withheld":
            yield from _withheld(column.name, told)
        elif column.left_out is not None:
            yield LeftOut(column.name, column.left_out, REASONS[column.left_out], ALL_SITES)
    yield from _mismatching(told)
    for name in dict.fromkeys(name for own in told for name in own.description.dropped):
        yield LeftOut(name, "dropped", "dropped by --drop", ALL_SITES)


def _withheld(name: str, told: Sequence[Told]) -> Iterator[LeftOut]:
    is_by_sites = False
    for own in told:
        site = own.description.site
        if name in own.unusable:
            yield LeftOut(name, "unusable", "it has cells that cannot be used", site)
        elif name in own.description.withheld:
            yield LeftOut(name, "withheld", "few rows of the site have some value or level", site)
        is_by_sites |= name in own.description.withheld
    if not is_by_sites:
        yield LeftOut(name, "withheld", "few rows of all sites differ in it", ALL_SITES)


def _mismatching(told: Sequence[Told]) -> Iterator[LeftOut]:
    """Columns that a site lacks, or that are of different kinds."""
    matching = match([own.description for own in told])
    known = {*matching.names, *matching.withheld}
    present = [frozenset(own.description.names) for own in told]
    for name in dict.fromkeys(name for own in told for name in own.description.names):
        if name in known:
            continue
        lacking = [
            own.description.site
            for own, names in zip(told, present, strict=True)
            if name not in names
        ]
        for site in lacking:
            yield LeftOut(name, "mismatch", "the site lacks it and others have it", site)
        if not lacking:
            yield LeftOut(name, "mismatch", "it is not of one kind", ALL_SITES)


def _inspection(
    told: Sequence[Told],
    settled: Settled,
    columns: Sequence[LeftOut],
    findings: list[Finding],
    counts: Counts | None,
) -> Inspection:
    descriptions = [own.description for own in told]
    for own in told:
        site = own.description.site
        findings += [error(f"{site} would refuse: {problem}") for problem in own.problems]
        findings += [warning(f"{site}: {limit}") for limit in own.limits]
    if told:
        findings += settled.findings
    is_sound = not any(finding.severity == "error" for finding in findings)
    encoding = settled.encoding if is_sound else None
    worst = sorted(settled.columns, key=lambda column: -column.missing)
    return Inspection(
        source=f"tables of {counted(len(told), 'site')}, which stayed there",
        sites=inspected_sites(descriptions),
        together=None if counts is None else inspected_together(counts),
        columns=grouped(_names_by_kind(settled, columns)),
        missing={column.name: column.missing for column in worst if column.missing},
        features=None if encoding is None else len(encoding.feature_names),
        task=None if encoding is None else encoding.task,
        classes=None if encoding is None else encoding.classes,
        findings=ordered(findings),
    )


def _names_by_kind(settled: Settled, columns: Sequence[LeftOut]) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for column in settled.columns:
        if column.left_out is None:
            names.setdefault(column.kind, []).append(column.name)
    if settled.encoding is not None and not settled.encoding.columns:
        names["number"] = list(settled.encoding.feature_names)
    for column_left_out in columns:
        names.setdefault(column_left_out.kind, []).append(column_left_out.column)
    return {kind: list(dict.fromkeys(own)) for kind, own in names.items()}


def _as_csv(columns: Sequence[LeftOut]) -> bytes:
    written = io.StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(["column", "reason", "site"])
    lines.writerows((own.column, own.reason, own.site) for own in columns)
    return written.getvalue().encode()
