"""What crosses the sockets, beside what is counted; and what never crosses them."""

import json
import struct
from contextlib import ExitStack

import numpy as np
import pytest
from scipy import sparse

from tests.cli.federation.federations import Federation, write_table
from tests.cli.federation.proxies import Proxy

pytestmark = pytest.mark.slow

SITES = ("aachen", "bari")
WIDTH, TAU, ROUNDS, ROWS = 150_360, 200, 6, 30
LIMIT = 8_000


@pytest.fixture(scope="module")
def overheard(tmp_path_factory):
    """A finished run without TLS, each site behind a proxy of its own."""
    root = tmp_path_factory.mktemp("bytes")
    random = np.random.default_rng(0)
    tables, proxies = {}, {}
    with ExitStack() as stack:
        federation = stack.enter_context(Federation(root, SITES, insecure=True))
        for name in SITES:
            rows = sparse.random_array((ROWS, WIDTH), density=0.002, rng=random, format="lil")
            rows[0, WIDTH - 1] = 0.123456789  # all sites know the last column
            rows = rows.tocsr()
            targets = random.standard_normal(ROWS)
            tables[name] = (rows, targets)
            path = write_table(root / f"{name}.libsvm", rows, targets)
            proxies[name] = stack.enter_context(Proxy(federation.port))
            federation.start_site(name, path, port=proxies[name].port)
        run = federation.train(
            sparsity=TAU, sites=2, rounds=ROUNDS, step_size=0.1, evaluate_every=ROUNDS
        )
        assert run.finish() == 0, run.text
    return run, tables, proxies


def busy(proxy):
    return [exchange for exchange in proxy.exchanges() if not exchange.is_idle]


@pytest.mark.parametrize("site", SITES)
def test_a_round_takes_less_than_8_kilobytes_each_way_beyond_idle_polling(overheard, site):
    run, _, proxies = overheard
    down = sum(exchange.bytes_down for exchange in busy(proxies[site]))
    up = sum(exchange.bytes_up for exchange in busy(proxies[site]))
    counted = next(own for own in run.outcome["sites"] if own["name"] == site)
    print(json.dumps({"down": down / ROUNDS, "up": up / ROUNDS, "counted": counted}))
    assert down / ROUNDS < LIMIT
    assert up / ROUNDS < LIMIT
    assert counted["bytes_down"] <= down
    assert counted["bytes_up"] <= up


@pytest.mark.parametrize("site", SITES)
def test_no_row_and_no_label_crosses_the_socket(overheard, site):
    _, tables, proxies = overheard
    content = proxies[site].content
    rows, targets = tables[site]
    assert len(content) > 10_000
    for number in [*rows.data, *targets]:
        assert struct.pack("<d", number) not in content
        assert struct.pack(">d", number) not in content
        assert struct.pack("<f", number) not in content
        assert repr(float(number)).encode() not in content
