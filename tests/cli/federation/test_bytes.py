"""What crosses the sockets, beside what is counted; and what never crosses them."""

import re
import struct
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from tests.cli.federation.federations import Federation, write_table
from tests.cli.federation.proxies import Proxy

pytestmark = pytest.mark.slow

SITES = ("aachen", "bari")
WIDTH, TAU, ROWS = 150_360, 200, 30
ROUNDS = (2, 12)
"""The objective is looked at every ten rounds, and at the end."""
LIMIT = 8_000
A_MESSAGE = {"pull-messages": 1, "pull-object": 1, "push-messages": 1, "push-object": 3}
"""Exchanges in which a site takes a message and answers it."""


def on_the_wire(proxy):
    """Exchanges of each kind, and bytes down and up, beyond idle polling.

    Idle exchanges are left out one by one, and not by what they take on average: how many there are
    depends on how busy the machine is.
    """
    busy = [exchange for exchange in proxy.exchanges() if not exchange.is_idle]
    sizes = [sum(own.bytes_down for own in busy), sum(own.bytes_up for own in busy)]
    return Counter(own.kind for own in busy), np.array(sizes)


def since(earlier, now):
    return now[0] - earlier[0], now[1] - earlier[1]


def counted(run, site):
    """Bytes down and up of the messages' content, and over the socket by the site's own count."""
    own = next(own for own in run.summary.sites if own.name == site)
    return np.array([[own.bytes_down, own.bytes_up], [own.socket_down, own.socket_up]])


@pytest.fixture(scope="module")
def overheard(tmp_path_factory):
    """Two runs without TLS that differ in their rounds, each site behind a proxy of its own."""
    root = tmp_path_factory.mktemp("bytes")
    random = np.random.default_rng(0)
    tables, proxies = {}, {}
    with ExitStack() as stack:
        federation = stack.enter_context(Federation(root, SITES, insecure=True))
        for name in SITES:
            rows = sparse.random_array((ROWS, WIDTH), density=0.002, rng=random, format="lil")
            rows[0, WIDTH - 1] = 0.123456789  # all sites know the last column
            tables[name] = (rows.tocsr(), random.standard_normal(ROWS))
            path = write_table(root / f"{name}.libsvm", *tables[name])
            proxies[name] = stack.enter_context(Proxy(federation.port))
            federation.start_site(name, path, port=proxies[name].port)
        for name in SITES:
            federation.wait_for_log(name, "is connected")
        before = {name: on_the_wire(proxy) for name, proxy in proxies.items()}
        runs = []
        for rounds in ROUNDS:
            run = federation.train(
                sparsity=TAU, sites=2, rounds=rounds, method="FedIterHT", step_size=0.001,
                held_out="none", stability=0, overwrite=True,
            )  # fmt: skip
            assert run.finish() == 0, run.text
            wire = {name: on_the_wire(proxy) for name, proxy in proxies.items()}
            runs.append({n: (*since(before[n], wire[n]), counted(run, n)) for n in SITES})
            before = wire
    return runs, tables, proxies


@pytest.mark.parametrize("site", SITES)
def test_a_round_takes_less_than_8_kilobytes_each_way_beyond_idle_polling(overheard, site):
    (few, many), _, _ = overheard
    rounds = ROUNDS[1] - ROUNDS[0]
    pairs = zip(few[site][1:], many[site][1:], strict=True)
    wire, (content, told) = ((later - sooner) / rounds for sooner, later in pairs)
    print(f"{site}: {wire} bytes down and up a round on the wire, {content} of content")
    assert (wire < LIMIT).all()
    assert (content < wire).all()
    np.testing.assert_allclose(told, wire, rtol=0.05)  # a sign of life may fall between


@pytest.mark.parametrize("site", SITES)
def test_a_message_takes_six_exchanges(overheard, site):
    (few, many), _, _ = overheard
    messages = ROUNDS[1] - ROUNDS[0]  # the objective comes with the answers
    more = {kind: many[site][0][kind] - few[site][0][kind] for kind in A_MESSAGE}
    expected = {kind: messages * count for kind, count in A_MESSAGE.items()}
    # Flower stores what two sites say alike once, and sites do when a run ends: who is second
    # pushes less of that one message.
    pushed, expected_pushed = (own.pop("push-object") for own in (more, expected))
    assert more == expected
    # The first run's last message is large, and is forgotten when the second run's first one comes.
    assert many[site][0]["confirm-message-received"] == few[site][0]["confirm-message-received"] + 1
    assert abs(pushed - expected_pushed) < A_MESSAGE["push-object"]


def traces(content, numbers):
    """Which of some numbers stand in bytes, in any of the forms in which they might."""
    windows = {content[place : place + 8] for place in range(len(content) - 7)}
    forms = {struct.pack(form, number): number for form in ("<d", ">d") for number in numbers}
    # Four bytes alone turn up by chance.
    forms |= {struct.pack("<2f", *pair): pair[0] for pair in pairwise(numbers)}
    texts = {float(found) for found in re.findall(rb"\d+\.\d+(?:e-?\d+)?", content)}
    return {forms[found] for found in windows & forms.keys()} | {
        number for number in numbers if abs(number) in texts
    }


@pytest.mark.parametrize("site", SITES)
def test_no_row_and_no_label_crosses_the_socket(overheard, site):
    _, tables, proxies = overheard
    content = proxies[site].content
    rows, targets = tables[site]
    numbers = [*rows.data.tolist(), *targets.tolist()]
    assert len(content) > 10_000
    assert traces(content, numbers) == set()
    first, second = numbers[:2]
    planted = [struct.pack("<d", first), struct.pack(">d", first), repr(first).encode()]
    for plant in [*planted, struct.pack("<2f", first, second)]:
        assert traces(content + plant, numbers) == {first}
