"""Classes or numbers: what the sites' targets are together."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from fedsparse.tables.cells import Task
from fedsparse.tables.describing import MOST_NUMBER_LABELS, SiteDescription, TargetDescription
from fedsparse.tables.kinds import MOST_LEVELS
from fedsparse.tables.sentences import Finding, error, joined, listed, note, warning
from fedsparse.tables.values import sorted_labels


@dataclass(frozen=True)
class TargetDecision:
    """The task, its classes, and what there is to say about them."""

    task: Literal["classification", "regression"]
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
    if not targets:
        return TargetDecision("regression", None, ())
    by_kind = {
        kind: [site for site, target in targets.items() if target.kind == kind]
        for kind in ("number", "label")
    }
    if by_kind["number"] and by_kind["label"]:
        return TargetDecision("classification", None, (_mixed(by_kind),))
    counts = _label_counts(list(targets.values()))
    if task == "classification" or (task == "auto" and _are_classes(targets, counts)):
        return _classification(targets, counts)
    return _regression(list(targets.values()), counts)


def _label_counts(targets: Sequence[TargetDescription]) -> Counter[str] | None:
    """Rows of each label at all sites; None if some site has too many numbers to be labels."""
    counts: Counter[str] = Counter()
    for target in targets:
        if target.labels is None:
            return None
        counts.update(target.labels)
    return counts


def _are_classes(targets: dict[str, TargetDescription], counts: Counter[str] | None) -> bool:
    are_labels = next(iter(targets.values())).kind == "label"
    return are_labels or (counts is not None and len(counts) == 2)


def _mixed(by_kind: dict[str, list[str]]) -> Finding:
    numbers, text = (joined(by_kind[kind][:5]) for kind in ("number", "label"))
    return error(f"the target holds numbers at {numbers} and labels at {text}; use one kind")


def _classification(
    targets: dict[str, TargetDescription], counts: Counter[str] | None
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
        findings = [_one_class(site, target) for site, target in targets.items() if _is_one(target)]
        rare = [label for label in classes if counts[label] == 1]
        if rare:
            findings.append(warning(f"only one row has the class {listed(rare)}"))
    return TargetDecision("classification", classes, tuple(findings))


def _is_one(target: TargetDescription) -> bool:
    return target.labels is not None and len(target.labels) == 1


def _one_class(site: str, target: TargetDescription) -> Finding:
    (label,) = target.labels or {}
    return warning(
        f'at {site} all rows are "{label}"; training can go on, '
        "the other sites have the other classes"
    )


def _regression(
    targets: Sequence[TargetDescription], counts: Counter[str] | None
) -> TargetDecision:
    numbers = [target.numbers for target in targets if target.numbers is not None]
    findings = []
    values = {summary.constant for summary in numbers}
    if not numbers:
        findings = [error("the target holds labels, and regression needs numbers")]
    elif len(values) == 1 and None not in values:
        findings = [error(f"every row has the target {numbers[0].constant:g}; it must vary")]
    elif counts and len(counts) <= MOST_NUMBER_LABELS and all(n.whole for n in numbers):
        findings = [
            note(
                f"the target has {len(counts)} different whole numbers and is taken as a number; "
                "ask for --task classification if they are classes"
            )
        ]
    return TargetDecision("regression", None, tuple(findings))
