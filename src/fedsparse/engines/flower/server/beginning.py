"""What a run began with, kept beside its checkpoint for those who resume it."""

from dataclasses import dataclass
from pathlib import Path

from fedsparse.codec import WireError
from fedsparse.codec.frame import packed, unpacked
from fedsparse.engines.flower.payloads import Setup
from fedsparse.engines.flower.server.training import Training
from fedsparse.errors import CheckpointError
from fedsparse.files import write_atomically
from fedsparse.tables.sentences import joined

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
    options
        What the run was to learn, as `Training.what_is_learnt` has it.
    notes
        What a reader of the model should know, in sentences.

    Examples
    --------
    >>> import tempfile
    >>> from fedsparse.losses import Logistic
    >>> folder = Path(tempfile.mkdtemp())
    >>> Beginning(("bari",), Setup(Logistic(), {}, 0), {"sparsity": 5}).save(folder)
    >>> Beginning.load(folder).sites
    ('bari',)
    """

    sites: tuple[str, ...]
    setup: Setup
    options: dict[str, str | int | float | bool]
    notes: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Write it into the folder of the results."""
        header = {"sites": self.sites, "options": self.options, "notes": self.notes}
        written = packed(header, [self.setup.to_bytes()])
        write_atomically(folder / BEGINNING, written)

    @classmethod
    def load(cls, folder: Path) -> "Beginning":
        """Read what `save` wrote; a CheckpointError if that cannot be done."""
        path = folder / BEGINNING
        try:
            header, (setup,) = unpacked(path.read_bytes())
            sites, notes = (tuple(header[name]) for name in ("sites", "notes"))
            return cls(sites, Setup.from_bytes(setup), dict(header["options"]), notes)
        except (OSError, WireError, ValueError, KeyError, TypeError):
            raise CheckpointError(
                f"{path} is missing or damaged, without which a run cannot go on; begin anew with "
                "--overwrite"
            ) from None

    def check_options(self, training: Training) -> None:
        """Refuse to go on towards another model."""
        for name, now in training.what_is_learnt().items():
            before = self.options.get(name)
            if before != now:
                raise CheckpointError(
                    f"the run began with --{name} {before} and cannot go on with {now}; say the "
                    "same as then, or begin anew with --overwrite"
                )

    def check(self, sites: tuple[str, ...], setup: Setup) -> None:
        """Refuse to go on with other sites or other tables."""
        if sites != self.sites:
            raise CheckpointError(
                f"the run began with {joined(self.sites)}, and now there are {joined(sites)}; "
                "start those that are missing, or begin anew with --overwrite"
            )
        if (setup.agreed, setup.loss) != (self.setup.agreed, self.setup.loss):
            raise CheckpointError(
                "the sites' tables are not those that the run began with; restore them, or begin "
                "anew with --overwrite"
            )
