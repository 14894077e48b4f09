"""Federations of real processes on this machine, for tests."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from fedsparse.fitting import fit_model, prepare
from sklearn.datasets import dump_svmlight_file

from fedsparse.federation.demonstration import Programs, free_port, wait_for_port
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.modelling.building import build_model
from fedsparse.modelling.model import Model
from fedsparse.modelling.summary import FitSummary
from fedsparse.problem.federated import FederatedData
from fedsparse.tables import Roles, load_tables

TARGET = "outcome"
SECONDS = 240
"""Longest that a test waits for anything."""
POLL = 0.1

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


def fitted_alone(tables, sparsity, options, impute=None):
    """The run and the model of one process on the same files."""
    roles = Roles(target=None if tables[0].suffix == ".libsvm" else TARGET)
    loaded = load_tables(tables, roles, impute=impute)
    data = FederatedData.from_table(loaded.features, loaded.targets, loaded.sites)
    fitted = fit_model(prepare(data, options), sparsity, options)
    return fitted.result, build_model(loaded.encoding, fitted, {}, fingerprint="")


def assert_same_model(model, expected):
    """Bit for bit, by name."""
    assert model.features == expected.features
    assert model.intercepts == expected.intercepts
    assert model.columns == expected.columns


class Federation:
    """A server with keys for some sites; what is started ends with it."""

    def __init__(self, root, sites, insecure=False):
        self.root = Path(root)
        self.folder = ServerFolder(self.root / "server")
        self.insecure = insecure
        if not insecure:
            make_keys(self.folder, ["localhost"], sites)
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
        chosen = [] if table.suffix == ".libsvm" else ["--target", target]
        access = ["--insecure", "--name", name]
        if not self.insecure:
            access = ["--keys", keys or self.folder.package_of(name)]
        self.programs.start(
            name, "site", "--data", table, *chosen, "--server", f"localhost:{port or self.port}",
            "--poll", POLL, *access, *more,
        )  # fmt: skip

    def pid(self, name):
        return self.programs.running[name].pid

    def kill(self, name, number=signal.SIGKILL):
        """Send a signal to the process of a site or of the server."""
        os.kill(self.pid(name), number)
        if number == signal.SIGKILL:
            self.programs.running.pop(name).wait()

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
        flags = ["--insecure"] if federation.insecure else []
        for name, value in options.items():
            option = f"--{name.replace('_', '-')}"
            flags += [option] if value is True else [option, str(value)]
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
