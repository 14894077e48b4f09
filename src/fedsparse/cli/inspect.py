"""``fedsparse inspect``: what is in a table, and what would go wrong."""

from typing import TYPE_CHECKING

import typer

from fedsparse.cli.options import (
    Json,
    SiteColumn,
    TableFiles,
    Target,
    offers_settings,
)
from fedsparse.cli.printing import print_table, say, shown
from fedsparse.modelling.specification import TableSpecification

if TYPE_CHECKING:
    from fedsparse.tables.inspecting import ColumnGroup, InspectedSite, Inspection

_WOULD_FAIL = 1
_FEW_LABELS = 6


@offers_settings
def inspect(
    tables: TableFiles,
    target: Target = None,
    site: SiteColumn = None,
    *,
    specification: TableSpecification,
    json: Json = False,
) -> None:
    """Show what is in a table and everything that would go wrong.

    Ends with exit code 1 if a fit with the same options would fail.
    """
    from fedsparse.tables import inspect_tables

    found = inspect_tables(
        tables,
        specification.roles(target, site),
        task=specification.task,
        impute=specification.impute,
        minimum_rows=specification.minimum_rows,
    )
    if json:
        typer.echo(found.model_dump_json())
    else:
        print_inspection(found)
    if found.errors:
        raise typer.Exit(_WOULD_FAIL)


def print_inspection(found: "Inspection") -> None:
    """What is in tables and what there is to say about them, for people."""
    if found.sites:
        shown = [*found.sites, *([] if found.together is None else [found.together])]
        rows = [[site.name, _rows(site), _target(site)] for site in shown]
        print_table("Sites", ["site", "rows", "target"], rows)
    if found.columns:
        kinds = [
            [kind, _examples(group), f"{group.count:,}"] for kind, group in found.columns.items()
        ]
        print_table("Columns", ["kind", "such as", "columns"], kinds, text=2)
    for finding in found.findings:
        say(f"{finding.severity.capitalize()}: {finding.sentence}")
    if found.errors:
        typer.echo(f"\n{len(found.errors)} to mend before a model can be fitted.")
    else:
        typer.echo(f"\nReady: {found.features:,} features to choose from, for {found.task}.")


def _examples(group: "ColumnGroup") -> str:
    names = [name or "(no name)" for name in group.examples]
    return ", ".join([*names, *(["…"] if group.count > len(names) else [])])


def _rows(site: "InspectedSite") -> str:
    return "not told" if site.rows is None else f"{site.rows:,}"


def _target(site: "InspectedSite") -> str:
    """Labels with their counts, or the mean of numbers."""
    target = site.target
    if target is None:
        return "–"
    labels = target.labels
    if isinstance(labels, dict) and len(labels) <= _FEW_LABELS:
        # 0: so few that a site does not tell how many
        return ", ".join(
            f"{label}: {f'{count:,}' if count else 'few'}" for label, count in labels.items()
        )
    if labels is not None and len(labels) <= _FEW_LABELS:
        return ", ".join(labels)
    numbers = getattr(target, "numbers", None)
    if numbers is not None:
        return f"mean {shown(numbers.total / numbers.count)}"
    return "numbers" if labels is None else f"{len(labels)} labels"
