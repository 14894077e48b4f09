"""What is compared: problems, and who takes part on each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

import fedsparse as fs
from benchmarks.problems import sparse_rows
from benchmarks.rounds import methods
from benchmarks.rounds.methods import Entry
from benchmarks.rounds.solvers import SOLVERS
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.errors import DataError
from fedsparse.research.data.partition import iid
from fedsparse.research.experiments import NAMES, Problem, load_experiment
from fedsparse.tables.folders import DATA_VARIABLE, in_data_folder

GENES = "genomics/ALLAML.mat"
GENE_SITES, GENE_SPARSITY, GENE_L2 = 5, 20, 1e-2

SPLIT_SITES = 10
"""Sites so large that each could solve the problem by itself: what EDSL is made for."""

TEXT_ROWS, TEXT_WIDTH, TEXT_PER_ROW, TEXT_CLIENTS = 20_000, 47_000, 75, 100
TRUE_FEATURES, TRUE_AMONG, TEXT_SPARSITY = 100, 1_000, 200
"""The true features are among the most frequent columns: no method finds what is hardly seen."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem and those who are compared on it.

    Attributes
    ----------
    name, problem
        The problem under its name in tables and files.
    entries
        Federated methods. Those at the head that are Distributed-IHT set the goal.
    solvers
        Names of pooled solvers.
    truth
        The features the targets were drawn with, where they are known.
    note
        What the reader should know of who is missing.
    """

    name: str
    problem: Problem
    entries: Sequence[Entry]
    solvers: Sequence[str] = ()
    truth: Int64Array | None = None
    note: str | None = None

    def only(self, words: Sequence[str]) -> "Case":
        """With those alone whose label has one of some words in it, and those that set the goal."""
        kept = [
            entry
            for entry in self.entries
            if entry.label.startswith(methods.BASELINE)
            or any(word.lower() in entry.label.lower() for word in words)
        ]
        return replace(self, entries=kept, solvers=())


def full_case(name: str, problem: Problem) -> Case:
    """Everyone who can take part."""
    entries = [
        *methods.of_the_paper(name, problem),
        *methods.without_tuning(problem),
        *methods.second_order(problem),
        *methods.pursuits(problem),
        *methods.corrected(problem),
    ]
    if methods.has_curvature(problem):
        return Case(name, problem, entries, tuple(SOLVERS))
    note = (
        "EDSL and refitting need a single score per row and do not apply to softmax; the pooled "
        "solvers cannot hold τ entries per class."
    )
    return Case(name, problem, entries, note=note)


def of_the_paper(name: str) -> Callable[[int], Iterator[Case]]:
    """One of the paper's experiments."""

    def cases(seed: int) -> Iterator[Case]:
        yield full_case(name, load_experiment(name).problem(seed))

    return cases


def gene_expression(seed: int) -> Iterator[Case]:
    """Two kinds of leukaemia, 72 patients of five hospitals, 7,129 genes."""
    features, labels = read_genes()
    owners = iid(labels.size, clients=GENE_SITES, seed=seed)
    data = fs.FederatedData.from_table(features, labels, owners)
    problem = Problem("ALLAML gene expression", data, fs.Logistic(l2=GENE_L2), GENE_SPARSITY)
    yield full_case("allaml", problem)


def read_genes() -> tuple[FloatArray, FloatArray]:
    """Standardized columns, and labels 0 and 1."""
    from scipy.io import loadmat

    path = in_data_folder(GENES)
    if path is None:
        raise DataError(f"{GENES} is missing; set {DATA_VARIABLE} to a folder that holds it")
    table = loadmat(path)
    features = table["X"].astype(np.float64)
    spread = features.std(axis=0)
    features = (features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return features, (table["Y"].ravel() == 2).astype(np.float64)


def synthetic_text(seed: int) -> Iterator[Case]:
    """Rows like those of RCV1, with labels drawn from a model that is known."""
    problem, truth = text_problem(seed)
    adaptive = [
        entry
        for entry in methods.without_tuning(problem)
        if entry.label in ("FedIter-HT, adaptive", "FedIter-HT, adaptive, refit")
    ]
    entries = [methods.splicing(problem), *adaptive]
    yield Case("synthetic", problem, entries, tuple(SOLVERS), truth)


def text_problem(
    seed: int, rows: int = TEXT_ROWS, width: int = TEXT_WIDTH, clients: int = TEXT_CLIENTS
) -> tuple[Problem, Int64Array]:
    """The problem, and the features its labels were drawn with."""
    random = np.random.default_rng(seed)
    features = sparse_rows(random, rows, width, TEXT_PER_ROW)
    truth = np.sort(random.choice(min(TRUE_AMONG, width), TRUE_FEATURES, replace=False))
    coefficients = np.zeros(width)
    # Entries are about 0.1: such coefficients give scores with a spread of about three.
    size = random.uniform(5.0, 15.0, TRUE_FEATURES)
    coefficients[truth] = size * random.choice([-1.0, 1.0], TRUE_FEATURES)
    labels = (random.random(rows) < expit(features @ coefficients)).astype(np.float64)
    owners = iid(rows, clients=clients, seed=seed)
    data = fs.FederatedData.from_table(features, labels, owners)
    title = f"Synthetic text, {rows:,} × {width:,}, {TRUE_FEATURES} true features"
    return Problem(title, data, fs.Logistic(), TEXT_SPARSITY), truth


def alike_and_different(seed: int) -> Iterator[Case]:
    """Simulation I on ten sites of 1,000 rows: ten of its clients each, or rows at random."""
    drawn = load_experiment("simulation-1").problem(seed)
    samples = drawn.data.samples
    by_client = np.arange(samples) * SPLIT_SITES // samples
    at_random = iid(samples, clients=SPLIT_SITES, seed=seed)
    yield split_case("ten sites, non-IID", given_to(drawn, by_client, "ten clients a site"))
    yield split_case("ten sites, IID", given_to(drawn, at_random, "rows at random"))


def split_case(name: str, problem: Problem) -> Case:
    entries = [
        *methods.baselines("simulation-1", problem),
        methods.edsl(problem, refit=True),
        methods.splicing(problem),
    ]
    return Case(name, problem, entries)


def given_to(problem: Problem, owners: Int64Array, how: str) -> Problem:
    """The same rows on other sites."""
    data = fs.FederatedData.from_table(problem.data.features, problem.data.targets, owners)
    return Problem(f"{problem.title}, {how}", data, problem.loss, problem.sparsity)


CASES: dict[str, Callable[[int], Iterator[Case]]] = {
    **{name: of_the_paper(name) for name in NAMES},
    "allaml": gene_expression,
    "synthetic": synthetic_text,
    "iid": alike_and_different,
}
