"""The roster of a federation: which sites there are, and by which public keys they are known.

A site makes its keys itself and hands out a card: its name and public keys, signed by itself, so
that a mangled card is noticed. The roster is a list of cards. It is the same for everybody, which
administrators make sure of by comparing its fingerprint over another channel. A site that
keeps it cannot be told of other sites later.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fedsparse.errors import OptionError
from fedsparse.federation.folder import check_site_name

_CARD = "fedsparse site 1"
_ROSTER = "fedsparse roster 1"
_LONGEST_FILE = 2**22
_GROUPS = 12
_GROUP = 4
"""192 bits: who makes two rosters with the same fingerprint has to try 2^96 of them."""


@dataclass(frozen=True)
class SiteCard:
    """A site as it presents itself.

    Attributes
    ----------
    name
        Of the site.
    line
        Public key of its line to the server, as OpenSSH writes it.
    signing
        Public Ed25519 key, by which its messages to other sites are known.
    signature
        Of all of the above, by that key.

    Examples
    --------
    >>> own = Ed25519PrivateKey.generate()
    >>> card = SiteCard.of("bari", ec.generate_private_key(ec.SECP256R1()).public_key(), own)
    >>> card.verify(own.sign(b"hello"), b"hello"), card.verify(own.sign(b"hello"), b"goodbye")
    (True, False)
    >>> SiteCard.from_bytes(card.to_bytes(), "bari.site") == card
    True
    """

    name: str
    line: str
    signing: bytes
    signature: bytes

    @classmethod
    def of(cls, name: str, line: ec.EllipticCurvePublicKey, signing: Ed25519PrivateKey) -> Self:
        """The card of a site that has these keys."""
        check_site_name(name)
        encoded = line.public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        ).decode()
        public = signing.public_key().public_bytes_raw()
        return cls(name, encoded, public, signing.sign(_said(name, encoded, public)))

    @property
    def fingerprint(self) -> str:
        """What the site's administrator reads out, for the server's to compare."""
        return _in_groups(_said(self.name, self.line, self.signing))

    @property
    def line_key(self) -> ec.EllipticCurvePublicKey:
        """Public key of the line."""
        key = serialization.load_ssh_public_key(self.line.encode())
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("the key of a line is on an elliptic curve")
        return key

    def verify(self, signature: bytes, message: bytes) -> bool:
        """Whether it was this site that signed a message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def to_bytes(self) -> bytes:
        """The file that a site hands out."""
        return _as_file({"format": _CARD, **self.to_json()})

    @classmethod
    def from_bytes(cls, content: bytes, source: object) -> Self:
        """Read it back; ``source`` is what an OptionError calls it."""
        return cls.from_json(_read_json(content, _CARD, source), source)

    def to_json(self) -> dict[str, str]:
        """What JSON can hold of it: bytes as hexadecimal digits."""
        return {
            "name": self.name,
            "line": self.line,
            "signing": self.signing.hex(),
            "signature": self.signature.hex(),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, object], source: object) -> Self:
        """Read it back, and check that nothing was changed since the site signed it."""
        try:
            name, line, signing, signature = (
                _text(fields, field) for field in ("name", "line", "signing", "signature")
            )
            card = cls(name, line, bytes.fromhex(signing), bytes.fromhex(signature))
            check_site_name(card.name)
            _ = card.line_key
            is_signed = card.verify(card.signature, _said(card.name, card.line, card.signing))
        except (KeyError, TypeError, ValueError):
            is_signed = False
        if not is_signed:
            raise OptionError(
                f"{source} holds a site whose signature does not fit; it was changed or damaged "
                "on the way, ask for it again"
            )
        return card


@dataclass(frozen=True)
class Roster:
    """The sites of a federation, in the order of their names.

    Examples
    --------
    >>> def card(name):
    ...     line = ec.generate_private_key(ec.SECP256R1()).public_key()
    ...     return SiteCard.of(name, line, Ed25519PrivateKey.generate())
    >>> roster = Roster.of([card("cork"), card("bari")])
    >>> roster.names
    ('bari', 'cork')
    >>> len(roster.fingerprint.split())
    12
    >>> Roster.from_bytes(roster.to_bytes(), "roster.json") == roster
    True
    """

    cards: tuple[SiteCard, ...] = ()

    @classmethod
    def of(cls, cards: Sequence[SiteCard], source: object = "the roster") -> Self:
        """In order, and with every name and every key once."""
        for kind, values in {
            "name": [card.name for card in cards],
            "signing key": [card.signing.hex() for card in cards],
            "key of the line": [card.line for card in cards],
        }.items():
            value, times = Counter(values).most_common(1)[0] if values else ("", 0)
            if times > 1:
                both = [c.name for c, own in zip(cards, values, strict=True) if own == value]
                raise OptionError(
                    f"{source} has the same {kind} twice ({' and '.join(both[:2])}); each site "
                    "makes keys of its own with 'fedsparse federation join'"
                )
        return cls(tuple(sorted(cards, key=lambda card: card.name)))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all sites, in order."""
        return tuple(card.name for card in self.cards)

    @cached_property
    def fingerprint(self) -> str:
        """What administrators compare: the same if and only if names and keys are."""
        return _in_groups(
            _canonical([_ROSTER, *([c.name, c.line, c.signing.hex()] for c in self.cards)])
        )

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> SiteCard:
        for card in self.cards:
            if card.name == name:
                return card
        raise OptionError(
            f'the roster knows no site "{name}"; it has {", ".join(self.names) or "none"}: see to '
            "it that all have the newest roster, and start sites with it"
        )

    def verify(self, name: str, signature: bytes, message: bytes) -> bool:
        """Whether it was the site of a name that signed a message."""
        return self[name].verify(signature, message)

    def differences(self, other: "Roster") -> Iterator[str]:
        """How another roster differs from this one, in words."""
        for card in other.cards:
            if card.name not in self:
                yield f"{card.name} was added"
            elif (card.line, card.signing) != (self[card.name].line, self[card.name].signing):
                yield f"{card.name} has another key"
        yield from (f"{name} was removed" for name in self.names if name not in other)

    def to_bytes(self) -> bytes:
        """The file that all sites get."""
        return _as_file({"format": _ROSTER, "sites": [card.to_json() for card in self.cards]})

    @classmethod
    def from_bytes(cls, content: bytes, source: object) -> Self:
        """Read it back, and check every site's signature; ``source`` is what errors call it."""
        sites = _read_json(content, _ROSTER, source).get("sites")
        if not isinstance(sites, list) or not all(isinstance(site, dict) for site in sites):
            raise OptionError(f"{source} is no roster; ask the server's administrator for it again")
        return cls.of([SiteCard.from_json(site, source) for site in sites], source)


def read_card(path: Path) -> SiteCard:
    """The card in a file, or an OptionError that says what is wrong with it."""
    return SiteCard.from_bytes(_content(path), path)


def read_roster(path: Path) -> Roster:
    """The roster in a file, or an OptionError that says what is wrong with it."""
    return Roster.from_bytes(_content(path), path)


def is_same_fingerprint(one: str, other: str) -> bool:
    """Whether two fingerprints are the same, however people group and write the digits.

    Examples
    --------
    >>> is_same_fingerprint("0a1b 2c3d", "0A1B-2C3D")
    True
    """
    return _digits(one) == _digits(other)


def _digits(fingerprint: str) -> str:
    return "".join(sign for sign in fingerprint.lower() if sign not in " :-")


def _said(name: str, line: str, signing: bytes) -> bytes:
    """What a site signs; it begins with what it is, so that it is taken for nothing else."""
    return _canonical([_CARD, name, line, signing.hex()])


def _canonical(values: object) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _in_groups(content: bytes) -> str:
    digits = sha256(content).hexdigest()
    return " ".join(digits[_GROUP * own : _GROUP * (own + 1)] for own in range(_GROUPS))


def _as_file(fields: object) -> bytes:
    return (json.dumps(fields, indent=1) + "\n").encode()


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise OptionError(f"there is no file {path}; name another, or ask for it again")
    with open(path, "rb") as file:
        return file.read(_LONGEST_FILE)


def _read_json(content: bytes, form: str, source: object) -> Mapping[str, object]:
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or fields.get("format") != form:
        raise OptionError(
            f'{source} is not a "{form}" file, or only a part of one; ask for it again, from '
            "somebody with the same release of fedsparse"
        )
    return fields


def _text(fields: Mapping[str, object], field: str) -> str:
    value = fields[field]
    if not isinstance(value, str):
        raise TypeError(field)
    return value
