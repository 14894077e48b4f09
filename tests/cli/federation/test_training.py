"""Server, five sites, TLS and keys, all as processes: the analysis is that of one process."""

import random
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from fedsparse.federation.server.transcript import TRANSCRIPT
from tests.cli.federation.federations import (
    TARGET,
    Federation,
    assert_same_fit,
    fitted_in_one_place,
    write_table,
)

pytestmark = pytest.mark.slow

SITES = ("aachen", "bari", "cork", "delft", "espoo")
ROWS = (24, 27, 30, 33, 36)
WIDTH = 12


def numbers_of(kind, place):
    """Features and a score of a site; four columns matter."""
    draw = np.random.default_rng(place)
    numbers = draw.standard_normal((ROWS[place], WIDTH)).round(3)
    if kind == "libsvm":
        numbers *= draw.random(numbers.shape) < 0.4
        numbers[0, -1] = 1.0
    score = numbers[:, :4] @ [2.0, -1.5, 1.0, -1.0] + 0.5 * draw.standard_normal(len(numbers))
    return numbers, score.round(3)


def write_numbers(path, place):
    return write_table(path, *numbers_of("libsvm", place))


def write_classes(path, place, labels, cuts):
    """A table with holes and a column of categories."""
    numbers, score = numbers_of("csv", place)
    columns = {f"gene {column}": own for column, own in enumerate(numbers.T)}
    columns["gene 1"] = [None if row % 9 == 0 else own for row, own in enumerate(numbers[:, 1])]
    ward = np.resize(["ear", "eye", "skin"], len(score))
    outcome = np.array(labels)[np.digitize(score, cuts)]
    pl.DataFrame({**columns, "ward": ward, TARGET: outcome}).write_csv(path)
    return path


KINDS = {
    "numbers": (".libsvm", write_numbers),
    "two classes": (".csv", lambda path, place: write_classes(path, place, ["no", "yes"], [0.0])),
    "three classes": (
        ".csv",
        lambda path, place: write_classes(path, place, ["low", "middle", "high"], [-1.0, 1.0]),
    ),
}
ANALYSES = {
    "numbers": {"sparsity": "cv", "stability": 2},
    "two classes": {"sparsity": "cv", "stability": 2, "impute": "mean"},
    "three classes": {"sparsity": "cv", "stability": 2, "impute": "mean", "rounds": 15},
}
KILLED = {"sparsity": "cv", "held_out": "all", "stability": 2}
MODELS = {"sparsity": 4, "held_out": "none", "stability": 0, "rounds": 3, "local_steps": 3}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that knows five sites."""
    with Federation(tmp_path_factory.mktemp("training"), SITES) as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def federation(request, server):
    """The server with five sites that have tables of a kind."""
    suffix, write = KINDS[request.param]
    server.kind = request.param
    folder = server.root / request.param
    folder.mkdir()
    server.tables = [write(folder / f"{name}{suffix}", place) for place, name in enumerate(SITES)]
    for table in reversed(server.tables):
        server.start_site(table.stem, table)
    yield server
    for name in SITES:
        server.programs.end(name)


def fitted_here(federation, name, **options):
    return fitted_in_one_place(
        federation.tables, federation.root / federation.kind / name, **options
    )


def test_the_analysis_is_that_of_one_process_bit_for_bit(federation):
    options = ANALYSES[federation.kind]
    run = federation.train(sites=5, out=f"{federation.kind}/trained", **options)
    assert run.finish() == 0, run.text
    expected = fitted_here(federation, "fitted", **options)
    assert_same_fit(run.summary, expected)
    summary = run.summary
    assert summary.is_networked
    assert summary.selection.method == "cv"
    assert summary.stability.subsamples == 4
    assert {score.method for score in summary.evaluation.scores} == {"federated", "alone"}
    assert [site.rows for site in summary.sites] == list(ROWS)
    assert {site.took_part for site in summary.sites} == {"to the end"}
    assert "learning from 5 sites: aachen, bari, cork, delft, espoo" in run.text
    assert f"{len(summary.model.features)} of {summary.candidates} features predict" in run.text
    assert "Sent by it" in (run.out / "report.html").read_text()
    assert replayed(run)


@pytest.mark.parametrize("method", ["FedHT", "FedIterHT"])
def test_the_model_of_a_method_is_that_of_one_process_bit_for_bit(federation, method):
    options = MODELS | {"method": method}
    options |= {"impute": "mean"} if federation.kind != "numbers" else {}
    run = federation.train(sites=5, out=f"{federation.kind}/{method}", **options)
    assert run.finish() == 0, run.text
    assert_same_fit(run.summary, fitted_here(federation, f"{method} fitted", **options))


def replayed(run):
    """What replay says of a run; it must agree with its files."""
    done = subprocess.run(
        [sys.executable, "-m", "fedsparse", "federation", "replay", run.out],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same, bit for bit" in done.stdout.replace("\n", " ")
    return done.stdout


@pytest.fixture
def killed(server):
    """Five sites with numbers, one of which the test kills and starts again."""
    folder = server.root / "killed"
    folder.mkdir()
    server.tables = [
        write_numbers(folder / f"{name}.libsvm", place) for place, name in enumerate(SITES)
    ]
    for table in server.tables:
        server.start_site(table.stem, table)
    yield server
    for name in SITES:
        server.programs.end(name)


def start_or_resume(federation):
    """Begin a run, or go on with it if it got as far as a transcript."""
    out = "killed/trained"
    more = {"resume": True} if (federation.root / out / TRANSCRIPT).exists() else {}
    return federation.train(sites=5, out=out, if_absent="wait", round_seconds=10, **KILLED, **more)


def test_whatever_is_killed_whenever_the_run_ends_in_the_same_bits(killed):
    draw = random.Random(12)
    run = start_or_resume(killed)
    for victim in ("train", "server", "cork", "serverapp"):
        run.until_answers(draw.randint(1, 6))
        if victim == "cork":  # it comes back by itself, and is waited for
            killed.kill("cork")
            killed.start_site("cork", killed.tables[2])
            continue
        if victim == "train":
            run.kill()
        elif victim == "server":
            killed.kill("server")
            assert run.finish() == 2, run.text
            killed.start_server()
        else:
            killed.kill_serverapp()
            assert run.finish() == 2, run.text
        run = start_or_resume(killed)
    assert run.finish() == 0, run.text
    expected = fitted_in_one_place(killed.tables, killed.root / "killed/fitted", **KILLED)
    assert_same_fit(run.summary, expected)
    assert replayed(run)
