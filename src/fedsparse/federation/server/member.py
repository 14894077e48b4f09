"""A site as the server sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fedsparse.errors import FederationError
from fedsparse.federation.secure.statements import Introduction, Signers
from fedsparse.federation.sites.site_tables import Told
from fedsparse.tables import SiteDescription
from fedsparse.tables.schemas import Outline


@dataclass(eq=False)
class Member:
    """A site as the server sees it.

    Attributes
    ----------
    name, node, place
        Who it is.
    description
        What it told of its table.
    setup, session
        What it must know, and the digest that stands for it.
    knows_setup, knows_lenses
        What it has been told.
    answers, missed
        Exchanges in which it answered or did not; questions about f, l_i, sums of columns or
        metrics alone do not count.
    unscaled
        Exchanges about sums of columns in which it did not answer.
    pending
        Messages it has not replied to, each with the number of the question and when it was sent.
    is_absent
        Whether it failed to answer in time; its next reply shows that it is back.
    excluded
        Why it is asked no more, if so.
    table
        Digest of its rows, told with its first answer.
    introduction
        Its key in this run, where sums are secure.
    bytes_down, bytes_up
        Payloads sent and received.
    socket_down, socket_up
        What crossed the site's sockets up to its last answer, by its own count; None if it has
        none.
    """

    name: str
    node: int
    place: int
    description: Outline
    setup: bytes = b""
    session: str = ""
    knows_setup: bool = False
    knows_lenses: set[str] = field(default_factory=set)
    answers: int = 0
    missed: int = 0
    unscaled: int = 0
    pending: dict[str, tuple[int, float]] = field(default_factory=dict)
    is_absent: bool = False
    excluded: str | None = None
    table: str | None = None
    introduction: Introduction | None = None
    bytes_down: int = 0
    bytes_up: int = 0
    socket_down: int | None = None
    socket_up: int | None = None

    @property
    def rows(self) -> int | None:
        """How many it told that it has; None: it did not."""
        return self.description.rows if isinstance(self.description, SiteDescription) else None

    def add_crossed(self, down: int, up: int) -> None:
        """Count what a site says crossed its sockets."""
        self.socket_down = (self.socket_down or 0) + down
        self.socket_up = (self.socket_up or 0) + up


def members_of(told: Mapping[int, Told], roster: Signers | None) -> list[Member]:
    """Those who came to a roll call, in order; a FederationError if a key is not signed.

    Parameters
    ----------
    told
        What sites told, by node.
    roster
        Keys of all sites, where sums are secure.
    """
    return [
        Member(
            own.description.site, node, place, own.description,
            introduction=None if roster is None else introduction_of(own, roster),
        )
        for place, (node, own) in enumerate(told.items())
    ]  # fmt: skip


def introduction_of(told: Told, roster: Signers) -> Introduction:
    """The key that a site told at the roll call; a FederationError if it is not signed."""
    name = told.description.site
    if told.introduction is None:
        raise FederationError(f"{name} told no key; install the same release of fedsparse there")
    run, public, signature = told.introduction
    try:
        own = Introduction(int(run), name, bytes.fromhex(public), bytes.fromhex(signature))
    except ValueError:
        raise FederationError(f"the key that {name} told is malformed") from None
    own.check(roster)
    return own
