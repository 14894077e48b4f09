"""FedSplice with several classes: rounds, f and accuracy beside first-order methods and ℓ1.

Parts, each of which can be run by itself with ``--only``:

- ``digits``: scikit-learn's digits at 20 sites of one digit each, ten pixels a class;
- ``accuracy``: 1,200 of those rows to learn five pixels a class from, the others to judge by;
- ``mnist``, ``mnist-paper``: MNIST as in the paper's experiment, beside adaptive steps and beside
  the paper's methods;
- ``tox``: a gene-expression set of four classes at five sites, genes that all classes share.

The last ones need their sets in the folder that FEDSPARSE_DATA names.
"""

import warnings
from collections.abc import Callable, Iterator

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import l1_min_c

import fedsparse as fs
from benchmarks.best_known import restarted, solve
from benchmarks.genes import REPEATS, SITES, read
from benchmarks.options import Options, read_options
from benchmarks.rounds import methods
from benchmarks.rounds.methods import ROUNDS, Entry
from benchmarks.rounds.progress import tell
from benchmarks.targets import Row, show_rows
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.research.experiments import Problem, load_experiment

PIXELS, FEW_PIXELS = 10, 5
FEW_ROUNDS = 20
LEARNT, UNSEEN_L2 = 1_200, 1e-3
RESTARTS = 5

MNIST_GOAL = 0.3550
MNIST_ROUNDS = 12
"""A round takes minutes of computing: Hessians on all pixels for ten classes."""

TOX = "TOX-171"
GENES = {46: 0.88, 24: 0.83}
"""The least accuracy by the number of genes."""

FOLDS = 5
STRENGTHS = np.logspace(0.02, 3, 50)


def digits(seed: int) -> tuple[FloatArray, Int64Array, Int64Array]:
    """Rows, digits, and sites: each digit's rows are shared out by two."""
    features, labels = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    return features / 16.0, labels, 2 * labels + random.integers(0, 2, labels.size)


def digits_problem(seed: int) -> Problem:
    data = fs.FederatedData.from_table(*digits(seed))
    return Problem("digits", data, fs.Softmax(l2=1e-4), PIXELS)


def adaptive(problem: Problem) -> list[Entry]:
    """Fed-HT and FedIter-HT with steps that nobody tunes."""
    return [own for own in methods.without_tuning(problem) if own.label.endswith("adaptive")]


def rounds_to(result: fs.Result, goal: float) -> int | None:
    """The first round at the goal."""
    return next((own.round for own in result.records if own.objective <= goal), None)


def baseline(name: str, problem: Problem) -> tuple[str, float]:
    """The better of Distributed-IHT with the best γ of the grid and with γ = 1/l: label and f."""
    ends = [
        (entry.label, methods.run(entry, problem)) for entry in methods.baselines(name, problem)
    ]
    label, result = min(ends, key=lambda end: (end[1].diverged, end[1].objective))
    return label, result.objective


def digits_rows(options: Options) -> Iterator[Row]:
    for seed in options.seeds:
        tell(f"digits, seed {seed}")
        yield from rows_on_digits(digits_problem(seed), seed, options)


def rows_on_digits(problem: Problem, seed: int, options: Options) -> Iterator[Row]:
    label, goal = baseline("digits", problem)
    long = solve(problem, options.splice(PIXELS))
    early = solve(problem, options.splice(PIXELS), FEW_ROUNDS).objective
    all_pixels = problem.data.width
    wide = solve(problem, options.splice(PIXELS, candidates=all_pixels))
    best = min(long, wide, key=lambda result: result.objective)
    best = restarted(problem, options, best, RESTARTS, seed, candidates=all_pixels)
    begin = f"digits, seed {seed}: "
    yield Row(
        f"{begin}rounds to f ≤ {goal:.4g}, {ROUNDS} of {label}", rounds_to(long, goal), ROUNDS, 3
    )
    for entry in adaptive(problem):
        theirs = methods.run(entry, problem).objective
        yield Row(f"{begin}f in {FEW_ROUNDS}, {ROUNDS} of {entry.label}", early, theirs, 0.16)
    yield Row(f"{begin}f in {FEW_ROUNDS}, best known", early, best.objective)
    end = long.records[-1].round
    yield Row(f"{begin}f at its end in {end}, best known", long.objective, best.objective)


def accuracy_rows(options: Options) -> Iterator[Row]:
    for seed in options.seeds:
        tell(f"accuracy on digits, seed {seed}")
        yield from rows_on_unseen(seed, options)


def rows_on_unseen(seed: int, options: Options) -> Iterator[Row]:
    features, labels, sites = digits(seed)
    order = np.random.default_rng(seed).permutation(labels.size)
    learnt, unseen = order[:LEARNT], order[LEARNT:]
    data = fs.FederatedData.from_table(features[learnt], labels[learnt], sites[learnt])
    problem = Problem("digits", data, fs.Softmax(l2=UNSEEN_L2), FEW_PIXELS)

    def correct(x: FloatArray) -> float:
        return float(np.mean((features[unseen] @ x).argmax(axis=1) == labels[unseen]))

    ours = correct(solve(problem, options.splice(FEW_PIXELS)).coef)
    begin = f"digits unseen, {FEW_PIXELS} pixels a class, seed {seed}: accuracy, "
    for entry in adaptive(problem):
        theirs = correct(methods.run(entry, problem).coef)
        yield Row(begin + entry.label, ours, theirs, least=0.88)
    everything = LogisticRegression(C=1.0 / (LEARNT * UNSEEN_L2), fit_intercept=False)
    everything.set_params(max_iter=1000).fit(features[learnt], labels[learnt])
    yield Row(f"{begin}all 64 pixels", ours, correct(everything.coef_.T))


def mnist_rows(options: Options) -> Iterator[Row]:
    """The goal, and methods that need no tuning."""
    problem = load_experiment("mnist").problem(0)
    entries = [*methods.baselines("mnist", problem), *adaptive(problem)]
    yield from rows_on_mnist(problem, entries, options)


def paper_on_mnist_rows(options: Options) -> Iterator[Row]:
    """The paper's methods with their best K and γ."""
    problem = load_experiment("mnist").problem(0)
    yield from rows_on_mnist(problem, methods.of_the_paper("mnist", problem), options)


def rows_on_mnist(problem: Problem, entries: list[Entry], options: Options) -> Iterator[Row]:
    """Seed 0 of the paper's experiment; FedSplice gets few rounds, as each takes long."""
    tell("MNIST: FedSplice")
    ours = solve(problem, options.splice(problem.sparsity), MNIST_ROUNDS)
    last = ours.records[-1]
    tell(" ".join(f"{own.objective:.5g}" for own in ours.records))
    tell(f"{last.seconds:.0f} s, {last.bytes_up / 1e6:,.0f} MB up")
    yield Row(f"MNIST: rounds to f ≤ {MNIST_GOAL}", rounds_to(ours, MNIST_GOAL), ROUNDS, 5)
    for entry in entries:
        tell(f"MNIST: {entry.label}")
        f = methods.run(entry, problem).objective
        yield Row(f"MNIST: rounds to f = {f:.4g}, {entry.label}", rounds_to(ours, f), ROUNDS)
        yield Row(f"MNIST: f in {last.round}, {ROUNDS} of {entry.label}", ours.objective, f)


def tox_rows(options: Options) -> Iterator[Row]:
    table = read(TOX)
    if table is None:
        print(f"tox is left out: FEDSPARSE_DATA has no genomics/{TOX}.mat")
        return
    for genes, least in GENES.items():
        ours, theirs, used = cross_validated(*table, genes, options)
        what = (
            f"{TOX}, {REPEATS} × {FOLDS} folds, {genes} genes: accuracy, ℓ1 ({used:.1f}) refitted"
        )
        yield Row(what, ours, theirs, least=least)


def cross_validated(
    X: FloatArray, y: Int64Array, genes: int, options: Options
) -> tuple[float, float, float]:
    """Accuracy of FedSplice at five sites, of pooled ℓ1 with refit, and genes of the latter."""
    ours, theirs, used = [], [], []
    for repeat in range(REPEATS):
        tell(f"{TOX}: {genes} genes, repetition {repeat + 1} of {REPEATS}")
        sites = np.random.default_rng(repeat).integers(0, SITES, y.size)
        for train, unseen in StratifiedKFold(FOLDS, shuffle=True, random_state=repeat).split(X, y):
            algorithm = options.splice(fs.TopKRows(genes), weights="samples")
            model = fs.FedSparseClassifier(sparsity=genes, algorithm=algorithm)
            model.fit(X[train], y[train], sites=sites[train])
            ours.extend(model.predict(X[unseen]) == y[unseen])
            predicted, count = refitted_l1(X[train], y[train], X[unseen], genes)
            theirs.extend(predicted == y[unseen])
            used.append(count)
    return float(np.mean(ours)), float(np.mean(theirs)), float(np.mean(used))


def refitted_l1(
    X: FloatArray, y: Int64Array, unseen: FloatArray, genes: int
) -> tuple[Int64Array, int]:
    """The least penalized ℓ1 models, one class against the others, that share so few genes.

    Then softmax regression on these genes, with the ℓ2 term that FedSplice has.
    """
    scaler = StandardScaler().fit(X)
    X, unseen = scaler.transform(X), scaler.transform(unseen)
    chosen = np.zeros(0, dtype=np.int64)
    for strength in l1_min_c(X, y, loss="log") * STRENGTHS:
        one = LogisticRegression(
            l1_ratio=1.0, C=strength, solver="liblinear", intercept_scaling=10, random_state=0
        )
        models = OneVsRestClassifier(one).fit(X, y).estimators_
        found = np.flatnonzero(np.any([model.coef_[0] != 0 for model in models], axis=0))
        if found.size > genes:
            break
        chosen = found
    refit = LogisticRegression(C=1.0 / 8.0, max_iter=5_000).fit(X[:, chosen], y)
    return refit.predict(unseen[:, chosen]), chosen.size


PARTS: dict[str, Callable[[Options], Iterator[Row]]] = {
    "digits": digits_rows,
    "accuracy": accuracy_rows,
    "mnist": mnist_rows,
    "mnist-paper": paper_on_mnist_rows,
    "tox": tox_rows,
}


def main(*arguments: str) -> None:
    options = read_options("classes", arguments, (0, 1, 2), tuple(PARTS))
    warnings.simplefilter("ignore", fs.DivergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    for name in options.only:
        show_rows(f"{options.label}, several classes: {name}", PARTS[name](options))
