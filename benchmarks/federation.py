"""Time to a given objective on a real stack: processes, TLS, keys, and a line with delay.

Five sites and a server run on this machine. Every byte between a site and the server passes a
line that holds it back for half of the round-trip time, in each direction. Kernels that can would
do the same with ``tc qdisc add dev … root netem delay``.
"""

import json
import socket
import tempfile
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import polars as pl

import fedsparse as fs
from benchmarks.tables import show
from fedsparse.data.federated import FederatedData
from fedsparse.engines.flower.demonstration import Programs, free_port, wait_for_port
from fedsparse.engines.flower.folder import ServerFolder
from fedsparse.engines.flower.keys import make_keys
from fedsparse.engines.flower.submission import Address, submit
from fedsparse.engines.flower.training import Training

SITES = ("aachen", "bari", "cork", "delft", "espoo")
WIDTH, ROWS, TAU = 200, 300, 10
ROUND_TRIP = 0.150
SHARE = 0.999
"""The goal: so much of the way from f(0) to the best that any method reaches."""
MOST_ROUNDS = 400
METHODS = {
    "Distributed-IHT": ("DistributedIHT", fs.DistributedIHT(TAU)),
    "FedIter-HT": ("FedIterHT", fs.FedIterHT(TAU, local_steps=10)),
    "FedSplice": ("FedSplice", fs.FedSplice(TAU)),
}


class DelayedLine:
    """Passes connections on to a port, holding every byte back for a while."""

    def __init__(self, port, delay):
        self._target, self._delay = port, delay
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        """Take no more connections."""
        self._listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._carry(source, sink)

    def _carry(self, source, sink):
        waiting, ready = deque(), threading.Condition()

        def receive():
            data = b"connected"
            while data:
                try:
                    data = source.recv(65536)
                except OSError:
                    data = b""
                with ready:
                    waiting.append((time.monotonic() + self._delay, data))
                    ready.notify()

        def send():
            data = b"connected"
            while data:
                with ready:
                    ready.wait_for(lambda: waiting)
                    due, data = waiting.popleft()
                time.sleep(max(0.0, due - time.monotonic()))
                with suppress(OSError):
                    sink.sendall(data) if data else sink.shutdown(socket.SHUT_WR)

        for work in (receive, send):
            threading.Thread(target=work, daemon=True).start()


def clients():
    """Sites that agree on some features and differ in their coefficients."""
    random = np.random.default_rng(5)
    truth = np.zeros(WIDTH)
    truth[:TAU] = random.choice([-1.0, 1.0], TAU) * random.uniform(0.5, 2.0, TAU)
    scale = np.exp(random.uniform(-0.7, 0.7, WIDTH))
    own = {}
    for name in SITES:
        rows = random.standard_normal((ROWS, WIDTH)) * scale
        differing = truth + np.where(truth != 0, 0.3 * random.standard_normal(WIDTH), 0.0)
        own[name] = (rows, rows @ differing + 0.5 * random.standard_normal(ROWS))
    return own


def rounds_to_goal(data):
    """Rounds that each method needs in one process; the federation makes the same ones."""
    results = {
        name: fs.run(algorithm, data, rounds=MOST_ROUNDS)
        for name, (_, algorithm) in METHODS.items()
    }
    best = min(result.objective for result in results.values())
    begin = next(iter(results.values())).records[0].objective
    goal = begin - SHARE * (begin - best)
    needed = {}
    for name, result in results.items():
        reached = [own.round for own in result.records if own.objective <= goal]
        needed[name] = reached[0] if reached else None
    return goal, needed


def measure(folder, address, method, rounds, out):
    """Seconds of requests and updates, and bytes of the vectors, over a federation."""
    training = Training(
        sparsity=TAU, sites=len(SITES), method=method, rounds=rounds, evaluate_every=rounds,
        round_seconds=60.0, out=str(out),
    )  # fmt: skip
    submit(training, folder, address, tell=lambda line: None)
    last = pl.read_parquet(out / "history.parquet").row(-1, named=True)
    return last["seconds"], last["bytes_down"] + last["bytes_up"], last["objective"]


def write_site(path, rows, targets):
    names = [f"feature_{place}" for place in range(WIDTH)] + ["outcome"]
    table = np.column_stack([rows, targets])
    lines = [",".join(names), *(",".join(map(repr, row)) for row in table.tolist())]
    path.write_text("\n".join(lines) + "\n")


def main():
    own = clients()
    goal, needed = rounds_to_goal(FederatedData.from_clients(own))
    with tempfile.TemporaryDirectory() as root, ExitStack() as stack:
        place = Path(root)
        folder = ServerFolder(place / "server")
        make_keys(folder, ["localhost"], SITES)
        port = free_port()
        programs = stack.enter_context(Programs(place))
        programs.start("server", "server", folder.root, "--port", port)
        wait_for_port(port)
        for name, (rows, targets) in own.items():
            write_site(place / f"{name}.csv", rows, targets)
            line = DelayedLine(port, ROUND_TRIP / 2)
            stack.callback(line.close)
            programs.start(
                name, "site", "--data", place / f"{name}.csv", "--target", "outcome",
                "--server", f"localhost:{line.port}", "--keys", folder.package_of(name),
                "--poll", 0.1,
            )  # fmt: skip
        found = []
        for name, (method, _) in METHODS.items():
            rounds = needed[name]
            if rounds is None:
                found.append([name, f"more than {MOST_ROUNDS}", "–", "–", "–"])
                continue
            seconds, sent, objective = measure(
                folder, Address(port), method, rounds, place / method
            )
            assert objective <= goal
            found.append(
                [name, rounds, f"{seconds:.1f}", f"{seconds / rounds:.2f}", f"{sent / 1e3:.0f}"]
            )
    title = (
        f"Time to f ≤ {goal:.4g}: {len(SITES)} sites, {WIDTH} features, τ = {TAU}, TLS, "
        f"{1e3 * ROUND_TRIP:.0f} ms round trip"
    )
    show(title, ["method", "rounds", "seconds", "seconds a round", "kB of vectors"], found)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
