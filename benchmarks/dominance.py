"""How much rows weigh that are not among the heaviest, in honest analyses and under attack.

A site of two or more classes does not answer where rows that are not among the ``smallest_samples``
− 1 heaviest weigh less than ``smallest_weight_of_others``; see
`fedsparse.federation.sites.disclosure`. Here is what they weigh in analyses, and when a server asks
with an x that puts every row on one side or the other of a threshold. The gene-expression sets are
read from the folder that FEDSPARSE_DATA names.
"""

from collections import defaultdict

import numpy as np

import fedsparse as fs
from benchmarks.genes import SETS, SITES, read
from benchmarks.tables import show
from fedsparse.federation.sites.disclosure import weight_of_others, weights_told
from fedsparse.federation.sites.policy import Policy
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.fitting import loss_for
from fedsparse.modelling.specification import FitSpecification

POLICY = Policy()
FEW = f", fewer than {POLICY.smallest_samples} rows"
DEFAULT = {"default": {}}
METHODS = {
    **DEFAULT,
    "FedIterHT": {"method": "FedIterHT", "sparsity": 5, "stability": 3},
    "DistributedIHT": {"method": "DistributedIHT", "sparsity": 5, "stability": 3},
    "batches of 10": {"method": "FedIterHT", "sparsity": 5, "batch_size": 10, "stability": 0},
}


class Watched(fs.LocalEngine):
    """An engine that notes what rows weigh in everything that its clients are asked."""

    def __init__(self, data, loss):
        super().__init__(data, loss)
        self.noted = defaultdict(list)

    def exchange(self, asks):
        """Answer, and note."""
        for ask in asks:
            clients = None if ask.lens.is_pooled else self.clients_through(ask.lens)
            for place in range(0 if clients is None else len(clients.data)):
                if clients.data.counts[place] >= POLICY.fewest_rows(ask.request):
                    self._note(ask.request, clients, place)
        return super().exchange(asks)

    def _note(self, request, clients, place):
        is_few = clients.data.counts[place] < POLICY.smallest_samples
        name = type(request).__name__ + (FEW if is_few else "")
        self.noted[name] += list(others_weigh(request, clients, place))


def others_weigh(request, clients, place):
    for told in weights_told(request, clients, place):
        yield min(weight_of_others(*own.T, POLICY.smallest_samples) for own in told)


def two_classes(clients, rows, width, noise, seed=0):
    random = np.random.default_rng(seed)
    truth = np.where(np.arange(width) < 5, 2.0, 0.0)
    tables = [random.standard_normal((rows, width)) for _ in range(clients)]
    return [(Z, (Z @ truth + noise * random.standard_normal(rows) > 0).astype(int)) for Z in tables]


def genes(name):
    table = read(name)
    if table is None:
        print(f"{name} is left out: FEDSPARSE_DATA has no genomics/{name}.mat")
        return None
    X, y = table
    sites = np.random.default_rng(0).integers(0, SITES, y.size)
    codes = np.unique(y, return_inverse=True)[1]
    return [(X[sites == site], codes[sites == site]) for site in range(SITES)]


def problems():
    """Clients by name, each with the ways to analyse them."""
    for name in SETS:
        clients = genes(name)
        if clients is not None:
            yield name, clients, METHODS if name == "colon" else DEFAULT
    several = genes("TOX-171")
    if several is not None:
        yield "TOX-171", several, {"τ = 5": {"sparsity": 5, "stability": 0, "held_out": "none"}}
    yield "5 × 30 rows", two_classes(5, 30, 12, 0.5), METHODS
    yield "5 × 20 rows, separable", two_classes(5, 20, 8, 0.0), METHODS
    yield "10 × 200 rows", two_classes(10, 200, 60, 1.0), DEFAULT


def engine_of(clients):
    data = fs.FederatedData.from_clients(clients)
    return Watched(data, loss_for(np.unique(data.targets).size, 1.0))


def analysed(clients, settings):
    """What others weigh, by request."""
    engine = engine_of(clients)
    names = [str(place) for place in range(engine.width)]
    labels = tuple(map(str, engine.classes))
    fs.converse(engine, analysing(engine, FitSpecification(**settings), names, labels=labels))
    engine.close()
    return engine.noted


def attacked(clients):
    """What others weigh in gradients at thresholds of a column, by how steep x is."""
    engine = engine_of(clients)
    columns = engine.clients_through(engine.lens)
    noted = {}
    for steepness in (1.0, 10.0, 100.0, 1000.0):
        x = np.zeros(engine.width)
        x[0] = steepness
        noted[f"Gradient, x = ({steepness:g}, 0, …)"] = [
            own
            for place in range(len(clients))
            for own in others_weigh(fs.Gradient(x), columns, place)
        ]
    return noted


def rows_of(what, noted):
    return [
        (
            what, name, f"{len(found):,}", f"{min(found):.1e}", f"{np.quantile(found, 0.001):.1e}",
            f"{np.median(found):.2f}",
        )
        for name, found in sorted(noted.items())
        if found
    ]  # fmt: skip


def main():
    rows = []
    for problem, clients, ways in problems():
        for way, settings in ways.items():
            rows += rows_of(f"{problem}, {way}", analysed(clients, settings))
    rows += rows_of("10 × 200 rows, attacked", attacked(two_classes(10, 200, 60, 1.0)))
    show(
        f"What rows weigh that are not among the {POLICY.smallest_samples - 1} heaviest; sites ask "
        f"for {POLICY.smallest_weight_of_others:g}, of parts that are few rows "
        f"{POLICY.least_weight_of_others(1):g}",
        ["analysis", "request", "looks", "least", "0.1 %", "median"],
        rows,
    )


if __name__ == "__main__":
    main()
