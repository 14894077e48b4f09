"""Checkpoints: the state of a run in one file, written atomically.

A checkpoint is a NumPy archive of plain arrays and a JSON header; reading one executes nothing.
"""

import dataclasses
import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fedsparse.algorithms.base import Algorithm, State
from fedsparse.data.federated import FederatedData
from fedsparse.errors import CheckpointError
from fedsparse.files import write_atomically
from fedsparse.history import Record
from fedsparse.losses import Loss

_VERSION = 1


@dataclass
class Progress:
    """How far a run has come: what a checkpoint keeps."""

    state: State
    records: list[Record] = field(default_factory=list)
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0


def problem_identity(
    algorithm: Algorithm, data: FederatedData, loss: Loss, seed: int
) -> dict[str, str]:
    """What must be the same for a run to go on from a checkpoint."""
    return {
        "algorithm": _describe(algorithm),
        "loss": repr(loss),
        "data": _fingerprint(data),
        "seed": str(seed),
    }


def save(path: Path, identity: dict[str, str], progress: Progress) -> None:
    """Write a checkpoint, replacing an older one only when it is complete."""
    state = progress.state
    header = {
        "version": _VERSION,
        "identity": identity,
        "round": state.round,
        "iterations": state.iterations,
        "seed": state.seed,
        "records": [dataclasses.astuple(record) for record in progress.records],
        "totals": [progress.bytes_down, progress.bytes_up, progress.seconds],
    }
    arrays: dict[str, Any] = {f"memory.{name}": value for name, value in state.memory.items()}
    room = io.BytesIO()
    np.savez_compressed(room, header=np.array(json.dumps(header)), x=state.x, **arrays)
    write_atomically(path, room.getvalue())


def load(path: Path, identity: dict[str, str]) -> Progress:
    """Read a checkpoint of the same problem."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
        version = header["version"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(
            f"{path} is not a checkpoint of fedsparse or is damaged ({error}); "
            "delete it or choose another path"
        ) from None
    if version != _VERSION:
        raise CheckpointError(
            f"{path} has checkpoint version {version}, this fedsparse reads {_VERSION}; "
            "use the release that wrote it or choose another path"
        )
    _check_identity(path, header["identity"], identity)
    state = State(
        x=arrays.pop("x"),
        round=header["round"],
        iterations=header["iterations"],
        seed=header["seed"],
        memory={name.removeprefix("memory."): value for name, value in arrays.items()},
    )
    records = [Record(*record) for record in header["records"]]
    return Progress(state, records, *header["totals"])


def _check_identity(path: Path, found: dict[str, str], expected: dict[str, str]) -> None:
    for part, value in expected.items():
        if found.get(part) != value:
            told = "" if part == "data" else f" ({found.get(part)} there, {value} here)"
            raise CheckpointError(
                f"{path} belongs to another run: its {part} differs{told}; "
                "choose another path or delete it"
            )


def _describe(algorithm: Algorithm) -> str:
    """The algorithm and its options, the same in every process."""
    options = {
        field.name: _describe_option(getattr(algorithm, field.name))
        for field in dataclasses.fields(algorithm)
    }
    listed = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{type(algorithm).__name__}({listed})"


def _describe_option(option: object) -> str:
    if isinstance(option, np.ndarray):
        return repr(option.tolist())
    if callable(option) and hasattr(option, "__qualname__"):
        return f"{option.__module__}.{option.__qualname__}"
    return repr(option)


def _fingerprint(data: FederatedData) -> str:
    digest = hashlib.blake2b(digest_size=16)
    features = data.features
    parts = [data.pointer, data.targets]
    if isinstance(features, sparse.csr_array):
        parts += [features.data, features.indices, features.indptr]
    else:
        parts.append(features)
    for part in parts:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return digest.hexdigest()
