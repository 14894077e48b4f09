"""How many answers the whole default analysis takes of a site: what budgets have to leave room for.

Counted in one process, which asks what a server asks over a network.
"""

from collections import Counter

import numpy as np

import fedsparse as fs
from benchmarks.tables import show
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.fitting import loss_for
from fedsparse.modelling.specification import FitSpecification

SITES = 5
PROBLEMS = {
    "two classes, 72 × 7,129": (2, 72, 7_129),
    "numbers, 72 × 200": (None, 72, 200),
    "numbers, 400 × 40": (None, 400, 40),
    "three classes, 150 × 40": (3, 150, 40),
}


class CountingEngine(fs.LocalEngine):
    """Counts what its first client is asked; like a network, it cannot pool rows."""

    can_pool = False

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.exchanges = 0
        self.asked = Counter()

    def exchange(self, asks):
        """Count, and answer."""
        self.exchanges += 1
        self.asked.update(
            type(ask.request).__name__ for ask in asks if ask.which is None or 0 in ask.which
        )
        return super().exchange(asks)


def clients_of(classes, rows, width):
    """Rows of every site; three columns matter."""
    random = np.random.default_rng(0)
    for own in np.array_split(np.arange(rows), SITES):
        Z = random.standard_normal((own.size, width))
        score = Z[:, 3] - Z[:, 7] + Z[:, 1] + 0.5 * random.standard_normal(own.size)
        cuts = {2: [0.0], 3: [-0.7, 0.7]}.get(classes)
        yield Z, score if cuts is None else np.digitize(score, cuts)


def counted(classes, rows, width):
    """An engine that has held the whole analysis."""
    data = fs.FederatedData.from_clients(list(clients_of(classes, rows, width)))
    engine = CountingEngine(data, loss_for(classes, 1.0))
    names = [str(place) for place in range(width)]
    labels = None if classes is None else tuple(map(str, range(classes)))
    counting = analysing(engine, FitSpecification(), names, labels=labels)
    exchanged = fs.converse(engine, counting)
    assert exchanged.exchanges == engine.exchanges
    engine.close()
    return engine


def main():
    rows = []
    for name, problem in PROBLEMS.items():
        engine = counted(*problem)
        most = ", ".join(f"{count} {kind}" for kind, count in engine.asked.most_common(3))
        rows.append([name, engine.exchanges, sum(engine.asked.values()), most])
    show(
        f"The default analysis at {SITES} sites",
        ["", "messages to a site", "answers of a site", "most of them"],
        rows,
    )
