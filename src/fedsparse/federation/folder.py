"""Where the files of a federation lie: what the server keeps, and what each site does."""

import re
from dataclasses import dataclass
from pathlib import Path

from fedsparse.errors import OptionError

AUTHORITY = "ca.crt"
ROSTER = "roster.json"
_CARD_SUFFIX = ".site"
_KEY_SUFFIX = ".key"
_SIGNING_SUFFIX = ".signing"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class ServerFolder:
    """The folder of the server's administrator.

    Examples
    --------
    >>> ServerFolder(Path("federation")).package_of("bari").as_posix()
    'at-sites/bari'
    """

    root: Path

    @property
    def authority(self) -> Path:
        """Certificate of the private authority."""
        return self.root / AUTHORITY

    @property
    def authority_key(self) -> Path:
        """Key of the private authority: keep it secret."""
        return self.root / "ca.key"

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.root / "server.crt"

    @property
    def key(self) -> Path:
        """The server's key."""
        return self.root / "server.key"

    @property
    def roster(self) -> Path:
        """The sites that may connect, with their public keys."""
        return self.root / ROSTER

    @property
    def control_secret(self) -> Path:
        """What programs of the server's owner prove themselves with: keep it secret."""
        return self.root / "control.secret"

    @property
    def for_sites(self) -> Path:
        """Folder with what every site needs; nothing in it is secret."""
        return self.root / "for-sites"

    @property
    def flower(self) -> Path:
        """What Flower's own programs keep."""
        return self.root / "flower"

    def package_of(self, site: str) -> Path:
        """A site's own folder, where a trial has server and sites on one machine."""
        return self.root.parent / "at-sites" / site

    def check(self) -> None:
        """Refuse a folder that was not made by ``fedsparse federation keys``."""
        for path in (self.authority, self.certificate, self.key):
            if not path.is_file() or not path.stat().st_size:
                raise OptionError(
                    f"there is no {path}, or it is empty; make keys with 'fedsparse federation "
                    "keys', or ask for a connection without protection with --insecure"
                )


@dataclass(frozen=True)
class SiteFolder:
    """The folder of a site's administrator: its own keys, and what the server's handed over.

    Examples
    --------
    >>> SiteFolder(Path("bari")).card_of("bari").as_posix()
    'bari/bari.site'
    """

    root: Path

    @property
    def authority(self) -> Path:
        """Certificate by which the server is known."""
        return self.root / AUTHORITY

    @property
    def roster(self) -> Path:
        """The sites that the server's administrator says there are."""
        return self.root / ROSTER

    @property
    def pinned(self) -> Path:
        """The roster that was accepted last."""
        return self.root / "roster.pinned"

    @property
    def questions(self) -> Path:
        """Which questions were answered, and together with whom."""
        return self.root / "questions.jsonl"

    @property
    def key(self) -> Path:
        """Private key of the site's line; its name is the site's."""
        keys = sorted(self.root.glob(f"*{_KEY_SUFFIX}"))
        if len(keys) != 1:
            raise OptionError(
                f"{self.root} holds {len(keys)} keys instead of one; name the folder that "
                "'fedsparse federation join' made with --keys, or ask for --insecure"
            )
        return keys[0]

    def key_of(self, name: str) -> Path:
        """Private key of the line of a site that has a name."""
        return self.root / f"{name}{_KEY_SUFFIX}"

    def signing_of(self, name: str) -> Path:
        """Private key by which other sites know it."""
        return self.root / f"{name}{_SIGNING_SUFFIX}"

    def card_of(self, name: str) -> Path:
        """What it hands to the server's administrator."""
        return self.root / f"{name}{_CARD_SUFFIX}"

    def cards(self) -> list[Path]:
        """Cards that lie here."""
        return sorted(self.root.glob(f"*{_CARD_SUFFIX}"))

    def check(self) -> None:
        """Refuse a folder without what a connection needs."""
        for path in (self.authority, self.roster):
            if not path.is_file():
                raise OptionError(
                    f"there is no {path}; ask the server's administrator for {path.name} and put "
                    "it there, name another folder with --keys, or ask for --insecure"
                )


def check_site_name(name: str) -> None:
    """A name that can be a file's.

    Examples
    --------
    >>> check_site_name("St. Mary's")
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: a site cannot be called "St. Mary's"; use letters, digits, dots, \
hyphens and underscores
    """
    if not _NAME.fullmatch(name):
        raise OptionError(
            f'a site cannot be called "{name}"; use letters, digits, dots, hyphens and underscores'
        )
