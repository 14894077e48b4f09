"""A site's own keys and what it remembers: made here, and never told to anybody.

The card that a site hands out is written last. So keys without a card have never been used, and
are made anew when an earlier try was broken off.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fedsparse.errors import OptionError
from fedsparse.federation.folder import SiteFolder, check_site_name
from fedsparse.federation.roster import (
    Roster,
    SiteCard,
    is_same_fingerprint,
    read_card,
    read_roster,
)
from fedsparse.files import PRIVATE_FILE, ready_private_folder, write_atomically


@dataclass(frozen=True)
class Member:
    """A site in a federation: who it is, and whom it takes for the others.

    Attributes
    ----------
    name
        Of the site.
    signing
        Its key, by which the others know what it says.
    roster
        All sites; the one that was pinned.
    """

    name: str
    signing: Ed25519PrivateKey
    roster: Roster


def join(folder: SiteFolder, name: str) -> SiteCard:
    """Make a site's keys, unless they are there, and the card to hand out.

    Examples
    --------
    >>> import tempfile
    >>> folder = SiteFolder(Path(tempfile.mkdtemp()) / "bari")
    >>> card = join(folder, "bari")
    >>> sorted(path.name for path in folder.root.iterdir())
    ['bari.key', 'bari.signing', 'bari.site']
    >>> join(folder, "bari") == card
    True
    """
    check_site_name(name)
    ready_private_folder(folder.root)
    others = [path.stem for path in folder.cards() if path.stem != name]
    if others:
        raise OptionError(
            f"{folder.root} holds the keys of {others[0]}; choose another folder with --keys"
        )
    if not folder.card_of(name).exists():
        _make(folder, name)
    card = read_card(folder.card_of(name))
    if card != SiteCard.of(
        name, load_line_key(folder.key_of(name)).public_key(), load_signing_key(folder, name)
    ):
        raise OptionError(
            f"{folder.card_of(name)} does not belong to the keys beside it; put back the keys that "
            "it was made with, or delete the folder, join again and have the server's "
            "administrator replace the old card"
        )
    return card


def load_line_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key of a site's line."""
    key = _loaded(path)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise _no_key(path)
    return key


def load_signing_key(folder: SiteFolder, name: str) -> Ed25519PrivateKey:
    """The key by which other sites know what a site says."""
    path = folder.signing_of(name)
    key = _loaded(path)
    if not isinstance(key, Ed25519PrivateKey):
        raise _no_key(path)
    return key


def member_of(folder: SiteFolder, accepted: str | None, tell: Callable[[str], None]) -> Member:
    """Who a site is, and whom it takes for the others.

    The first roster is remembered, and its fingerprint told for people to compare. Another one is
    refused from then on, unless its fingerprint is given.

    Parameters
    ----------
    folder
        The site's.
    accepted
        Fingerprint of the roster that the site's administrator accepts, if there is a new one.
    tell
        Is told what to compare.
    """
    member, known = member_in(folder), _remembered(folder)
    roster = member.roster
    if accepted is not None and not is_same_fingerprint(accepted, roster.fingerprint):
        raise OptionError(
            f"the fingerprint of {folder.roster} is {roster.fingerprint}, and not the one that was "
            "given with --accept-roster; ask the server's administrator which of them is right"
        )
    if known is not None and accepted is None and known.fingerprint != roster.fingerprint:
        raise OptionError(
            f"{folder.roster} is not the roster of last time: "
            f"{', '.join(known.differences(roster))}; if that is meant, have the server's "
            "administrator read out the roster's fingerprint and give it with --accept-roster"
        )
    if known != roster:
        write_atomically(folder.pinned, roster.to_bytes())
        tell(
            f"The roster has {len(roster.names)} sites ({', '.join(roster.names)}) and the "
            f"fingerprint {roster.fingerprint}. Compare it with the administrators of the server "
            "and of other sites, by telephone: if it is another there, stop. It is remembered in "
            f"{folder.pinned}."
        )
    return member


def member_in(folder: SiteFolder) -> Member:
    """Who a site is by its keys and the roster that lies beside them, whatever was remembered."""
    name = folder.key.stem
    signing = load_signing_key(folder, name)
    roster = read_roster(folder.roster)
    _check_own(roster, name, folder, signing)
    return Member(name, signing, roster)


def is_remembered(folder: SiteFolder, roster: Roster) -> bool:
    """Whether a roster is the one that was accepted last."""
    known = _remembered(folder)
    return known is not None and known.fingerprint == roster.fingerprint


def _remembered(folder: SiteFolder) -> Roster | None:
    """The roster of last time, if there was one."""
    if not folder.pinned.exists():
        return None
    try:
        return read_roster(folder.pinned)
    except OptionError:
        raise OptionError(
            f"{folder.pinned} is damaged; delete it, and compare the fingerprint of the roster "
            "that is told then with the other administrators"
        ) from None


def _check_own(roster: Roster, name: str, folder: SiteFolder, signing: Ed25519PrivateKey) -> None:
    """Refuse a roster that has somebody else under the site's own name."""
    if name not in roster:
        raise OptionError(
            f"{folder.roster} does not have {name}; send {folder.card_of(name)} to the server's "
            "administrator, and ask for the new roster"
        )
    if roster[name] != SiteCard.of(name, load_line_key(folder.key).public_key(), signing):
        raise OptionError(
            f"{folder.roster} has {name} with another key than {folder.key}; send "
            f"{folder.card_of(name)} to the server's administrator to replace it, and find out "
            "whose key that is"
        )


def _make(folder: SiteFolder, name: str) -> None:
    # The public key goes along with every request: this curve's is a third shorter.
    line = ec.generate_private_key(ec.SECP256R1())
    signing = Ed25519PrivateKey.generate()
    _write_key(folder.key_of(name), line)
    _write_key(folder.signing_of(name), signing)
    card = SiteCard.of(name, line.public_key(), signing)
    write_atomically(folder.card_of(name), card.to_bytes())


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | Ed25519PrivateKey) -> None:
    content = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    write_atomically(path, content, PRIVATE_FILE)


def _loaded(path: Path) -> object:
    try:
        return serialization.load_ssh_private_key(path.read_bytes(), None)
    except FileNotFoundError:
        raise OptionError(
            f"there is no {path}; make a site's keys with 'fedsparse federation join', or put back "
            "the ones that were there"
        ) from None
    except (ValueError, TypeError):
        raise _no_key(path) from None


def _no_key(path: Path) -> OptionError:
    return OptionError(
        f"{path} is not a site's key; put back the one that 'fedsparse federation join' made"
    )
