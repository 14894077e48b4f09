"""Where the files of a federation lie: what the server keeps, and what each site is handed."""

import re
from dataclasses import dataclass
from pathlib import Path

from fedsparse.errors import OptionError

AUTHORITY = "ca.crt"
SITE_KEY_SUFFIX = ".key"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class ServerFolder:
    """The folder of the server's administrator.

    Examples
    --------
    >>> ServerFolder(Path("federation")).package_of("bari").as_posix()
    'federation/for-sites/bari'
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
    def public_keys(self) -> Path:
        """Folder with one public key per site that may connect."""
        return self.root / "sites"

    @property
    def flower(self) -> Path:
        """What Flower's own programs keep."""
        return self.root / "flower"

    def package_of(self, site: str) -> Path:
        """Folder to hand to a site."""
        return self.root / "for-sites" / site

    def sites(self) -> dict[str, Path]:
        """Public keys by the name of their site, in order."""
        return {path.stem: path for path in sorted(self.public_keys.glob("*.pub"))}

    def check(self) -> None:
        """Refuse a folder that was not made by ``fedsparse federation keys``."""
        for path in (self.authority, self.certificate, self.key):
            if not path.is_file():
                raise OptionError(
                    f"there is no {path}; make keys with 'fedsparse federation keys', or ask for "
                    "a connection without protection with --insecure"
                )


@dataclass(frozen=True)
class SiteFolder:
    """What a site was handed: the authority's certificate and the site's own key."""

    root: Path

    @property
    def authority(self) -> Path:
        """Certificate by which the server is known."""
        return self.root / AUTHORITY

    @property
    def key(self) -> Path:
        """The site's key; its name is the site's."""
        keys = sorted(self.root.glob(f"*{SITE_KEY_SUFFIX}"))
        if len(keys) != 1:
            raise OptionError(
                f"{self.root} holds {len(keys)} keys instead of one; name the folder that the "
                "server's administrator handed over, or ask for --insecure"
            )
        return keys[0]

    def check(self) -> None:
        """Refuse a folder without what a connection needs."""
        if not self.authority.is_file():
            raise OptionError(
                f"there is no {self.authority}; name the folder that the server's administrator "
                "handed over with --keys, or ask for --insecure"
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
