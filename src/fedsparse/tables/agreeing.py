"""One encoding from the descriptions of all sites, without a look at a row."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fedsparse.checks import check_count
from fedsparse.tables.cells import LearntTask, Task, check_task
from fedsparse.tables.counting import Counts, counted_columns
from fedsparse.tables.describing import MOST_NUMBER_LABELS, SiteDescription, TargetDescription
from fedsparse.tables.encoding import (
    Encoding,
    Impute,
    column_findings,
    encoded,
    left_out,
    name_findings,
)
from fedsparse.tables.inputs import Roles, check_roles
from fedsparse.tables.merging import (
    Matching,
    MergedColumn,
    crowded,
    look_alike_findings,
    merge,
    plain,
    telltale_findings,
)
from fedsparse.tables.outcomes import EVENT
from fedsparse.tables.schemas import Outline, SiteSchema, TargetSchema
from fedsparse.tables.sentences import (
    Finding,
    check_choice,
    counted,
    error,
    joined,
    listed,
    nearest,
    note,
    raise_errors,
    warning,
)
from fedsparse.tables.values import MOST_LEVELS, sorted_labels

MINIMUM_ROWS = 5
"""A site with fewer rows is refused unless one says otherwise."""


@dataclass(frozen=True)
class TargetDecision:
    """The task, its classes, and what there is to say about them."""

    task: LearntTask
    classes: tuple[str, ...] | None
    findings: tuple[Finding, ...]


def decide_target(descriptions: Sequence[SiteDescription], task: Task) -> TargetDecision:
    """Decide from the sites' descriptions what is to be learnt.

    Parameters
    ----------
    descriptions
        One per site. Sites without a description of their target have been told why.
    task
        What was asked for.

    Examples
    --------
    >>> no, both = ({"no": 3}, {"no": 2, "yes": 4})
    >>> sites = [
    ...     SiteDescription(
    ...         site=site,
    ...         rows=6,
    ...         target=TargetDescription(kind="label", labels=labels),
    ...     )
    ...     for site, labels in (("Bari", no), ("Cork", both))
    ... ]
    >>> decision = decide_target(sites, "auto")
    >>> decision.task, decision.classes
    ('classification', ('no', 'yes'))
    >>> print(decision.findings[0].sentence)
    at Bari all rows are "no"; training can go on, the other sites have the other classes
    """
    targets = {site.site: site.target for site in descriptions if site.target is not None}
    numbers = [target.numbers for target in targets.values() if target.numbers is not None]
    values = {summary.constant for summary in numbers}
    is_one = len(values) == 1 and None not in values
    return _decided(
        {
            site: TargetSchema(
                kind=own.kind, labels=None if own.labels is None else tuple(own.labels)
            )
            for site, own in targets.items()
        },
        _label_counts(list(targets.values())),
        task,
        f"every row has the target {numbers[0].constant:g}" if is_one else None,
    )


def decide_counted(schemas: Sequence[SiteSchema], counts: Counts, task: Task) -> TargetDecision:
    """The same from schemas and sums over all sites.

    Examples
    --------
    >>> import numpy as np
    >>> from fedsparse.tables.counting import Countable
    >>> target = TargetSchema(kind="label", labels=("no", "yes"))
    >>> sums = {"rows": np.array(9), "target": np.array(0), "labels": np.array([8.0, 1.0])}
    >>> counts = Counts(Countable(target=target), sums)
    >>> bari = SiteSchema(site="Bari", target=target)
    >>> decide_counted([bari], counts, "auto").findings[0].sentence
    'only one row has the class "yes"'
    """
    targets = {site.site: site.target for site in schemas if site.target is not None}
    has_labels = counts.counted.target is not None and counts.counted.target.labels is not None
    return _decided(
        targets,
        Counter(counts.labels) if has_labels else None,
        task,
        "every row of a site has the same target" if counts.has_one_target else None,
    )


def _decided(
    targets: dict[str, TargetSchema], counts: Counter[str] | None, task: Task, constant: str | None
) -> TargetDecision:
    """Decide by kinds, rows of each label, and what is wrong if numbers do not vary."""
    if not targets:
        return TargetDecision("regression", None, ())
    if task == "survival":
        return TargetDecision("survival", None, tuple(_survival_findings(targets, constant)))
    by_kind = {
        kind: [site for site, target in targets.items() if target.kind == kind]
        for kind in ("number", "label")
    }
    if by_kind["number"] and by_kind["label"]:
        return TargetDecision("classification", None, (_mixed(by_kind),))
    if task == "counts":
        return TargetDecision("counts", None, tuple(_count_findings(by_kind["label"], constant)))
    if task == "classification" or (task == "auto" and _are_classes(targets, counts)):
        return _classification(targets, counts)
    findings = (
        _regression_findings(counts, constant)
        if by_kind["number"]
        else [error("the target holds labels, and regression needs numbers")]
    )
    return TargetDecision("regression", None, tuple(findings))


def _label_counts(targets: Sequence[TargetDescription]) -> Counter[str] | None:
    """Rows of each label at all sites; None if some site has too many numbers to be labels."""
    counts: Counter[str] = Counter()
    for target in targets:
        if target.labels is None:
            return None
        counts.update(target.labels)
    return counts


def _are_classes(targets: dict[str, TargetSchema], counts: Counter[str] | None) -> bool:
    are_labels = next(iter(targets.values())).kind == "label"
    return are_labels or (counts is not None and len(counts) == 2)


def _mixed(by_kind: dict[str, list[str]]) -> Finding:
    numbers, text = (joined(by_kind[kind][:5]) for kind in ("number", "label"))
    return error(f"the target holds numbers at {numbers} and labels at {text}; use one kind")


def _classification(
    targets: dict[str, TargetSchema], counts: Counter[str] | None
) -> TargetDecision:
    if counts is None:
        problem = "a site describes its target as numbers, not as labels; ask it for classification"
        return TargetDecision("classification", None, (error(problem),))
    classes = sorted_labels(list(counts))
    findings = []
    if len(classes) == 1:
        findings = [error(f'every row has the target "{classes[0]}"; give rows of another class')]
    elif len(classes) > MOST_LEVELS:
        findings = [error(f"the target has {len(classes):,} classes, more than {MOST_LEVELS}")]
    else:
        labels = {site: target.labels or () for site, target in targets.items()}
        findings = [_one_class(site, own[0]) for site, own in labels.items() if len(own) == 1]
        rare = [label for label in classes if counts[label] == 1]
        if rare:
            findings.append(warning(f"only one row has the class {listed(rare)}"))
    return TargetDecision("classification", classes, tuple(findings))


def _one_class(site: str, label: str) -> Finding:
    return warning(
        f'at {site} all rows are "{label}"; training can go on, '
        "the other sites have the other classes"
    )


def _regression_findings(counts: Counter[str] | None, constant: str | None) -> list[Finding]:
    if constant is not None:
        return [error(f"{constant}; it must vary")]
    if counts and len(counts) <= MOST_NUMBER_LABELS and _are_whole(counts):
        return [
            note(
                f"the target has {len(counts)} different whole numbers and is taken as a number; "
                "ask for --task classification if they are classes"
            )
        ]
    return []


def _count_findings(of_labels: Sequence[str], constant: str | None) -> list[Finding]:
    if of_labels:
        return [
            error(f"the target holds labels at {joined(of_labels[:5])}, and counts are numbers")
        ]
    if constant is not None:
        return [note(f"{constant}: rates vary with the exposure alone, if there is one")]
    return []


def _survival_findings(targets: dict[str, TargetSchema], constant: str | None) -> list[Finding]:
    without = [site for site, own in targets.items() if EVENT not in (own.labels or ())]
    if len(without) == len(targets):
        return [
            error(
                "no row has an event: every time is censored, and nothing can be learnt of when "
                "events happen; give rows with events"
            )
        ]
    found = [
        warning(f"at {site} no row has an event; training can go on, its rows teach nothing")
        for site in without
    ]
    if constant is not None:
        found.append(
            warning(
                "all times of a site are the same: only who had the event can be learnt, and not "
                "when; --task classification says that in simpler words"
            )
        )
    return found


def _are_whole(labels: Iterable[str]) -> bool:
    return all(float(label).is_integer() for label in labels)


@dataclass(frozen=True)
class Agreement:
    """What came of putting descriptions together.

    Attributes
    ----------
    encoding
        None if the sites' tables cannot be encoded.
    columns
        Every column that all sites have, used or not.
    findings
        What there is to say; errors among them forbid the encoding.
    """

    encoding: Encoding | None
    columns: tuple[MergedColumn, ...]
    findings: tuple[Finding, ...]


def agree(
    descriptions: Sequence[SiteDescription],
    roles: Roles,
    *,
    task: Task = "auto",
    impute: Impute = None,
    minimum_rows: int = MINIMUM_ROWS,
) -> Encoding:
    """Agree on one encoding for all sites.

    Parameters
    ----------
    descriptions
        One per site; the first decides the order of columns.
    roles
        What the columns are for.
    task
        ``"classification"``, ``"regression"``, ``"counts"`` or ``"survival"``; by default labels,
        truth values and numbers of which there are exactly two are classes, all else is regression.
    impute
        ``"mean"`` leaves missing values to the fit, which fills numbers with the mean and
        categories with the shares of the levels; by default they are refused.
    minimum_rows
        A site with fewer rows is refused.

    Raises
    ------
    DataError
        If the tables do not match, or something in them must be mended first.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables.describing import describe
    >>> roles = Roles(target="relapse")
    >>> bari = pl.DataFrame({"age": [61, 47], "ward": ["ear", "eye"], "relapse": [1, 0]})
    >>> cork = pl.DataFrame({"age": [55, 70], "ward": ["ear", "skin"], "relapse": [1, 0]})
    >>> descriptions = [describe(bari, "Bari", roles), describe(cork, "Cork", roles)]
    >>> encoding = agree(descriptions, roles, minimum_rows=2)
    >>> encoding.feature_names
    ('age', 'ward=ear', 'ward=eye', 'ward=skin')
    >>> encoding.task, encoding.classes
    ('classification', ('0', '1'))
    """
    check_roles(roles)
    check_agreement_options(task, impute, minimum_rows)
    agreement = negotiate(descriptions, roles, task, impute, minimum_rows)
    raise_errors([*lacking_targets(descriptions), *agreement.findings])
    assert agreement.encoding is not None
    return agreement.encoding


def check_agreement_options(task: object, impute: object, minimum_rows: object) -> None:
    """Refuse options that make no sense.

    Examples
    --------
    >>> check_agreement_options("auto", "mean", 5)
    """
    check_task(task)
    check_choice("impute", impute, (None, "mean"))
    check_count("minimum_rows", minimum_rows)


def negotiate(
    descriptions: Sequence[SiteDescription],
    roles: Roles,
    task: Task,
    impute: Impute,
    minimum_rows: int,
) -> Agreement:
    """Put descriptions together and collect all there is to say; see `agree`.

    Examples
    --------
    >>> negotiate([], Roles(target="relapse"), "auto", None, 5).findings[0].sentence
    'there are no sites; give at least one table'
    """
    if not descriptions:
        return Agreement(None, (), (error("there are no sites; give at least one table"),))
    columns, mismatches = merge(descriptions)
    decision = decide_target(descriptions, task)
    few = row_findings(descriptions, minimum_rows)
    return _agreement(descriptions, columns, mismatches, decision, roles, impute, few)


def negotiate_counted(
    schemas: Sequence[SiteSchema],
    matching: Matching,
    counts: Counts,
    roles: Roles,
    task: Task,
    impute: Impute,
    fewest: int,
) -> Agreement:
    """The same from schemas and what was counted over all sites.

    Parameters
    ----------
    schemas, matching
        What sites told, and which columns they have in common.
    counts
        What was counted.
    roles, task, impute
        As for `agree`.
    fewest
        Rows of all sites that what is told of a column of numbers may speak of.
    """
    columns = counted_columns(schemas, matching, counts, fewest)
    decision = decide_counted(schemas, counts, task)
    mismatches = [*matching.findings, *crowded(columns)]
    return _agreement(schemas, columns, mismatches, decision, roles, impute)


def _agreement(
    descriptions: Sequence[Outline],
    columns: tuple[MergedColumn, ...],
    mismatches: Sequence[Finding],
    decision: TargetDecision,
    roles: Roles,
    impute: Impute,
    few: Sequence[Finding] = (),
) -> Agreement:
    used = [column for column in columns if column.left_out is None]
    findings = [
        *name_clashes(descriptions),
        *few,
        *_drop_findings(descriptions, roles),
        *mismatches,
        *decision.findings,
        *column_findings(columns, roles, impute),
        *telltale_findings(used),
        *look_alike_findings(descriptions, used),
    ]
    if not mismatches:
        findings += name_findings(used)
    return Agreement(
        _encoding(columns, roles, decision, impute, findings), columns, tuple(findings)
    )


def row_findings(descriptions: Sequence[SiteDescription], minimum_rows: int) -> list[Finding]:
    """Errors about sites with too few rows.

    Examples
    --------
    >>> bari = SiteDescription(site="Bari", rows=9)
    >>> cork = SiteDescription(site="Cork", rows=3)
    >>> print(row_findings([bari, cork], 5)[0].sentence)
    Cork has 3 rows, fewer than 5; leave it out, or lower the bound with --minimum-rows 3
    """
    return [
        error(
            f"{site.site if len(descriptions) > 1 else 'the table'} has "
            f"{counted(site.rows, 'row')}, fewer than {minimum_rows}; "
            f"{_row_advice(site, descriptions)}, or lower the bound with --minimum-rows {site.rows}"
        )
        for site in descriptions
        if site.rows < minimum_rows
    ]


def _row_advice(site: SiteDescription, descriptions: Sequence[SiteDescription]) -> str:
    if len(descriptions) == 1:
        return "give more"
    others = [other.site for other in descriptions if other.site != site.site]
    alike = [name for name in others if plain(name) == plain(site.site)]
    return f'if it is "{alike[0]}", write it so' if alike else "leave it out"


def lacking_targets(descriptions: Sequence[Outline]) -> list[Finding]:
    """An error about sites that say nothing of their target.

    Examples
    --------
    >>> print(lacking_targets([SiteDescription(site="Bari", rows=9)])[0].sentence)
    no target is described by "Bari"; name it with --target
    """
    lacking = [site.site for site in descriptions if site.target is None]
    if not lacking:
        return []
    return [error(f"no target is described by {listed(lacking)}; name it with --target")]


def name_clashes(descriptions: Sequence[Outline]) -> list[Finding]:
    """An error if sites share a name.

    Examples
    --------
    >>> name_clashes([SiteDescription(site="Bari", rows=9)])
    []
    """
    counts = Counter(site.site for site in descriptions)
    twice = [site for site, count in counts.items() if count > 1]
    return [error(f"several sites are called {listed(twice)}; rename them")] if twice else []


def _drop_findings(descriptions: Sequence[Outline], roles: Roles) -> list[Finding]:
    """A column to drop that no site has is a slip of the pen."""
    dropped = {name for site in descriptions for name in site.dropped}
    present = descriptions[0].names
    found = []
    for name in roles.drop:
        if name not in dropped:
            near = nearest(name, present)
            advice = f'did you mean "{near}"?' if near is not None else "leave it out"
            found.append(error(f'no table has a column "{name}" (--drop); {advice}', name))
    return found


def _encoding(
    columns: Sequence[MergedColumn],
    roles: Roles,
    decision: TargetDecision,
    impute: Impute,
    findings: Sequence[Finding],
) -> Encoding | None:
    if any(finding.severity == "error" for finding in findings):
        return None
    used = tuple(encoded(column) for column in columns if column.left_out is None)
    owners = [column.name for column in used for _ in column.feature_names]
    return Encoding(
        columns=used,
        impute=impute,
        target=str(roles.target),
        event=roles.event,
        exposure=roles.exposure,
        task=decision.task,
        classes=decision.classes,
        kept=tuple(place for place, owner in enumerate(owners) if owner in roles.keep),
        left_out=left_out(columns),
        notes=tuple(finding.sentence for finding in findings),
    )
