"""Small federations for tests of whole analyses: sites in this process, and the same in memory."""

import numpy as np
from scipy import sparse

import fedsparse as fs
from fedsparse.federation.server.agreement import Terms
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.flower_engine import FlowerEngine
from fedsparse.federation.sites.policy import Policy
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.fitting import loss_for
from tests.federation.grids import Nodes, answering, site_named

NAMES = ("aachen", "bari", "cork", "delft", "espoo")
KINDS = {"numbers": None, "two classes": 2, "three classes": 3}
"""What is predicted, and how many classes that has."""

ROWS, WIDTH = 30, 12
_GENEROUS = Policy(open_sums=True, smallest_samples=1, most_features_per_row=100.0)


def clients_of(kind, storage="dense", *, sites=5, rows=ROWS):
    """Rows and targets of every site; two of the columns matter."""
    random = np.random.default_rng(0)
    clients = []
    for _ in range(sites):
        Z = random.standard_normal((rows, WIDTH))
        if storage == "csr":
            Z *= random.random(Z.shape) < 0.4
            Z[0, -1] = 1.0  # the last column is somewhere, so that the width is known
        score = Z[:, 3] - Z[:, 7] + 0.5 * random.standard_normal(rows)
        cuts = {"two classes": [0.0], "three classes": [-0.7, 0.7]}.get(kind)
        targets = score if cuts is None else np.digitize(score, cuts).astype(float)
        clients.append((sparse.csr_array(Z) if storage == "csr" else Z, targets))
    return clients


def sites_of(clients, names=NAMES):
    """A site for each client, by name."""
    return {
        name: site_named(name, *own, policy=_GENEROUS)
        for name, own in zip(names, clients, strict=False)
    }


class Counted(Nodes):
    """Nodes that keep every message they were sent, by node."""

    def __init__(self, nodes):
        super().__init__({node: self._keeping(node, reply) for node, reply in nodes.items()})
        self.sent = {node: [] for node in nodes}

    def _keeping(self, node, reply):
        def kept(payload):
            self.sent[node].append(payload)
            return reply(payload)

        return kept


def grid_of(sites, **others):
    """A grid of sites; ``others`` replace what some of them reply with."""
    replies = {name: answering(site) for name, site in sites.items()} | others
    return Counted(dict(enumerate(replies.values(), start=1)))


def engine_on(grid, kind, minimum_rows=2, **conduct):
    task = "regression" if KINDS[kind] is None else "classification"
    usual = {"sites": len(grid.nodes), "round_seconds": 30.0, "longest_wait": 60.0}
    return FlowerEngine(
        grid, Terms(task=task, minimum_rows=minimum_rows), Conduct(**usual | conduct)
    )


def analysed(engine, specification):
    """The analysis of an engine's rows."""
    names = [str(place) for place in range(engine.width)]
    labels = None if engine.classes is None else tuple(map(str, engine.classes))
    return fs.converse(engine, analysing(engine, specification, names, labels=labels))


def analysed_in_memory(clients, kind, specification):
    """The analysis of the same rows in one process, of what sites are asked by default."""
    named = {
        name: (Z, y if KINDS[kind] is None else y.astype(int))
        for name, (Z, y) in zip(NAMES, clients, strict=False)
    }
    data = fs.FederatedData.from_clients(named)
    engine = fs.LocalEngine(data, loss_for(KINDS[kind], 1.0))
    try:
        return analysed(engine, specification.model_copy(update={"dense": "no"}))
    finally:
        engine.close()


def assert_same_analysis(found, expected):
    """Bit for bit, but for what only rows in one place can tell."""
    assert found.fitted.coefficients.tobytes() == expected.fitted.coefficients.tobytes()
    assert found.fitted.intercept.tobytes() == expected.fitted.intercept.tobytes()
    assert found.sparsity == expected.sparsity
    assert found.selection == expected.selection
    assert found.stability == expected.stability
    assert judged(found.evaluation) == judged(expected.evaluation)
    assert found.notes == expected.notes
    assert sure_of(found) == sure_of(expected)
    assert estimated_at_sites(found) == estimated_at_sites(expected)


def sure_of(found):
    """How sure each coefficient is, as the model's file tells it."""
    if found.sure is None:
        return None
    features = np.flatnonzero(found.fitted.coefficients)
    told = [found.sure.certainty(place, 1.0, has_ratio=False) for place in features]
    return told, found.sure.how_sure(None)


def estimated_at_sites(found):
    own = found.estimates_at_sites
    return None if own is None else (own.names, own.values.tobytes(), own.errors.tobytes())


def judged(evaluation):
    """Scores by method and site and the confusion of classes, without those of pooled rows.

    Curves are left out, too: a site that answers openly joins bins of few rows. And exchanges:
    pooled rows may take one more than all others.
    """
    if evaluation is None:
        return None
    left = evaluation.model_dump()
    del left["curves"], left["rounds"]
    left["scores"] = [own for own in left["scores"] if own["method"] != "pooled"]
    return left
