"""What a site's administrator wants to know before the first run, point by point."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Literal

import httpx
from cryptography import x509

from fedsparse.engines.engine import FEWEST_IN_A_SUM
from fedsparse.errors import DataError, FederationError, OptionError
from fedsparse.federation.flower_internals import CLOCK_AHEAD, CLOCK_BEHIND, LINE_ERRORS, reason_of
from fedsparse.federation.site_keys import Member
from fedsparse.federation.sites.chained_file import Chain, read_chain
from fedsparse.federation.sites.ledger import LEDGER, spending_of
from fedsparse.federation.sites.line import Access, keys_of, open_line
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.questions import AnsweredQuestions
from fedsparse.federation.sites.site_tables import SiteTable, Wishes
from fedsparse.tables.cells import Task
from fedsparse.tables.sentences import counted

State = Literal["fine", "note", "wrong"]

_SECONDS = 10.0
_SOON = 60
"""Days before a certificate ends that are worth a note."""


@dataclass(frozen=True)
class Checked:
    """What was found on one point.

    Attributes
    ----------
    point
        What was looked at, in a word or two.
    state
        ``"wrong"`` would keep the site from a run; ``"note"`` is something to know.
    said
        In a sentence, with the way out if it is wrong.
    """

    point: str
    state: State
    said: str


def check_line(access: Access) -> Iterator[Checked]:
    """Network, TLS, clock, and whether the server lets the site in; ends at the first that fails.

    Parameters
    ----------
    access
        Where the server is and how it is known.

    Examples
    --------
    >>> [finding.point for finding in check_line(Access("127.0.0.1:9"))]
    ['network']
    """
    host, _, port = access.address.rpartition(":")
    for check in (
        partial(_network, host.strip("[]"), int(port)),
        partial(_certificate, host.strip("[]"), int(port), access.authority),
        partial(_clock, access),
        partial(_door, access),
    ):
        finding = check()
        if finding is not None:
            yield finding
            if finding.state == "wrong":
                return


def _network(host: str, port: int) -> Checked:
    began = time.perf_counter()
    try:
        socket.create_connection((host, port), _SECONDS).close()
    except OSError as error:
        return Checked(
            "network",
            "wrong",
            f"{host}:{port} is not reached ({error.strerror or error}); start the server, or check "
            "address, port and firewall",
        )
    took = time.perf_counter() - began
    return Checked("network", "fine", f"{host}:{port} answers after {1000 * took:.0f} ms")


def _certificate(host: str, port: int, authority: Path | None) -> Checked | None:
    """None where there is no TLS to check."""
    if authority is None:
        return Checked("TLS", "note", "nothing is encrypted, because of --insecure")
    try:
        context = ssl.create_default_context(cafile=str(authority))
        with (
            socket.create_connection((host, port), _SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as line,
        ):
            shown, version = line.getpeercert(binary_form=True), line.version()
    except ssl.SSLCertVerificationError as error:
        return Checked(
            "TLS",
            "wrong",
            f"{host} is not the server that {authority} vouches for ({error.verify_message}); ask "
            "its administrator for the right ca.crt, or use the name that the certificate has",
        )
    except OSError as error:
        return Checked("TLS", "wrong", f"no TLS with {host} ({error}); is that the server's port?")
    assert shown is not None
    until = x509.load_der_x509_certificate(shown).not_valid_after_utc
    days = (until - datetime.now(UTC)).days
    told = f"{version}, the certificate is vouched for and valid until {until:%Y-%m-%d}"
    if days < _SOON:
        return Checked(
            "TLS", "note", f"{told}: {counted(days, 'day')}; have its administrator renew it"
        )
    return Checked("TLS", "fine", told)


def _clock(access: Access) -> Checked:
    scheme, verify = ("http", False) if access.authority is None else ("https", True)
    context = ssl.create_default_context(cafile=str(access.authority)) if verify else False
    try:
        shown = httpx.get(
            f"{scheme}://{access.address}/", verify=context, timeout=_SECONDS, trust_env=False
        ).headers["date"]
        ahead = time.time() - parsedate_to_datetime(shown).timestamp()
    except (httpx.HTTPError, KeyError, ValueError) as error:
        return Checked("clock", "note", f"the server does not tell the time ({reason_of(error)})")
    if -CLOCK_BEHIND < ahead < CLOCK_AHEAD:
        return Checked("clock", "fine", "as the server's, to the second or two")
    return Checked(
        "clock",
        "wrong",
        f"this machine's is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the "
        "server's; set the one that is wrong, best by NTP",
    )


def _door(access: Access) -> Checked:
    try:
        with open_line(access, keys_of(access)):
            return Checked("server", "fine", "lets this site in")
    except LINE_ERRORS as error:
        return Checked(
            "server",
            "wrong",
            f"does not let this site in ({reason_of(error)}); end another process that uses these "
            "keys, or have the server's administrator add the site's card to the roster and "
            "restart the server",
        )


def check_member(member: Member, remembered: bool) -> Iterator[Checked]:
    """Keys, roster, and whether sums hide this site."""
    roster = member.roster
    yield Checked("keys", "fine", f"{member.name} signs and connects with keys of its own")
    compared = "" if remembered else "; compare it by telephone before you begin"
    yield Checked(
        "roster",
        "fine" if remembered else "note",
        f"{counted(len(roster.names), 'site')} ({', '.join(roster.names)}), fingerprint "
        f"{roster.fingerprint}{compared}",
    )
    enough = len(roster.names) >= FEWEST_IN_A_SUM
    yield Checked(
        "secure sums",
        "fine" if enough else "note",
        f"answers travel under masks, with {len(roster.names) - 1} others"
        if enough
        else f"take {FEWEST_IN_A_SUM} sites; with {len(roster.names)} only open sums are possible",
    )


def check_rows(
    site: str, read: Callable[[], SiteTable], task: Task, policy: Policy
) -> Iterator[Checked]:
    """The table, with all that would make the site refuse; sentences may quote rows."""
    try:
        table = read()
    except (DataError, OptionError, OSError) as error:
        yield Checked("table", "wrong", str(error))
        return
    wishes, objection = Wishes(task=task), policy.objection_to_few(table.rows)
    wrong = [
        *([] if objection is None else [objection]),
        *table.lacking(wishes),
        *(fault.sentence for fault in table.faults(site, wishes)),
    ]
    if not wrong:
        yield Checked("table", "fine", f"{counted(table.rows, 'row')} that can be used")
    yield from (Checked("table", "wrong", sentence) for sentence in wrong)
    yield from (Checked("table", "note", odd.sentence) for odd in table.oddities(site))


def check_policy(policy: Policy, path: Path | None) -> Iterator[Checked]:
    """What the site allows."""
    named = "the default one" if path is None else str(path)
    sums = "open sums are allowed" if policy.open_sums else "secure sums alone"
    yield Checked(
        "policy", "fine", f"{named}: {sums}, smallest_samples = {policy.smallest_samples}"
    )
    yield from (Checked("policy", "note", limit) for limit in policy.limits())


def check_ledger(folder: Path, policy: Policy) -> Checked:
    """Whether the ledger is sound and can be written, and what is left of the budget."""
    file = folder / LEDGER
    if not file.exists():
        return Checked("ledger", "fine", f"will begin in {folder}")
    try:
        with closing(file.open("r+b")) as opened:
            chain = read_chain(opened.read())
    except OSError as error:
        return Checked(
            "ledger", "wrong", f"{file} cannot be written ({error.strerror}); nothing would leave"
        )
    if chain.broken is not None:
        return Checked(
            "ledger",
            "wrong",
            f"line {chain.broken} of {file} is not the one that was written there; find out who "
            "changed it",
        )
    given = spending_of(chain.records).in_month(datetime.now(UTC))
    return Checked(
        "ledger",
        "fine" if given < policy.most_answers_per_month else "wrong",
        f"{counted(len(chain.records), 'record')}, none changed; {given:,} of "
        f"{policy.most_answers_per_month:,} answers of 30 days are given; {_last_of(chain)}",
    )


def _last_of(chain: Chain) -> str:
    """By what people find out that a copy was put back that is not the newest."""
    if not chain.records:
        return "nothing is entered yet"
    at = f"{chain.records[-1].at:%Y-%m-%d %H:%M} UTC"
    return f"the last of {at}, with the hash {chain.last[:12]}…: a later run would be missing in it"


def check_questions(path: Path, ledger: Path) -> Checked:
    """Whether it is still known with whom questions were answered.

    Parameters
    ----------
    path
        Where that is kept.
    ledger
        The ledger's folder, which tells whether any sum was ever opened.
    """
    try:
        known = AnsweredQuestions(path).count
    except (FederationError, OSError) as error:
        return Checked("questions", "wrong", str(error))
    if path.exists():
        told = f"{counted(known, 'question')} remembered, with the sites that answered together"
        return Checked("questions", "fine", told)
    file = ledger / LEDGER
    records = read_chain(file.read_bytes()).records if file.exists() else ()
    if any(record.event == "unmasked" for record in records):
        return Checked(
            "questions",
            "note",
            f"the ledger says that sums were opened, and there is no {path}: restore its last "
            "copy, unless all administrators agreed to move it away",
        )
    return Checked("questions", "fine", f"none answered under masks yet; will begin in {path}")
