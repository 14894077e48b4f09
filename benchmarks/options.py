"""What benchmarks of FedSplice take from the command line: seeds, parts, and its options."""

import argparse
import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

import fedsparse as fs
from fedsparse.problem.sparsity import Sparsity


@dataclass(frozen=True)
class Options:
    """Which parts to run with which seeds, and what to tell FedSplice.

    Attributes
    ----------
    seeds, only
        Seeds, and names of parts.
    splicing
        Options of `FedSplice`, such as ``candidates``.
    """

    seeds: Sequence[int]
    only: Sequence[str]
    splicing: dict[str, object] = field(default_factory=dict)

    def splice(self, sparsity: int | Sparsity, **own: object) -> fs.FedSplice:
        """FedSplice with these options; ``own`` ones come first."""
        return fs.FedSplice(sparsity, **{**self.splicing, **own})

    @property
    def label(self) -> str:
        """FedSplice with what it was told."""
        told = ", ".join(f"{name}={value!r}" for name, value in self.splicing.items())
        return f"FedSplice({told})" if told else "FedSplice"


def read_options(
    name: str, arguments: Sequence[str], seeds: Sequence[int], parts: Sequence[str] = ()
) -> Options:
    """Read ``[--seeds 0 1] [--only PART …] [--splice candidates=500 …]``."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(seeds))
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument(
        "--splice", nargs="+", type=_assignment, default=[], metavar="OPTION=VALUE",
        help="options of FedSplice, such as candidates=500",
    )  # fmt: skip
    read = parser.parse_args(arguments)
    return Options(read.seeds, read.only, dict(read.splice))


def _assignment(text: str) -> tuple[str, object]:
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        raise argparse.ArgumentTypeError(f"{text} must be OPTION=VALUE") from None
