"""Server, five sites, TLS and keys, all as processes: the model is that of one process."""

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.data.federated import FederatedData
from fedsparse.engines.flower.tables import read_table
from tests.cli.federation.federations import TARGET, Federation, write_table

pytestmark = pytest.mark.slow

SITES = ("aachen", "bari", "cork", "delft", "espoo")
TAU, ROUNDS = 4, 3
METHODS = {
    "FedHT": fs.FedHT(TAU, local_steps=3),
    "FedIterHT": fs.FedIterHT(TAU, local_steps=3),
    "FedSplice": fs.FedSplice(TAU),
}
SUFFIXES = {"dense": ".csv", "csr": ".libsvm"}


def tables_in(folder, suffix):
    random = np.random.default_rng(3)
    truth = np.concatenate([[2.0, -1.5, 1.0, -1.0], np.zeros(16)])
    tables = {}
    for place, name in enumerate(SITES):
        rows = random.standard_normal((12 + 3 * place, 20)).round(3)
        if suffix == ".libsvm":
            rows *= random.random(rows.shape) < 0.3
            rows[0, -1] = 1.0
        outcome = (rows @ truth + 0.3 * random.standard_normal(len(rows))).round(3)
        tables[name] = write_table(folder / f"{name}{suffix}", rows, outcome)
    return tables


@pytest.fixture(scope="module", params=SUFFIXES)
def federation(request, tmp_path_factory):
    root = tmp_path_factory.mktemp(request.param)
    with Federation(root, SITES) as running:
        running.tables = tables_in(root, SUFFIXES[request.param])
        for name in reversed(SITES):
            running.start_site(name, running.tables[name])
        yield running


@pytest.mark.parametrize("name", METHODS)
def test_the_model_is_that_of_one_process_bit_for_bit(federation, name):
    more = {} if name == "FedSplice" else {"local_steps": 3}
    run = federation.train(
        sparsity=TAU, sites=5, rounds=ROUNDS, method=name, out=name, l2=0.01, **more
    )
    assert run.finish() == 0, run.text
    clients = {}
    for site, path in federation.tables.items():
        table = read_table(path, TARGET)
        clients[site] = (table.features, table.targets)
    data = FederatedData.from_clients(clients)
    expected = fs.run(METHODS[name], data, loss=fs.SquaredError(l2=0.01), rounds=ROUNDS)
    columns = table.columns or [str(place + 1) for place in range(20)]
    coefficients = {columns[place]: float(expected.coef[place]) for place in expected.support}
    assert run.model["coefficients"] == coefficients
    assert run.model["objective"] == expected.objective
    history = pl.read_parquet(run.out / "history.parquet")
    assert history.drop("seconds").equals(expected.history.drop("seconds"))
    assert "training on 5 sites: aachen, bari, cork, delft, espoo" in run.text
    assert f"f = {expected.objective:.6g} with 4 coefficients" in run.text
