"""The same app without our commands: Flower's own programs run it."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from fedsparse.federation.demonstration import free_port, wait_for_port
from fedsparse.federation.server.submission import project_of
from fedsparse.federation.server.superlink import flower_environment
from fedsparse.federation.server.training import Training
from fedsparse.modelling.summary import FitSummary
from tests.cli.federation.federations import (
    TARGET,
    assert_same_fit,
    fitted_in_one_place,
    write_table,
)

pytestmark = pytest.mark.slow

SITES = ("aachen", "bari")
FIT = {
    "sparsity": 2, "held_out": "none", "stability": 0, "rounds": 1, "method": "FedIterHT",
    "local_steps": 3, "step_size": 0.02,
}  # fmt: skip


def program(name):
    return str(Path(sys.executable).with_name(name))


def start(stack, command, environment):
    """Start one of Flower's programs for as long as the stack lasts."""
    process = subprocess.Popen(
        [program(command[0]), *map(str, command[1:])],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)


def tables_in(folder):
    random = np.random.default_rng(1)
    folder.mkdir()
    tables = []
    for name in SITES:
        rows = random.standard_normal((9, 5)).round(3)
        outcome = (rows[:, 0] - rows[:, 3]).round(3)
        tables.append(write_table(folder / f"{name}.csv", rows, outcome))
    return tables


def training_to(out, **more):
    return Training(open_sums=True, sites=2, out=str(out), **FIT, **more)


def write_app(folder, training):
    folder.mkdir()
    (folder / "pyproject.toml").write_text(project_of(training))
    return folder


def assert_trained(out, tables, text):
    assert (out / "model.json").exists(), text
    expected = fitted_in_one_place(tables, out.with_name("fitted"), **FIT)
    assert_same_fit(FitSummary.load(out / "fit.json"), expected)


def run_app(app, environment, *options):
    done = subprocess.run(
        [program("flwr"), "run", app, "plain", "--stream", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.stdout + done.stderr


@pytest.fixture
def link(tmp_path):
    """A SuperLink of Flower's own, how to start more beside it, and its port."""
    port = free_port()
    environment = os.environ | flower_environment(tmp_path / "flower")
    (tmp_path / "flower").mkdir()
    (tmp_path / "flower" / "config.toml").write_text(
        f'[superlink.plain]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    with ExitStack() as stack:

        def begin(*options):
            command = ["flower-superlink", "--insecure", "--port", port]
            command += ["--disable-runtime-dependency-installation", *options]
            start(stack, command, environment)
            wait_for_port(port)

        yield stack, begin, port, environment


def test_superlink_and_supernodes_of_flower_run_the_app(tmp_path, link):
    stack, begin, port, environment = link
    tables = tables_in(tmp_path / "tables")
    out = tmp_path / "trained"
    app = write_app(tmp_path / "app", training_to(out, round_seconds=60.0))
    begin()
    policy = tmp_path / "policy.toml"
    policy.write_text("open_sums = true\n")
    for table in tables:
        config = f'data="{table}" target="{TARGET}" name="{table.stem}" policy="{policy}"'
        node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}"]
        start(stack, [*node, "--port", free_port(), "--node-config", config], environment)
    text = run_app(app, environment)
    assert_trained(out, tables, text)


def test_flowers_simulation_runs_the_app(tmp_path, link):
    pytest.importorskip("ray", reason="Flower's simulation is not installed: flwr[simulation]")
    _, begin, _, environment = link
    tables = tables_in(tmp_path / "tables")
    out = tmp_path / "trained"
    data = str(tmp_path / "tables")
    app = write_app(tmp_path / "app", training_to(out, data=data, target=TARGET))
    begin("--simulation")
    text = run_app(app, environment, "--federation-config", "num-supernodes=2")
    assert_trained(out, tables, text)
