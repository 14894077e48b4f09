"""Checkpoints: the state of a run in one file, written atomically.

A checkpoint is a NumPy archive of plain arrays and a JSON header; reading one executes nothing.
"""

import dataclasses
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.arrays import FloatArray
from fedsparse.engines.history import Record
from fedsparse.errors import CheckpointError
from fedsparse.files import write_atomically
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss

_VERSION = 1
# A schedule is what it gives: it has no name that would be the same in another process.
_ROUNDS_THAT_TELL = (0, 1, 2, 5, 10, 100, 1000)


@dataclass
class Reached:
    """How far a run has come: what a checkpoint keeps.

    ``evaluated`` is the state of the last record, to go back to if the run diverges.
    """

    state: State
    evaluated: State
    records: list[Record] = field(default_factory=list)
    bytes_down: int = 0
    bytes_up: int = 0
    seconds: float = 0.0
    absent: int = 0


def problem_identity(algorithm: Algorithm, data: str, loss: Loss, seed: int) -> dict[str, str]:
    """What must be the same for a run to go on from a checkpoint; data by their fingerprint."""
    return {
        "algorithm": _describe(algorithm),
        "loss": repr(loss),
        "data": data,
        "seed": str(seed),
    }


def fingerprint(data: FederatedData) -> str:
    """A digest of all clients' rows.

    Examples
    --------
    >>> data = FederatedData.from_clients([([[1.0]], [2.0])])
    >>> fingerprint(data) == fingerprint(FederatedData.from_clients([([[1.0]], [3.0])]))
    False
    """
    digest = hashlib.blake2b(str(data.features.shape).encode(), digest_size=16)
    features = data.features
    parts = [data.pointer, data.identities, data.targets]
    if data.row_weights is not None:
        parts.append(data.row_weights)
    if isinstance(features, sparse.csr_array):
        parts += [features.data, features.indices, features.indptr]
    else:
        parts.append(features)
    for part in parts:
        digest.update(f"{part.dtype.str}{part.shape}".encode())
        digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return digest.hexdigest()


def save(path: Path, identity: dict[str, str], reached: Reached) -> None:
    """Write a checkpoint, replacing an older one only when it is complete."""
    states = {"state": reached.state, "evaluated": reached.evaluated}
    header = {
        "version": _VERSION,
        "identity": identity,
        "counts": {
            name: [state.round, state.iterations, state.seed] for name, state in states.items()
        },
        "records": [dataclasses.astuple(record) for record in reached.records],
        "totals": [reached.bytes_down, reached.bytes_up, reached.seconds, reached.absent],
    }
    arrays: dict[str, Any] = {"header": np.array(json.dumps(header))}
    for name, state in states.items():
        arrays[f"{name}.x"] = state.x
        arrays |= {f"{name}.memory.{key}": value for key, value in state.memory.items()}
    room = io.BytesIO()
    np.savez_compressed(room, **arrays)
    write_atomically(path, room.getvalue())


def load(path: Path, identity: dict[str, str]) -> Reached:
    """Read a checkpoint of the same problem."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(str(arrays.pop("header")))
        version = header["version"]
        found, reached = {}, None
        if version == _VERSION:
            found, reached = header["identity"], _reached_from(header, arrays)
    except Exception as error:  # a damaged archive fails in more ways than can be listed
        raise CheckpointError(
            f"{path} is not a checkpoint of fedsparse or is damaged ({error}); "
            "delete it or choose another path"
        ) from None
    if reached is None:
        raise CheckpointError(
            f"{path} has checkpoint version {version}, this fedsparse reads {_VERSION}; "
            "use the release that wrote it or choose another path"
        )
    _check_identity(path, found, identity)
    return reached


def _reached_from(header: dict[str, Any], arrays: dict[str, FloatArray]) -> Reached:
    state, evaluated = (_state_from(header, arrays, name) for name in ("state", "evaluated"))
    records = [Record(*record) for record in header["records"]]
    return Reached(state, evaluated, records, *header["totals"])


def _state_from(header: dict[str, Any], arrays: dict[str, FloatArray], name: str) -> State:
    prefix = f"{name}.memory."
    memory = {
        key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)
    }
    round_, iterations, seed = header["counts"][name]
    return State(arrays[f"{name}.x"], round_, iterations, seed, memory)


def _check_identity(path: Path, found: dict[str, str], expected: dict[str, str]) -> None:
    for part, value in expected.items():
        if found.get(part) != value:
            told = "" if part == "data" else f" ({_difference(found.get(part, ''), value)})"
            raise CheckpointError(
                f"{path} belongs to another run: its {part} differs{told}; "
                "choose another path or delete it"
            )


def _difference(there: str, here: str) -> str:
    """The options that differ, or the whole where they cannot be told apart."""
    before, now = there.split(", "), here.split(", ")
    changed = [pair for pair in zip(before, now, strict=False) if pair[0] != pair[1]]
    if len(before) != len(now) or len(changed) > 3:
        changed = [(there, here)]
    return "; ".join(f"{old} there, {new} here" for old, new in changed)


def _describe(algorithm: Any) -> str:
    """An algorithm or constraint with its options, the same in every process."""
    names = [field.name for field in dataclasses.fields(algorithm) if field.repr]
    if "__dataclass_fields__" not in vars(type(algorithm)):  # options kept as plain attributes
        plain = {**vars(type(algorithm)), **vars(algorithm)}
        names += [
            name
            for name, value in plain.items()
            if not (name in names or name.startswith("_") or callable(value))
        ]
    options = {name: _describe_option(getattr(algorithm, name)) for name in names}
    listed = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{type(algorithm).__name__}({listed})"


def _scheduled(schedule: Callable[[int], float], round: int) -> float | None:
    """What a schedule gives for a round; some are defined for the first rounds only."""
    try:
        return float(schedule(round))
    except Exception:
        return None


def _describe_option(option: object) -> str:
    if isinstance(option, (np.ndarray, np.generic)):
        return repr(option.tolist())
    if isinstance(option, (list, tuple)):
        return f"[{', '.join(_describe_option(entry) for entry in option)}]"
    if callable(option):
        return f"schedule{[_scheduled(option, round) for round in _ROUNDS_THAT_TELL]}"
    if dataclasses.is_dataclass(option):
        return _describe(option)
    return repr(option)
