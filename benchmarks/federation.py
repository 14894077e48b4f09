"""Time to a given objective on a real stack: processes, TLS, keys, and a line with delay.

A server and five sites run on this machine, in two network namespaces with a slow line between.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fedsparse as fs
from benchmarks.slow_line import SERVER, SlowLine
from benchmarks.tables import show
from fedsparse.federation.demonstration import Programs, prepare_sites
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.modelling.fitting import FitOptions, fit, loss_for
from fedsparse.modelling.summary import FitSummary
from fedsparse.problem.federated import FederatedData

SITES = ("aachen", "bari", "cork", "delft", "espoo")
WIDTH, ROWS, TAU = 200, 300, 10
ROUND_TRIP = 0.150
SHARE = 0.999
"""The goal: so much of the way from f(0) to the best that any method reaches."""
MOST_ROUNDS = 400
METHODS = {
    "Distributed-IHT": ("DistributedIHT", fs.DistributedIHT(TAU, weights="samples")),
    "FedIter-HT": ("FedIterHT", fs.FedIterHT(TAU, local_steps=10, weights="samples")),
    "FedSplice": ("FedSplice", None),
}


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
    records = {}
    for name, (_, algorithm) in METHODS.items():
        loss = loss_for(None, data.samples)
        options = FitOptions(loss, algorithm=algorithm, rounds=MOST_ROUNDS)
        engine = fs.LocalEngine(data, loss)
        records[name] = fs.converse(engine, fit(engine, TAU, options)).result.records
    best = min(own.objective for history in records.values() for own in history)
    begin = records["FedSplice"][0].objective
    goal = begin - SHARE * (begin - best)
    needed = {}
    for name, history in records.items():
        reached = [own.round for own in history if own.objective <= goal]
        needed[name] = reached[0] if reached else None
    return goal, needed


def measure(line, folder, method, rounds, out):
    """Seconds of requests and updates, bytes of vectors and on the sites' sockets."""
    subprocess.run(
        [*line.at_server(), sys.executable, "-m", "fedsparse", "federation", "train", folder.root,
         "--sparsity", str(TAU), "--sites", str(len(SITES)), "--method", method, "--out", out,
         "--rounds", str(rounds), "--evaluate-every", str(rounds), "--held-out", "none",
         "--stability", "0"],
        stdout=subprocess.DEVNULL,
        check=True,
    )  # fmt: skip
    summary = FitSummary.load(out / "fit.json")
    last = summary.history[-1]
    socket = sum(own.socket_down + own.socket_up for own in summary.sites)
    return last.seconds, last.bytes_down + last.bytes_up, socket, last.objective


def write_site(path, rows, targets):
    names = [f"feature_{place}" for place in range(WIDTH)] + ["outcome"]
    table = np.column_stack([rows, targets])
    lines = [",".join(names), *(",".join(map(repr, row)) for row in table.tolist())]
    path.write_text("\n".join(lines) + "\n")


def main():
    own = clients()
    goal, needed = rounds_to_goal(FederatedData.from_clients(own))
    found = []
    with tempfile.TemporaryDirectory() as root, SlowLine(ROUND_TRIP / 2) as line:
        place = Path(root)
        folder = ServerFolder(place / "server")
        make_keys(folder, [SERVER])
        prepare_sites(folder, SITES)
        with Programs(place, line.at_server()) as server, Programs(place, line.at_sites()) as sites:
            server.start("server", "server", folder.root)
            for name, (rows, targets) in own.items():
                write_site(place / f"{name}.csv", rows, targets)
                sites.start(
                    name, "site", "--data", place / f"{name}.csv", "--target", "outcome",
                    "--server", SERVER, "--keys", folder.package_of(name), "--poll", 0.1,
                )  # fmt: skip
            for name, (method, _) in METHODS.items():
                rounds = needed[name]
                if rounds is None:
                    found.append([name, f"more than {MOST_ROUNDS}", "–", "–", "–", "–"])
                    continue
                seconds, vectors, socket, objective = measure(
                    line, folder, method, rounds, place / method
                )
                assert objective <= goal * (1 + 1e-12)
                found.append(
                    [
                        name, rounds, f"{seconds:.1f}", f"{seconds / rounds:.2f}",
                        f"{vectors / 1e3:.0f}", f"{socket / 1e3:.0f}",
                    ]
                )  # fmt: skip
    title = (
        f"Time to f ≤ {goal:.4g}: {len(SITES)} sites, {WIDTH} features, τ = {TAU}, TLS, "
        f"{1e3 * ROUND_TRIP:.0f} ms round trip by {line.how}"
    )
    columns = ["method", "rounds", "seconds", "seconds a round", "kB of vectors", "kB on sockets"]
    show(title, columns, found)


if __name__ == "__main__":
    main()
