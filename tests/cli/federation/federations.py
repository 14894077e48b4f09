"""Federations of real processes on this machine, for tests."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

from fedsparse.cli import app
from fedsparse.federation.demonstration import (
    Programs,
    free_port,
    prepare_sites,
    wait_for_port,
)
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.modelling.model import Model
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import FitSummary
from fedsparse.modelling.tables_in_one_place import analyse
from fedsparse.tables import Roles, load_tables
from tests.federation.federated_tables import judged

TARGET = "outcome"
SECONDS = 600
"""Longest that a test waits for anything."""
POLL = 0.2
ROOT = Path(__file__).parents[3]

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def write_table(path, rows, targets, columns=None):
    """A site's file: LIBSVM if it ends so, else CSV with named columns."""
    if path.suffix == ".libsvm":
        dump_svmlight_file(rows, targets, str(path), zero_based=False)
        return path
    names = columns or [f"gene {place}" for place in range(rows.shape[1])]
    table = np.column_stack([rows, targets])
    lines = [",".join([*names, TARGET]), *(",".join(map(repr, row)) for row in table.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


def fitted_in_one_place(tables, out, **options):
    """What ``fedsparse fit`` finds on the same files with the same options."""
    target = [] if tables[0].suffix == ".libsvm" else ["--target", TARGET]
    # Sites are not asked for a dense model by default.
    options = {"dense": "no", **options}
    command = ["fit", *map(str, tables), *target, "--out", str(out), *flags_of(options)]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return FitSummary.load(out / "fit.json")


def fitted_under_masks(tables, **options):
    """What one process finds that adds up as sites do under masks."""
    loaded = load_tables(tables, Roles(target=TARGET), impute=options.get("impute"))
    return analyse(loaded, FitSpecification(**{"dense": "no", **options}), sums="fixed")


def flags_of(options):
    """Options of a command line."""
    flags = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        flags += [option] if value is True else [option, str(value)]
    return flags


def assert_same_model(model, expected):
    """Bit for bit, by name."""
    assert model.features == expected.features
    assert model.intercepts == expected.intercepts
    assert model.columns == expected.columns


def assert_same_fit(summary, expected):
    """All that was found is the same, bit for bit, but for rows pooled in one place."""
    assert_same_model(summary.model, expected.model)
    assert summary.selection == expected.selection
    assert summary.stability == expected.stability
    assert judged(summary.evaluation) == judged(expected.evaluation)
    assert without_seconds(summary.history) == without_seconds(expected.history)
    assert summary.candidates == expected.candidates


def without_seconds(history):
    return [record.model_copy(update={"seconds": 0.0}) for record in history]


def _command_of(place):
    """The command line of a process by its folder in /proc; nothing if it has ended."""
    try:
        return (place / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Federation:
    """A server with keys for some sites; what is started ends with it.

    Sums are open unless said otherwise: most tests are about something else, and two sites do.
    """

    def __init__(self, root, sites, insecure=False, is_secure=False):
        self.root = Path(root)
        self.is_secure = is_secure
        self.folder = ServerFolder(self.root / "server")
        self.insecure = insecure
        if not insecure:
            make_keys(self.folder, ["localhost"])
            prepare_sites(self.folder, sites)
        self.port = free_port()
        self.programs = Programs(self.root)

    def __enter__(self):
        self.start_server()
        return self

    def __exit__(self, *_):
        self.programs.__exit__()

    def start_server(self):
        more = ["--insecure"] if self.insecure else []
        self.programs.start("server", "server", self.folder.root, "--port", self.port, *more)
        wait_for_port(self.port)

    def start_site(self, name, table, *more, keys=None, port=None, target=TARGET):
        """Start a site; ``more`` are options."""
        options = self._options_of_site(name, table, *more, keys=keys, port=port, target=target)
        self.programs.start(name, "site", *options)

    def start_altered_site(self, module, *altered, name, table):
        """Start a site by a program of the tests; ``altered`` says what is odd about it."""
        command = [sys.executable, "-m", module, *altered, *self._options_of_site(name, table)]
        with open(self.root / f"{name}.log", "ab") as log:
            self.programs.running[name] = subprocess.Popen(
                list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, cwd=ROOT
            )

    def _options_of_site(self, name, table, *more, keys=None, port=None, target=TARGET):
        is_named = target is not None and table.suffix != ".libsvm"
        chosen = ["--target", target] if is_named else []
        access = ["--insecure", "--name", name, "--ledger", self.root / f"{name}-ledger"]
        if not self.insecure:
            access = ["--keys", keys or self.folder.package_of(name)]
        if not self.is_secure and "--policy" not in more:
            policy = self.root / "open-sums.toml"
            policy.write_text(
                "open_sums = true\nmost_features_per_row = 100\nsmallest_weight_of_others = 0\n"
            )
            more = (*more, "--policy", policy)
        server = f"localhost:{port or self.port}"
        return ["--data", table, *chosen, "--server", server, "--poll", POLL, *access, *more]

    def pid(self, name):
        return self.programs.running[name].pid

    def kill(self, name, number=signal.SIGKILL):
        """Send a signal to the process of a site or of the server."""
        os.kill(self.pid(name), number)
        if number == signal.SIGKILL:
            self.programs.running.pop(name).wait()

    def kill_serverapp(self):
        """End the process that trains, and not the server that started it."""
        os.kill(self._pid_of_serverapp(), signal.SIGKILL)

    def _pid_of_serverapp(self):
        """Of Flower's ServerApp that talks to this server."""
        (found,) = (
            int(place.name)
            for place in Path("/proc").iterdir()
            if place.name.isdigit() and self._is_serverapp(_command_of(place))
        )
        return found

    def _is_serverapp(self, command):
        return any(b"flwr-serverapp" in part for part in command) and any(
            part.endswith(f":{self.port}".encode()) for part in command
        )

    def log(self, name):
        return (self.root / f"{name}.log").read_text()

    def wait_for_log(self, name, part):
        """Wait until a site or the server has said something."""
        end = time.monotonic() + SECONDS
        while part not in self.log(name):
            assert time.monotonic() < end, self.log(name)
            time.sleep(0.1)

    def train(self, **options):
        """Start training; gives a `Run` to follow."""
        return Run(self, options)


class Run:
    """A training command in progress."""

    def __init__(self, federation, options):
        self.out = federation.root / options.pop("out", "trained")
        flags = [*(["--insecure"] if federation.insecure else []), *flags_of(options)]
        flags += [] if federation.is_secure else ["--open-sums"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fedsparse", "federation", "train", federation.folder.root,
             "--port", str(federation.port), "--out", self.out, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=federation.root,
        )  # fmt: skip
        self._guard = threading.Timer(SECONDS, self.process.kill)
        self._guard.start()
        self.lines = []

    def until(self, part):
        """Read on until a line holds something."""
        for line in self.process.stdout:
            self.lines.append(line)
            if part in line:
                return line
        raise AssertionError(f"{part!r} never came:\n{''.join(self.lines)}")

    def until_answers(self, count):
        """Read on until so many more questions are answered."""
        for _ in range(count):
            self.until("sites answered in")

    def kill(self):
        """End the command at once; the run goes on."""
        self.process.kill()
        self.finish()

    def finish(self):
        """Read to the end; gives the exit code."""
        self.lines += list(self.process.stdout)
        self._guard.cancel()
        self.process.stdout.close()
        return self.process.wait()

    @property
    def text(self):
        return "".join(self.lines)

    @property
    def summary(self):
        return FitSummary.load(self.out / "fit.json")

    @property
    def model(self):
        return Model.load(self.out)
