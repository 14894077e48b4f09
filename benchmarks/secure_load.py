"""Many sites on one machine: memory of server and sites, and seconds of an exchange, under masks.

A server and 50 sites, each a process with TLS and keys, share the cores of this machine; a few are
started at a time. Every site has 40 rows of 7,129 features and answers with as many numbers.
"""

import re
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.tables import show
from tests.attacks.process_memory import family
from tests.cli.federation.federations import Federation, write_table

SITES = 50
WIDTH, ROWS, DENSITY, TAU = 7_129, 40, 0.05, 20
POLL = 2.0
"""Seconds between two looks of a site: all of them share the cores."""
EXCHANGES, OTHERS = 10, 5
"""Those before and after the rounds count rows, standardize and judge."""
AT_A_TIME = 4
ANSWERED = re.compile(r"\| (.*): (\d+) of \d+ sites answered in ([\d.]+) s")
_PART = re.compile(r"^(Rss|Pss):\s+(\d+) kB", re.MULTILINE)


class Watch(threading.Thread):
    """Looks at the memory of processes from time to time, and keeps the most of each."""

    def __init__(self, pids):
        super().__init__(daemon=True)
        self._pids = pids
        self._end = threading.Event()
        self.most = {}

    def run(self):
        """Look until told to stop."""
        while not self._end.wait(1.0):
            for name, pid in self._pids().items():
                for part, own in memory_of(pid).items():
                    self.most[name, part] = max(self.most.get((name, part), 0), own)

    def stop(self):
        """Look no more."""
        self._end.set()
        self.join()


def memory_of(pid):
    """Bytes that a process has in memory; Pss shares what several have among them."""
    try:
        written = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:  # it has ended
        return {}
    return {part: 1024 * int(own) for part, own in _PART.findall(written)}


def write_tables(folder, names):
    random = np.random.default_rng(0)
    truth = np.zeros(WIDTH)
    truth[:TAU] = 1.0
    found = {}
    for name in names:
        rows = sparse.random_array((ROWS, WIDTH), density=DENSITY, rng=random, format="lil")
        rows[:, :TAU] = random.standard_normal((ROWS, TAU))
        rows[0, WIDTH - 1] = 1.0  # all sites know the last column
        rows = rows.tocsr()
        targets = rows @ truth + 0.1 * random.standard_normal(ROWS)
        found[name] = write_table(folder / f"{name}.libsvm", rows, targets)
    return found


def start(federation, tables):
    """Start sites, a few at a time."""
    names = list(tables)
    for begin in range(0, len(names), AT_A_TIME):
        few = names[begin : begin + AT_A_TIME]
        for name in few:
            federation.start_site(name, tables[name], "--poll", POLL)
        for name in few:
            federation.wait_for_log(name, "is connected")


def _names_of(federation, sites):
    """Processes of the federation by what they are: Flower starts some for the server."""
    found = {name: federation.pid(name) for name in sites}
    found["server"] = federation.pid("server")
    for pid in family(federation.pid("server"))[1:]:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        is_app = b"flwr-serverapp" in command
        found["serverapp" if is_app else f"server's process {pid}"] = pid
    return found


def main(sites=SITES):
    count = int(sites)
    names = [f"site-{place:02}" for place in range(count)]
    with tempfile.TemporaryDirectory() as root, Federation(root, names, is_secure=True) as own:
        tables = write_tables(Path(root), names)
        began = time.perf_counter()
        start(own, tables)
        started = time.perf_counter() - began
        watch = Watch(lambda: _safely(_names_of, own, names))
        watch.start()
        began = time.perf_counter()
        run = own.train(
            sites=count, sparsity=TAU, held_out="none", stability=0, method="FedIterHT",
            step_size=0.01, rounds=EXCHANGES - OTHERS, round_seconds=600,
        )  # fmt: skip
        assert run.finish() in (0, 1), run.text
        seconds = time.perf_counter() - began
        watch.stop()
    exchanges = [match for match in map(ANSWERED.search, run.lines) if match]
    each = [float(match[3]) for match in exchanges]
    answered = min(int(match[2]) for match in exchanges)
    show(
        f"{count} sites, {WIDTH:,} numbers an answer, secure, on one machine "
        f"(started in {started:.0f} s)",
        ["exchanges", "sites in the least", "seconds of the run", "s an exchange", "longest"],
        [[len(each), answered, f"{seconds:.0f}", f"{np.mean(each):.1f}", f"{max(each):.1f}"]],
    )
    kinds = {name for name, _ in watch.most}
    at_sites = [name for name in kinds if name in names]
    rows = [_row(name, [name], watch.most) for name in sorted(kinds - set(at_sites))]
    rows.append(_row("a site, on average", at_sites, watch.most))
    rows.append(_row(f"all {count} sites", at_sites, watch.most, np.sum))
    show("Most memory at any moment, MB", ["process", "RSS", "PSS"], rows)
    by_kind = {}
    for match in exchanges:
        by_kind.setdefault(match[1], []).append(float(match[3]))
    show(
        "Exchanges",
        ["that ask for", "number", "seconds each"],
        [[kind, len(own), f"{np.mean(own):.1f}"] for kind, own in by_kind.items()],
    )


def _safely(call, *arguments):
    """What a look at processes gives; nothing if one ended meanwhile."""
    try:
        return call(*arguments)
    except OSError:
        return {}


def _row(title, names, most, summed=np.mean):
    values = [summed([most[name, part] for name in names]) for part in ("Rss", "Pss")]
    return [title, *(f"{value / 1e6:,.0f}" for value in values)]


if __name__ == "__main__":
    main()
