"""``fedsparse federation ledger``: what a site was asked, what left it, and what it refused."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedsparse.cli.federation.flower_options import need_flower
from fedsparse.cli.printing import print_table, say
from fedsparse.errors import OptionError
from fedsparse.files import write_atomically
from fedsparse.text import visible

if TYPE_CHECKING:
    from fedsparse.federation.sites.chained_file import Chain, Record

_BROKEN = 1
_COLUMNS = (
    "number", "at", "event", "run", "server", "table", "asked", "answers", "kept back", "left",
    "digest", "sums", "reason", "hash",
)  # fmt: skip


def ledger(
    place: Annotated[Path, typer.Argument(help="The ledger's folder, or its file.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Only check that no record was changed or removed.")
    ] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write all records to a .csv or .jsonl file.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace an export already there.")] = False,
) -> None:
    """Show what a site was asked, what left it and what it refused.

    Ends with exit code 1 if a record was changed, removed or moved.
    """
    need_flower()
    from fedsparse.federation.sites.chained_file import read_chain
    from fedsparse.federation.sites.ledger import ledger_file

    file = ledger_file(place)
    chain = read_chain(file.read_bytes())
    if export is not None:
        if export.exists() and export.samefile(file):
            raise OptionError(f"{export} is the ledger itself; choose another --export")
        _export(chain.records, export, overwrite=overwrite)
    elif not verify:
        _show(chain.records)
    _verdict(file, chain)


def _verdict(file: Path, chain: "Chain") -> None:
    """Say whether the chain is sound; end with exit code 1 if it is not."""
    from fedsparse.tables.sentences import counted

    if chain.broken is not None:
        typer.echo(
            f"Line {chain.broken} of {file} is not the one that was written there; "
            f"{counted(len(chain.records), 'record')} before it can be relied on.",
            err=True,
        )
        raise typer.Exit(_BROKEN)
    if chain.torn:
        say(
            f"the last line was being written when the site stopped; its {chain.torn} bytes "
            "do not count, and its answer did not leave",
            is_note=True,
        )
    typer.echo(
        f"{counted(len(chain.records), 'record')}, none changed. The hash of the last one is "
        f"{chain.last}; kept elsewhere, it shows whether any was cut off."
    )


def _show(records: "Sequence[Record]") -> None:
    print_table(
        "Ledger",
        ["when (UTC)", "run", "what", "answers", "left"],
        (
            [
                f"{record.at:%Y-%m-%d %H:%M:%S}",
                visible(record.told.get("run", "")),
                visible(_words(record)),
                f"{answers:,}" if (answers := record.told.get("answers")) else "",
                f"{left:,} B" if (left := record.told.get("left")) else "",
            ]
            for record in records
        ),
        text=3,
    )


def _words(record: "Record") -> str:
    """What a record says, in a few words."""
    from fedsparse.tables.sentences import counted

    told = record.told
    match record.event:
        case "opened":
            torn = f"; {told['torn']} bytes of a torn line were left" if "torn" in told else ""
            return f"opened table {told['table'][:8]} with {counted(told['rows'], 'row')}{torn}"
        case "accepted":
            beside = ", ".join(other[:8] for other in told["beside"])
            return f"table {told['table'][:8]} accepted although few rows differ from {beside}"
        case "described":
            few = told.get("withheld", 0)
            return "described its table" + (f", {counted(few, 'column')} withheld" if few else "")
        case "answered":
            kept = told.get("kept back", 0)
            return f"answered {_asked(told)} ({told['sums']} sums)" + (
                f"; {kept:,} not, for none or too few rows" if kept else ""
            )
        case "unmasked":
            return f"helped to open a sum over {counted(len(told['sites']), 'site')}"
        case "refused":
            return f"refused {_asked(told)}: {told['reason']}"
    return record.event


def _asked(told: Any) -> str:
    kinds = told.get("asked", {})
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in kinds.items())


def _export(records: "Iterable[Record]", path: Path, *, overwrite: bool) -> None:
    if path.suffix not in (".csv", ".jsonl"):
        raise OptionError(f"{path} is neither .csv nor .jsonl; choose one of them for --export")
    if path.exists() and not overwrite:
        raise OptionError(f"{path} exists already; choose another --export, or add --overwrite")
    lines = [
        {
            "number": record.number,
            "at": record.at.isoformat(),
            "event": record.event,
            **record.told,
            "hash": record.hash,
        }
        for record in records
    ]
    text = _csv(lines) if path.suffix == ".csv" else _json_lines(lines)
    write_atomically(path, text.encode())
    typer.echo(f"{len(lines):,} records: {path}")


def _json_lines(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _csv(lines: list[dict[str, Any]]) -> str:
    """A line a record; what only some records have is in the other form."""
    text = io.StringIO()
    table = csv.DictWriter(text, _COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
    table.writeheader()
    for line in lines:
        table.writerow(
            {**line, "asked": _asked(line), "reason": _not_a_formula(line.get("reason", ""))}
        )
    return text.getvalue()


def _not_a_formula(text: str) -> str:
    """Text that a spreadsheet does not take for something to work out."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
