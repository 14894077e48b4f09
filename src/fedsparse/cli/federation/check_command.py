"""``fedsparse federation check``: whether a site is ready, before it takes part."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fedsparse.cli.federation.flower_options import need_flower
from fedsparse.cli.federation.site_options import (
    Category,
    Data,
    Drop,
    Event,
    Exposure,
    Keys,
    LedgerFolder,
    PolicyFile,
    Server,
    Target,
    Time,
    WithoutKeys,
    access_to,
    folder_of_site,
    ledger_folder,
    table_of,
)
from fedsparse.errors import OptionError
from fedsparse.text import visible

if TYPE_CHECKING:
    from fedsparse.federation.sites.checklist import Checked
    from fedsparse.tables.cells import Task

_NOT_READY = 1
_MARKS = {
    "fine": ("ok", typer.colors.GREEN),
    "note": ("note", typer.colors.YELLOW),
    "wrong": ("WRONG", typer.colors.RED),
}


def check(
    data: Data,
    server: Server,
    target: Target = None,
    exposure: Exposure = None,
    time: Time = None,
    event: Event = None,
    drop: Drop = None,
    category: Category = None,
    keys: Keys = None,
    policy: PolicyFile = None,
    ledger: LedgerFolder = None,
    insecure: WithoutKeys = False,
) -> None:
    """Tell, at a site, whether everything is ready for a run; nothing is learnt or written.

    Takes the options of 'fedsparse federation site' and looks at network, TLS, clock, keys, roster,
    policy, ledger, questions and table. Ends with exit code 1 if something is wrong. End the site
    itself before: a server talks to one of two that have the same keys.
    """
    need_flower()
    from fedsparse.federation.sites.site_tables import check_site_outcome

    check_site_outcome(target, exposure, time, event)
    access = access_to(server, keys, insecure)
    task: Task = "auto"
    if event is not None or exposure is not None:
        task = "counts" if event is None else "survival"
    read = partial(table_of, data, target, time, event, exposure, drop, category)

    def points() -> Iterator["Checked"]:
        from fedsparse.federation.sites import checklist
        from fedsparse.federation.sites.policy import Policy, read_policy

        name, rules = data.stem if access.key is None else access.key.stem, Policy()
        yield from _member(keys, insecure)
        yield from checklist.check_line(access)
        try:
            rules = rules if policy is None else read_policy(policy)
            yield from checklist.check_policy(rules, policy)
        except OptionError as error:
            yield checklist.Checked("policy", "wrong", str(error))
        book = ledger_folder(access, name, ledger)
        yield checklist.check_ledger(book, rules)
        if not insecure:
            yield checklist.check_questions(folder_of_site(keys).questions, book)
        yield from checklist.check_rows(name, read, task, rules)

    wrong = 0
    for point in points():
        mark, color = _MARKS[point.state]
        typer.secho(f"{mark:6}", fg=color, bold=True, nl=False)
        typer.echo(f"{point.point:12} {visible(point.said)}")
        wrong += point.state == "wrong"
    if wrong:
        typer.echo(f"Not ready: {wrong} to mend.")
        raise typer.Exit(_NOT_READY)
    typer.echo("Ready: start the site with 'fedsparse federation site' and the same options.")


def _member(keys: Path | None, insecure: bool) -> Iterator["Checked"]:
    """Keys and roster; without protection there are none."""
    from fedsparse.federation.site_keys import is_remembered, member_in
    from fedsparse.federation.sites import checklist

    if insecure:
        yield checklist.Checked(
            "secure sums", "note", "impossible without keys; only open sums are, for trials"
        )
        return
    folder = folder_of_site(keys)
    try:
        member = member_in(folder)
        yield from checklist.check_member(member, is_remembered(folder, member.roster))
    except OptionError as error:
        yield checklist.Checked("keys", "wrong", str(error))
