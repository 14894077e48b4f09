"""What a run began with, kept beside its checkpoint for those who resume it."""

from dataclasses import dataclass
from pathlib import Path

from fedsparse.codec import WireError
from fedsparse.codec.frame import packed, unpacked
from fedsparse.engines.flower.payloads import Setup
from fedsparse.errors import CheckpointError
from fedsparse.files import write_atomically
from fedsparse.tables.findings import joined

BEGINNING = "beginning.bin"


@dataclass(frozen=True, eq=False)
class Beginning:
    """Who took part, and how features were scaled.

    A resumed run must scale as the first one did, though a site that told its means then may be
    silent now.

    Attributes
    ----------
    sites
        Names in order.
    setup
        What the first of them was told.

    Examples
    --------
    >>> import tempfile
    >>> from fedsparse.losses import Logistic
    >>> folder = Path(tempfile.mkdtemp())
    >>> Beginning(("bari",), Setup(Logistic(), {}, 0)).save(folder)
    >>> Beginning.load(folder).sites
    ('bari',)
    """

    sites: tuple[str, ...]
    setup: Setup

    def save(self, folder: Path) -> None:
        """Write it into the folder of the results."""
        written = packed({"sites": list(self.sites)}, [self.setup.to_bytes()])
        write_atomically(folder / BEGINNING, written)

    @classmethod
    def load(cls, folder: Path) -> "Beginning":
        """Read what `save` wrote; a CheckpointError if that cannot be done."""
        path = folder / BEGINNING
        try:
            header, (setup,) = unpacked(path.read_bytes())
            return cls(tuple(header["sites"]), Setup.from_bytes(setup))
        except (OSError, WireError, ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{path} is missing or damaged, without which a run cannot go on; begin anew with "
                "--overwrite"
            ) from None

    def check(self, sites: tuple[str, ...], setup: Setup) -> None:
        """Refuse to go on with other sites or other tables."""
        if sites != self.sites:
            raise CheckpointError(
                f"the run began with {joined(self.sites)}, and now there are {joined(sites)}; "
                "start those that are missing, or begin anew with --overwrite"
            )
        if (setup.agreed, setup.loss) != (self.setup.agreed, self.setup.loss):
            raise CheckpointError(
                "the sites' tables or the options are not those that the run began with; restore "
                "them, or begin anew with --overwrite"
            )
