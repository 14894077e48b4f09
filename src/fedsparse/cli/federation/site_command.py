"""``fedsparse federation site``: answers the server on a site's own table."""

import logging
import math
import re
import signal
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsparse.cli.federation.flower_options import DEFAULT_PORT, need_flower, warn_insecure
from fedsparse.errors import OptionError

if TYPE_CHECKING:
    from fedsparse.federation.folder import SiteFolder
    from fedsparse.federation.sites.line import Access

log = logging.getLogger("fedsparse.federation")


def site(
    data: Annotated[Path, typer.Option(help="The table: CSV, TSV, Parquet, Arrow or LIBSVM.")],
    server: Annotated[str, typer.Option(help="The server's HOST or HOST:PORT.")],
    target: Annotated[str | None, typer.Option(help="Column to predict; not for LIBSVM.")] = None,
    exposure: Annotated[
        str | None,
        typer.Option(help="Of counts: column that says for how long, or of how many."),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Of survival: column that says when the event was, or the last look."),
    ] = None,
    event: Annotated[
        str | None,
        typer.Option(
            help="Of survival: column that says whether the event was (1, yes, true) or not "
            "(0, no, false)."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column that this site does not offer; may be repeated."),
    ] = None,
    category: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of numbers, maybe the target, that may be told level by level; may be "
            "repeated."
        ),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="Folder that 'fedsparse federation join' made.")
    ] = None,
    accept_roster: Annotated[
        str | None,
        typer.Option(help="Fingerprint of a new roster, as the administrators compared it."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the site; by default that of its key or table.")
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(help="TOML file that says what this site answers.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Folder in which this site enters what it answers; by default 'ledger' among its "
            "keys, NAME-ledger here without keys."
        ),
    ] = None,
    accept_table: Annotated[
        str | None,
        typer.Option(
            help="First digits of a table to use although it differs from an earlier one in few "
            "rows.",
            metavar="DIGITS",
        ),
    ] = None,
    loss: Annotated[
        list[str] | None,
        typer.Option(
            help="A loss that the server may use beside those of fedsparse, as module:Class or "
            "file.py:Class; may be repeated."
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option(min=1.0, help="Seconds without the server before giving up.")
    ] = 86400.0,
    poll: Annotated[
        float, typer.Option(min=0.05, help="Seconds between two looks for a message.")
    ] = 0.5,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Without TLS and without a key; for trials.")
    ] = False,
) -> None:
    """Connect to the server and answer its requests until interrupted.

    The table is read here and stays here. Only what the policy allows is answered, by the installed
    fedsparse and the losses named here: no code of the server is run.
    """
    need_flower()
    from fedsparse.compute.workers import available_threads
    from fedsparse.federation.logs import show_log
    from fedsparse.federation.secure.site_masking import SiteMasking
    from fedsparse.federation.site_keys import member_of
    from fedsparse.federation.sites.connection import serve
    from fedsparse.federation.sites.ledger import Ledger
    from fedsparse.federation.sites.policy import Policy, read_policy
    from fedsparse.federation.sites.questions import AnsweredQuestions
    from fedsparse.federation.sites.site import Site
    from fedsparse.federation.sites.site_tables import check_site_outcome, open_table
    from fedsparse.modelling.methods import loss_class

    if not math.isfinite(patience) or not math.isfinite(poll):
        raise OptionError("--patience and --poll are numbers of seconds; correct them")
    check_site_outcome(target, exposure, time, event)
    for place in loss or ():
        loss_class(place)
    access = _access(server, keys, insecure)
    member = None if insecure else member_of(_folder(keys), accept_roster, typer.echo)
    known_as = name or (data.stem if member is None else member.name)
    rules = Policy() if policy is None else read_policy(policy)
    table = open_table(
        data, time or target, tuple(drop or ()), tuple(category or ()),
        event=event, exposure=exposure,
    )  # fmt: skip
    if member is None:
        # Without keys nothing can be hidden, and whoever says --insecure has been told so.
        rules = rules.model_copy(update={"open_sums": True})
    folder = ledger or _ledger_beside(access, known_as)
    with closing(Ledger(folder, known_as, access.address)) as book:
        book.open_table(table, rules, accept_table)
        masking = questions = None
        if member is not None:
            masking = SiteMasking(member.name, member.signing, member.roster)
            questions = AnsweredQuestions(_folder(keys).questions, rules.most_changes_of_sites)
        own = Site(known_as, table, rules, available_threads(), book, masking, questions)
        show_log()
        log.info("%s enters what it is asked and answers in %s", known_as, folder)
        own.look()
        stop = _stop_on_signals()
        serve(own, access, patience=patience, poll=poll, stop=stop)
    typer.echo(f"{known_as} has left the federation.")


def _access(server: str, keys: Path | None, insecure: bool) -> "Access":
    from fedsparse.federation.sites.line import Access

    address = _address(server)
    if insecure:
        warn_insecure()
        return Access(address)
    folder = _folder(keys)
    folder.check()
    return Access(address, folder.authority, folder.key)


def _folder(keys: Path | None) -> "SiteFolder":
    from fedsparse.federation.folder import SiteFolder

    return SiteFolder(Path() if keys is None else keys)


def _ledger_beside(access: "Access", name: str) -> Path:
    """Among the site's keys; without any, in this folder."""
    return Path(f"{name}-ledger") if access.key is None else access.key.with_name("ledger")


def _address(server: str) -> str:
    """HOST:PORT, or an OptionError."""
    found = re.fullmatch(r"([^\s:/]+|\[[0-9a-fA-F:.]+\])(?::(\d+))?", server)
    port = DEFAULT_PORT if found is None or found[2] is None else int(found[2])
    if found is None or not 0 < port < 2**16:
        raise OptionError(
            f'"{server}" is no server; name it as HOST or HOST:PORT, such as localhost:8443 or '
            "[::1]:8443"
        )
    return f"{found[1]}:{port}"


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
