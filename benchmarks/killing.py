"""Kill a federation's processes at random moments, go on, and compare every bit with one process.

A server and five sites run on this machine, with TLS, keys and secure sums. Who is killed and when
is drawn from a seed: the server, the program that trains there, the command ``train``, or a site.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.tables import show
from fedsparse.federation.demonstration import SITES, write_tables
from tests.cli.federation.federations import Federation, assert_same_fit, fitted_under_masks
from tests.cli.federation.killings import Kill, assert_replayed, trained_through

ANALYSIS = {"sparsity": "cv", "held_out": "all", "stability": 2, "impute": "mean"}
VICTIMS = ("train", "server", "serverapp", "site")
LONGEST_PAUSE = 1.0
"""Seconds after an exchange, so that kills fall anywhere in the next ones."""


def drawn_kills(count, exchanges, seed):
    """Who is killed and when; all of it before the end."""
    draw = random.Random(seed)
    most = max(1, exchanges // count)
    victims = [draw.choice(VICTIMS) for _ in range(count)]
    return [
        Kill(
            draw.choice(SITES) if victim == "site" else victim,
            draw.randint(1, most),
            round(draw.uniform(0.0, LONGEST_PAUSE), 2),
        )
        for victim in victims
    ]


def verdict_of(check: Callable[[], None]) -> str:
    """What an assertion found."""
    try:
        check()
    except AssertionError as error:
        return f"NO: {error}"
    return "yes"


def main(count=10, seed=1):
    count, seed = int(count), int(seed)
    with tempfile.TemporaryDirectory() as root:
        tables = write_tables(Path(root) / "tables")
        expected = fitted_under_masks(list(tables.values()), **ANALYSIS)
        kills = drawn_kills(count, expected.exchanges, seed)
        with Federation(root, SITES, is_secure=True) as federation:
            for name, table in tables.items():
                federation.start_site(name, table)
            run = trained_through(kills, federation, tables, "trained", **ANALYSIS)
            found = run.summary
            is_same = verdict_of(lambda: assert_same_fit(found, expected))
            is_replayed = verdict_of(lambda: assert_replayed(run))
    show(
        f"{count} kills in an analysis of {expected.exchanges} exchanges at {len(SITES)} sites "
        f"(seed {seed})",
        ["victim", "exchanges after the one before", "and seconds"],
        [[kill.victim, kill.answers, kill.seconds] for kill in kills],
    )
    show(
        "What came of it",
        ["", ""],
        [["the same as one process, bit for bit", is_same], ["`replay` agrees", is_replayed]],
    )


if __name__ == "__main__":
    main()
