"""Server, three sites, TLS and keys, all as processes: the analysis is that of one process."""

import numpy as np
import polars as pl
import pytest

from tests.cli.federation.federations import (
    TARGET,
    Federation,
    assert_same_fit,
    fitted_in_one_place,
    write_table,
)
from tests.cli.federation.killings import assert_replayed

pytestmark = pytest.mark.slow

SITES = ("aachen", "bari", "cork")
ROWS = (44, 49, 57)
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
    "two classes": (".csv", lambda path, place: write_classes(path, place, ["no", "yes"], [0.0])),
    "three classes": (
        ".csv",
        lambda path, place: write_classes(path, place, ["low", "middle", "high"], [-1.0, 1.0]),
    ),
    "numbers": (".libsvm", write_numbers),
}
ANALYSES = {
    "two classes": {"impute": "mean"},
    "three classes": {"impute": "mean", "rounds": 15},
    "numbers": {},
}
ALL_OF_IT = {"sparsity": "cv", "held_out": "fifth", "stability": 2}
"""Of everything one: whole analyses are compared in `tests/federation/server/test_analysis.py`."""
MODELS = {"sparsity": 4, "held_out": "none", "stability": 0, "rounds": 3, "local_steps": 3}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that knows three sites."""
    with Federation(tmp_path_factory.mktemp("training"), SITES) as running:
        yield running


@pytest.fixture(scope="module", params=KINDS)
def federation(request, server):
    """The server with three sites that have tables of a kind."""
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


@pytest.fixture(scope="module")
def expected(federation):
    """What one process finds on the same tables."""
    return fitted_here(federation, "fitted", **ALL_OF_IT, **ANALYSES[federation.kind])


def fitted_here(federation, name, **options):
    folder = federation.root / federation.kind
    return fitted_in_one_place(federation.tables, folder / name, **options)


def test_the_analysis_is_that_of_one_process_bit_for_bit(federation, expected):
    options = ALL_OF_IT | ANALYSES[federation.kind]
    run = federation.train(sites=3, out=f"{federation.kind}/trained", **options)
    assert run.finish() == 0, run.text
    assert_same_fit(run.summary, expected)
    summary = run.summary
    assert summary.is_networked
    assert summary.selection.method == "cv"
    assert summary.stability.subsamples == 4
    assert {score.method for score in summary.evaluation.scores} == {"federated", "alone"}
    assert [site.rows for site in summary.sites] == list(ROWS)
    assert {site.took_part for site in summary.sites} == {"to the end"}
    assert "learning from 3 sites: aachen, bari, cork" in run.text
    assert f"{len(summary.model.features)} of {summary.candidates} features predict" in run.text
    assert "Sent by it" in (run.out / "report.html").read_text()
    assert_replayed(run)


@pytest.mark.parametrize("federation", ["two classes", "numbers"], indirect=True)
def test_the_models_of_other_methods_are_those_of_one_process_bit_for_bit(federation):
    """The runs are under way at once: they do not mix."""
    models = MODELS | ({"impute": "mean"} if federation.kind == "two classes" else {})
    options = {method: models | {"method": method} for method in ("FedHT", "FedIterHT")}
    runs = {
        method: federation.train(sites=3, out=f"{federation.kind}/{method}", **own)
        for method, own in options.items()
    }
    for method, run in runs.items():
        assert run.finish() == 0, run.text
        found = fitted_here(federation, f"{method} fitted", **options[method])
        assert_same_fit(run.summary, found)
