"""What lockstep saves: the whole default analysis of a gene table over a network, and one by one.

A server and five sites run on this machine, with TLS and keys; 72 rows of 7,129 genes. Both sides
learn the same model, which is checked.
"""

import os
import re
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.tables import show
from fedsparse.federation.demonstration import (
    SITES,
    Programs,
    free_port,
    prepare_sites,
    wait_for_port,
)
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.federation.server import submission
from fedsparse.federation.server.runs import Address
from fedsparse.federation.server.training import Training
from fedsparse.modelling.summary import FitSummary

ROWS, GENES = (18, 16, 14, 13, 11), 7_129
TARGET = "kind"
POLICY = "open_sums = true\nmost_features_per_row = 100\n"
ANSWERED = re.compile(r"\| (.*): \d+ of \d+ sites answered in ([\d.]+) s")


def write_tables(folder):
    """Two kinds of samples that four genes tell apart, more or less."""
    random = np.random.default_rng(3)
    weights = np.zeros(GENES)
    weights[[10, 200, 3000, 5000]] = (1.5, -1.2, 1.0, -0.8)
    for name, rows in zip(SITES, ROWS, strict=True):
        genes = random.standard_normal((rows, GENES)).round(4)
        is_one = genes @ weights + 0.5 * random.standard_normal(rows) > 0
        columns = {f"gene_{place}": genes[:, place] for place in range(GENES)}
        kind = np.where(is_one, "AML", "ALL")
        pl.DataFrame({**columns, TARGET: kind}).write_csv(folder / f"{name}.csv")


def measure(place, folder, port, name, app):
    """Seconds of a run, and what its log says of the exchanges."""
    training = Training(
        open_sums=True, sites=len(SITES), out=str(place / name), longest_wait=3600.0
    )
    plain = submission.project_of
    submission.project_of = lambda own: plain(own).replace("fedsparse.federation.app:server", app)
    lines = []
    began = time.perf_counter()
    try:
        submission.submit(training, folder, Address(port), lines.append)
    finally:
        submission.project_of = plain
    seconds = time.perf_counter() - began
    found = [match for match in map(ANSWERED.search, lines) if match]
    return seconds, found, FitSummary.load(place / name / "fit.json")


def main():
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as root:
        place = Path(root)
        write_tables(place)
        folder = ServerFolder(place / "server")
        make_keys(folder, ["localhost"])
        prepare_sites(folder, SITES)
        port = free_port()
        with Programs(place) as programs:
            programs.start("server", "server", folder.root, "--port", port)
            wait_for_port(port)
            policy = place / "policy.toml"
            policy.write_text(POLICY)
            for name in SITES:
                programs.start(
                    name, "site", "--data", place / f"{name}.csv", "--target", TARGET,
                    "--server", f"localhost:{port}", "--keys", folder.package_of(name),
                    "--policy", policy,
                )  # fmt: skip
            seconds, found, together = measure(
                place, folder, port, "lockstep", "fedsparse.federation.app:server"
            )
            others, one_by_one, apart = measure(
                place, folder, port, "apart", "benchmarks.one_by_one:server"
            )
        transcript = (place / "lockstep" / "transcript.bin").stat().st_size
    assert together.model.features == apart.model.features
    assert [own.metrics for own in together.evaluation.scores] == [
        own.metrics for own in apart.evaluation.scores
    ]
    exchanges = (len(found), len(one_by_one))
    show(
        f"The default analysis of {sum(ROWS)} rows × {GENES:,} genes at {len(SITES)} sites",
        ["", "exchanges", "seconds", "seconds an exchange"],
        [
            ["in lockstep", exchanges[0], f"{seconds:.0f}", f"{seconds / exchanges[0]:.2f}"],
            ["one by one", exchanges[1], f"{others:.0f}", f"{others / exchanges[1]:.2f}"],
            ["ratio", f"{exchanges[1] / exchanges[0]:.1f}×", f"{others / seconds:.1f}×", ""],
        ],
    )
    spent = Counter()
    for match in found:
        spent[re.sub(r"\d+ × ", "", match[1])] += float(match[2])
    spent["everything else: start, server's algebra, files"] = seconds - sum(spent.values())
    show(
        f"Where the seconds in lockstep go (transcript: {transcript / 1e6:.0f} MB)",
        ["exchanges that ask for", "seconds"],
        [[what, f"{own:.1f}"] for what, own in spent.most_common(12)],
    )


if __name__ == "__main__":
    main()
