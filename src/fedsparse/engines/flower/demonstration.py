"""A federation on one machine: a server and five sites, each a process, with TLS on."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from fedsparse.data.federated import FederatedData
from fedsparse.engines.flower.folder import ServerFolder
from fedsparse.engines.flower.keys import make_keys
from fedsparse.engines.flower.report import write_report
from fedsparse.engines.flower.submission import Address, submit
from fedsparse.engines.flower.tables import read_table
from fedsparse.engines.flower.training import Training
from fedsparse.errors import FederationError
from fedsparse.files import ready_folder
from fedsparse.run import run

SITES = ("aachen", "bari", "cork", "delft", "espoo")
TARGET = "outcome"
SPARSITY = 5

_WIDTH = 40
_ROWS = 80
_START_SECONDS = 60.0
_END_SECONDS = 10.0


def demonstrate(out: Path, rounds: int, tell: Callable[[str], None]) -> None:
    """Make tables and keys, start everything, train, end everything, and compare."""
    folder = ServerFolder(out / "server")
    tables = write_tables(out / "tables")
    make_keys(folder, [] if folder.authority.exists() else ["localhost"], SITES)
    tell(f"Keys, tables and results are in {out}.")
    training = Training(
        sparsity=SPARSITY, sites=len(SITES), rounds=rounds, out=str((out / "trained").absolute())
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
    tell(f"Report: {write_report(out / 'trained', training)}")
    tell(_comparison(training, tables))


class Programs:
    """Commands of ``fedsparse federation`` that run beside this process, and end with it."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
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
        command = [sys.executable, "-m", "fedsparse", "federation", *map(str, arguments)]
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
    """A table for each site: few of the columns matter, and not quite the same to everyone."""
    ready_folder(folder)
    random = np.random.default_rng(7)
    truth = np.zeros(_WIDTH)
    truth[:SPARSITY] = (3.0, -2.5, 2.0, -1.5, 1.5)
    columns = [f"marker_{place:02}" for place in range(_WIDTH)]
    tables = {}
    for name in SITES:
        rows = random.standard_normal((_ROWS, _WIDTH))
        own = truth + np.where(truth != 0, 0.3 * random.standard_normal(_WIDTH), 0.0)
        outcome = rows @ own + 0.5 * random.standard_normal(_ROWS)
        tables[name] = folder / f"{name}.csv"
        _write_csv(tables[name], [*columns, TARGET], np.column_stack([rows, outcome]))
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


def _write_csv(path: Path, names: Sequence[str], rows: "np.typing.NDArray[np.float64]") -> None:
    lines = [",".join(names), *(",".join(map(repr, row)) for row in rows.tolist())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _comparison(training: Training, tables: dict[str, Path]) -> str:
    """What one process learns from the same rows, beside what the federation learned."""
    clients = {}
    for name, path in tables.items():
        table = read_table(path, TARGET)
        clients[name] = (table.features, table.targets)
    data = FederatedData.from_clients(clients)
    alone = run(training.algorithm(), data, loss=training.problem(), rounds=training.rounds)
    folder = training.folder()
    assert folder is not None
    model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    columns = read_table(next(iter(tables.values())), TARGET).columns
    assert columns is not None
    expected = {columns[place]: float(alone.coef[place]) for place in alone.support}
    verdict = "the same bit for bit" if model["coefficients"] == expected else "NOT the same"
    listed = ", ".join(f"{name} {value:+.3f}" for name, value in expected.items())
    return f"One process learns from the same rows: {listed}; {verdict}."
