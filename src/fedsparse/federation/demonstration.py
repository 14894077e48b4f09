"""A federation on one machine: a server and five sites, each a process, with TLS on."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import FederationError
from fedsparse.federation.folder import ServerFolder, SiteFolder
from fedsparse.federation.keys import make_keys
from fedsparse.federation.server.enrolment import enrol
from fedsparse.federation.server.runs import Address
from fedsparse.federation.server.submission import submit
from fedsparse.federation.server.training import Training
from fedsparse.federation.site_keys import join
from fedsparse.files import ready_folder, write_atomically
from fedsparse.modelling.model import Model
from fedsparse.modelling.tables_in_one_place import analyse
from fedsparse.tables import Roles, load_tables

SITES = ("aachen", "bari", "cork", "delft", "espoo")
TARGET = "outcome"
SPARSITY = 5

_WIDTH = 40
_ROWS = 80
_WARDS = ("medicine", "paediatrics", "surgery")
_MISSING = 0.02
_START_SECONDS = 60.0
_END_SECONDS = 10.0


def demonstrate(
    out: Path, rounds: int, tell: Callable[[str], None]
) -> tuple[Training, dict[str, Path]]:
    """Make tables and keys, start everything, train, and end everything."""
    folder = ServerFolder(out / "server")
    tables = write_tables(out / "tables")
    make_keys(folder, [] if folder.certificate.exists() else ["localhost"])
    prepare_sites(folder, SITES)
    tell(f"Keys, tables and results are in {out}.")
    training = Training(
        sparsity=SPARSITY,
        sites=len(SITES),
        rounds=rounds,
        impute="mean",
        evaluate_every=1,
        out=str((out / "trained").absolute()),
    )
    port = free_port()
    with Programs(out) as programs:
        programs.start("server", "server", folder.root, "--port", port)
        wait_for_port(port)
        for name, table in tables.items():
            programs.start(
                name, "site", "--data", table, "--target", TARGET,
                "--server", f"localhost:{port}", "--keys", folder.package_of(name),
            )  # fmt: skip
        submit(training, folder, Address(port), tell)
    return training, tables


def prepare_sites(folder: ServerFolder, names: Sequence[str]) -> None:
    """Have sites on this machine make keys, enrol them, and hand them what they need.

    Their folders are `ServerFolder.package_of` their names.
    """
    places = [SiteFolder(folder.package_of(name)) for name in names]
    enrol(folder, [join(place, name) for place, name in zip(places, names, strict=True)])
    for place in places:
        for handed in folder.for_sites.iterdir():
            write_atomically(place.root / handed.name, handed.read_bytes())


class Programs:
    """Commands of ``fedsparse federation`` that run beside this process, and end with it.

    Parameters
    ----------
    logs
        Folder for what they say.
    prefix
        What each command is started with, such as ``ip netns exec NAME``.
    """

    def __init__(self, logs: Path, prefix: Sequence[str] = ()) -> None:
        self._logs = logs
        self._prefix = prefix
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Programs":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            process.terminate()
        for name in list(self.running):
            self.end(name)

    def start(self, name: str, *arguments: object) -> None:
        """Start ``fedsparse federation …``; what it says goes to a file of its name."""
        ready_folder(self._logs)
        fedsparse = [sys.executable, "-m", "fedsparse", "federation"]
        command = [*self._prefix, *fedsparse, *map(str, arguments)]
        with open(self._logs / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def end(self, name: str) -> int:
        """Ask a program to end, and make it if it does not."""
        process = self.running.pop(name)
        process.terminate()
        try:
            return process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def write_tables(folder: Path) -> dict[str, Path]:
    """A table for each site: few of the columns matter, and not quite the same to everyone.

    Some values are missing, and one column holds categories.
    """
    ready_folder(folder)
    random = np.random.default_rng(7)
    truth = np.zeros(_WIDTH)
    truth[: SPARSITY - 1] = (3.0, -2.5, 2.0, -1.5)
    tables = {}
    for name in SITES:
        rows = random.standard_normal((_ROWS, _WIDTH))
        own = truth + np.where(truth != 0, 0.3 * random.standard_normal(_WIDTH), 0.0)
        ward = random.choice(_WARDS, _ROWS)
        outcome = rows @ own + 4.0 * (ward == "surgery") + 0.5 * random.standard_normal(_ROWS)
        known = random.random(rows.shape) > _MISSING
        tables[name] = folder / f"{name}.csv"
        _write_csv(tables[name], np.where(known, rows, np.nan), ward, outcome)
    return tables


def free_port() -> int:
    """A port that nobody listens at.

    Examples
    --------
    >>> 1024 < free_port() < 65536
    True
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    """Wait until somebody listens at a port of this machine."""
    end = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise FederationError(
                    f"no server listens at port {port} after {_START_SECONDS:.0f} s; see its log"
                ) from None
            time.sleep(0.1)


def _learned(model: Model) -> tuple[object, ...]:
    """What a model predicts with; how sure that is was not worked out in one process."""
    return [own.model_copy(update={"certainty": None}) for own in model.features], model.intercepts


def _write_csv(path: Path, rows: FloatArray, ward: AnyArray, outcome: FloatArray) -> None:
    names = [f"marker_{place:02}" for place in range(rows.shape[1])]
    lines = [",".join([*names, "ward", TARGET])]
    for numbers, category, target in zip(rows, ward, outcome, strict=True):
        cells = ["" if np.isnan(number) else repr(float(number)) for number in numbers]
        lines.append(",".join([*cells, str(category), repr(float(target))]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def compare(training: Training, tables: dict[str, Path]) -> str:
    """What one process learns from the same rows, beside what the federation learned."""
    loaded = load_tables(list(tables.values()), Roles(target=TARGET), impute=training.impute)
    asked = training.model_copy(update={"held_out": "none", "stability": 0})
    alone = analyse(loaded, asked, sums="fixed").model
    folder = training.folder()
    assert folder is not None
    learned = Model.load(folder)
    is_same = _learned(learned) == _learned(alone)
    verdict = "the same bit for bit" if is_same else "NOT the same"
    listed = ", ".join(f"{own.name} {own.coefficients[0]:+.3f}" for own in alone.features)
    return f"One process learns from the same rows: {listed}; {verdict}."
