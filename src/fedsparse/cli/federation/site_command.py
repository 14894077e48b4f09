"""``fedsparse federation site``: answers the server on a site's own table."""

import logging
import math
import signal
import threading
from contextlib import closing
from typing import Annotated

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

log = logging.getLogger("fedsparse.federation")


def site(
    data: Data,
    server: Server,
    target: Target = None,
    exposure: Exposure = None,
    time: Time = None,
    event: Event = None,
    drop: Drop = None,
    category: Category = None,
    keys: Keys = None,
    accept_roster: Annotated[
        str | None,
        typer.Option(help="Fingerprint of a new roster, as the administrators compared it."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the site; by default that of its key or table.")
    ] = None,
    policy: PolicyFile = None,
    ledger: LedgerFolder = None,
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
    insecure: WithoutKeys = False,
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
    from fedsparse.federation.sites.site_tables import check_site_outcome
    from fedsparse.modelling.methods import loss_class

    if not math.isfinite(patience) or not math.isfinite(poll):
        raise OptionError("--patience and --poll are numbers of seconds; correct them")
    check_site_outcome(target, exposure, time, event)
    for place in loss or ():
        loss_class(place)
    access = access_to(server, keys, insecure)
    member = None if insecure else member_of(folder_of_site(keys), accept_roster, typer.echo)
    known_as = name or (data.stem if member is None else member.name)
    rules = Policy() if policy is None else read_policy(policy)
    table = table_of(data, target, time, event, exposure, drop, category)
    if member is None:
        # Without keys nothing can be hidden, and whoever says --insecure has been told so.
        rules = rules.model_copy(update={"open_sums": True})
    folder = ledger_folder(access, known_as, ledger)
    with closing(Ledger(folder, known_as, access.address)) as book:
        book.open_table(table, rules, accept_table)
        masking = questions = None
        if member is not None:
            masking = SiteMasking(member.name, member.signing, member.roster)
            questions = AnsweredQuestions(
                folder_of_site(keys).questions, rules.most_changes_of_sites
            )
        own = Site(known_as, table, rules, available_threads(), book, masking, questions)
        show_log()
        log.info("%s enters what it is asked and answers in %s", known_as, folder)
        own.look()
        stop = _stop_on_signals()
        serve(own, access, patience=patience, poll=poll, stop=stop)
    typer.echo(f"{known_as} has left the federation.")


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
