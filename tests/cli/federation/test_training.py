"""Server, five sites, TLS and keys, all as processes: the model is that of one process."""

import numpy as np
import polars as pl
import pytest
from fedsparse.fitting import FitOptions, loss_for

import fedsparse as fs
from fedsparse.modelling.building import history_of
from tests.cli.federation.federations import (
    TARGET,
    Federation,
    assert_same_model,
    fitted_alone,
    write_table,
)

pytestmark = pytest.mark.slow

SITES = ("aachen", "bari", "cork", "delft", "espoo")
TAU, ROUNDS = 4, 3
METHODS = {
    "FedHT": fs.FedHT(TAU, local_steps=3, weights="samples"),
    "FedIterHT": fs.FedIterHT(TAU, local_steps=3, weights="samples"),
    "FedSplice": None,  # what one gets without asking
}
SUFFIXES = {"dense": ".csv", "csr": ".libsvm"}
TRUTH = np.concatenate([[2.0, -1.5, 1.0, -1.0], np.zeros(16)])


def tables_in(folder, suffix):
    """Sites of different sizes; those with names have holes and a column of categories."""
    random = np.random.default_rng(3)
    tables = []
    for place, name in enumerate(SITES):
        rows = random.standard_normal((24 + 3 * place, 20)).round(3)
        if suffix == ".libsvm":
            rows *= random.random(rows.shape) < 0.3
        outcome = (rows @ TRUTH + 0.3 * random.standard_normal(len(rows))).round(3)
        path = folder / f"{name}{suffix}"
        tables.append(path)
        if suffix == ".libsvm":
            write_table(path, rows, outcome)
            continue
        columns = {f"gene {place}": column for place, column in enumerate(rows.T)}
        columns["gene 1"] = [
            None if row % 9 == 0 else value for row, value in enumerate(rows[:, 1])
        ]
        ward = np.resize(["ear", "eye", "skin"], len(rows))
        pl.DataFrame({**columns, "ward": ward, TARGET: outcome}).write_csv(path)
    return tables


@pytest.fixture(scope="module", params=SUFFIXES)
def federation(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    with Federation(root, SITES) as running:
        running.tables = tables_in(root, SUFFIXES[request.param])
        for table in reversed(running.tables):
            running.start_site(table.stem, table)
        yield running


@pytest.mark.parametrize("name", METHODS)
def test_the_model_is_that_of_one_process_bit_for_bit(federation, name):
    more = {} if METHODS[name] is None else {"local_steps": 3, "method": name}
    run = federation.train(
        sparsity=TAU, sites=5, rounds=ROUNDS, out=name, impute="mean", evaluate_every=1, **more
    )
    assert run.finish() == 0, run.text
    rows = sum(24 + 3 * place for place in range(5))
    options = FitOptions(loss_for(None, rows), algorithm=METHODS[name], rounds=ROUNDS)
    result, model = fitted_alone(federation.tables, TAU, options, impute="mean")
    assert_same_model(run.model, model)
    summary = run.summary
    assert without_seconds(summary.history) == without_seconds(history_of(result.records))
    assert summary.is_networked
    assert [site.rows for site in summary.sites] == [24, 27, 30, 33, 36]
    assert "training on 5 sites: aachen, bari, cork, delft, espoo" in run.text
    assert f"f = {result.objective:.6g} with 4 coefficients" in run.text
    assert f"4 of {summary.candidates} features predict" in run.text
    assert "Sent by it" in (run.out / "report.html").read_text()


def without_seconds(history):
    return [record.model_copy(update={"seconds": 0.0}) for record in history]
