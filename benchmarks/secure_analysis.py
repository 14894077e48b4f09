"""What masks cost a whole analysis: `train` with all defaults, sums open and secure.

A server and five sites run on this machine, with TLS and keys; 72 rows of 7,129 genes, as in
`benchmarks.lockstep`. Both runs ask the same server and the same sites, one after the other.
"""

import re
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.lockstep import GENES, ROWS, TARGET, write_tables
from benchmarks.tables import show
from fedsparse.federation.demonstration import SITES
from tests.cli.federation.federations import Federation

ANSWERED = re.compile(r"\| (.*): \d+ of \d+ sites answered in ([\d.]+) s")
MOST = 2.5
"""What secure sums may take, times what open ones take."""


def measure(federation, is_secure):
    """Seconds of a run, its exchanges by what they ask for, and what it found."""
    federation.is_secure = is_secure
    began = time.perf_counter()
    run = federation.train(sites=len(SITES), out="secure" if is_secure else "open")
    assert run.finish() == 0, run.text
    seconds = time.perf_counter() - began
    return seconds, [match for match in map(ANSWERED.search, run.lines) if match], run.summary


def main():
    with tempfile.TemporaryDirectory() as root, Federation(root, SITES) as federation:
        place = Path(root)
        write_tables(place)
        for name in SITES:
            federation.start_site(name, place / f"{name}.csv", target=TARGET)
        for name in SITES:
            federation.wait_for_log(name, "is connected")
        found = {way: measure(federation, way == "secure") for way in ("open", "secure")}
    rows = [_row(way, *own) for way, own in found.items()]
    ratios = [own / plain for own, plain in zip(rows[1][1:], rows[0][1:], strict=True)]
    show(
        f"The default analysis of {sum(ROWS)} rows × {GENES:,} genes at {len(SITES)} sites, "
        f"ratio of seconds at most {MOST}",
        ["sums", "seconds", "exchanges", "s in exchanges", "MB down", "MB up", "MB on sockets"],
        [
            *([way, *(f"{number:,.1f}" for number in own)] for way, *own in rows),
            ["ratio", *(f"{ratio:.2f}×" for ratio in ratios)],
        ],
    )
    kinds = {way: _by_kind(exchanges) for way, (_, exchanges, _) in found.items()}
    show(
        "Where the seconds go",
        ["exchanges that ask for", "open", "secure"],
        [
            [kind, f"{kinds['open'][kind]:.1f}", f"{own:.1f}"]
            for kind, own in kinds["secure"].most_common(10)
        ],
    )


def _row(way, seconds, exchanges, summary):
    sites = summary.sites
    down, up = sum(own.bytes_down for own in sites), sum(own.bytes_up for own in sites)
    sockets = sum(own.socket_down + own.socket_up for own in sites)
    waited = sum(float(match[2]) for match in exchanges)
    return [way, seconds, len(exchanges), waited, down / 1e6, up / 1e6, sockets / 1e6]


def _by_kind(exchanges):
    spent = Counter()
    for match in exchanges:
        spent[re.sub(r"\d+ × ", "", match[1])] += float(match[2])
    return spent


if __name__ == "__main__":
    main()
