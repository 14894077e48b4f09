"""Processor seconds of a pooled fit at a given τ, FedSplice beside abess, each on one thread.

Each fit runs in a process of its own (see `benchmarks.pooled_child`) on rows that are in memory;
seconds are user and system ones, the checking of rows included on both sides. Both supports are
refitted exactly and judged by the same f. FedSplice mostly goes on to a lower f than abess's, so
that it is timed twice: until it ends by itself, and with as many rounds as it needs to come as low
as abess. abess is in the extra ``bench``.

With ``--profile FOLDER``, a file for each problem says where FedSplice spends its time.
"""

import tempfile
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
from scipy import sparse

import fedsparse as fs
from benchmarks.correlated import autoregressive, targets
from benchmarks.options import Options, read_options
from benchmarks.pooled_child import FEDSPLICE, Fitted, fit_alone
from benchmarks.rounds.objective import PooledObjective
from benchmarks.rounds.progress import LiveTable, tell
from fedsparse.arrays import FloatArray
from fedsparse.problem.losses import Loss

SPARSITY = 20
NEIGHBOURS = 0.5
"""The correlation of neighbouring columns."""

DENSE = {"10⁴ × 10³": (10_000, 1_000), "10³ × 10⁴": (1_000, 10_000), "10⁵ × 200": (100_000, 200)}
SPARSE = {"CSR 10⁴ × 2,000": (10_000, 2_000)}
STORED = 0.01
"""The share of numbers that sparse rows store."""

SHORT = {"abess": "abess", "abess, warm-started path": "path"}
LIMIT = 100.0
MOST = 1.0
EQUAL = 1.0 + 1e-6
"""An f that is so many times another one at most is no worse."""

COLUMNS = [
    "problem; beside FedSplice", "FedSplice [s]", "checking", "rounds", "its f",
    "the other [s]", "its f", "ratio of f", "ratio of s", "to its f [s]", "ratio of s", "≤ 1",
]  # fmt: skip
WIDTHS = (46, 14, 11, 8, 12, 14, 12, 12, 12, 14, 12, 6)


def dense(random: np.random.Generator, rows: int, width: int) -> FloatArray:
    return autoregressive(random, rows, width, NEIGHBOURS)


def sparse_normal(random: np.random.Generator, rows: int, width: int) -> sparse.csr_array:
    """A few normal numbers at random places."""
    matrix = sparse.random_array(
        (rows, width), density=STORED, format="csr", rng=random,
        data_sampler=lambda size: random.standard_normal(size),
    )  # fmt: skip
    matrix.indices, matrix.indptr = (
        own.astype(np.int32) for own in (matrix.indices, matrix.indptr)
    )
    return sparse.csr_array(matrix)


MAKERS: dict[str, tuple[Callable[..., object], tuple[int, int]]] = {
    **{name: (dense, shape) for name, shape in DENSE.items()},
    **{name: (sparse_normal, shape) for name, shape in SPARSE.items()},
}
LOSSES: dict[str, Loss] = {"squared": fs.SquaredError(), "logistic": fs.Logistic()}


def objective_of(name: str, kind: str, seed: int) -> PooledObjective:
    """f of all rows at a single client."""
    make, shape = MAKERS[name]
    random, loss = np.random.default_rng(seed), LOSSES[kind]
    features = make(random, *shape)
    data = fs.FederatedData.from_clients([(features, targets(random, features, SPARSITY, loss))])
    return PooledObjective.of(data, loss)


def compared(
    title: str, objective: PooledObjective, options: Options, profile: Path | None
) -> Iterator[list[str]]:
    """A row for each way to ask abess."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        objective.save(folder)
        tell(f"{title}: {options.label}")
        ours = fit_alone(FEDSPLICE, folder, SPARSITY, LIMIT, dict(options.splicing))
        if profile is not None:
            fit_alone(FEDSPLICE, folder, SPARSITY, LIMIT, dict(options.splicing), profile)
        for other in SHORT:
            tell(f"{title}: {other}")
            theirs = fit_alone(other, folder, SPARSITY, LIMIT)
            named = f"{title}; {SHORT[other]}"
            if isinstance(ours, str) or isinstance(theirs, str):
                yield [named, f"FedSplice {ours}, {other} {theirs}"]
                continue
            goal = EQUAL * _judged(objective, theirs)
            rounds, sooner = ours.rounds_to(goal), None
            if rounds is not None:
                told = dict(options.splicing)
                sooner = fit_alone(FEDSPLICE, folder, SPARSITY, LIMIT, told, rounds=rounds)
            yield [named, *_cells(objective, ours, theirs, sooner)]


def _cells(
    objective: PooledObjective, ours: Fitted, theirs: Fitted, sooner: Fitted | str | None
) -> list[str]:
    own, other = _judged(objective, ours), _judged(objective, theirs)
    cells = [
        f"{ours.seconds:.3f}", f"{ours.checking:.3f}", f"{len(ours.objectives) - 1}", f"{own:.6g}",
        f"{theirs.seconds:.3f}", f"{other:.6g}", f"{own / other:.5f}",
        f"{ours.seconds / theirs.seconds:.2f}",
    ]  # fmt: skip
    if not isinstance(sooner, Fitted):
        return [*cells, "never", "–", "NO"]
    ratio = sooner.seconds / theirs.seconds
    return [*cells, f"{sooner.seconds:.3f}", f"{ratio:.2f}", "yes" if ratio <= MOST else "NO"]


def _judged(objective: PooledObjective, fitted: Fitted) -> float:
    return objective.value(objective.refit(fitted.support))


def main(*arguments: str) -> None:
    *rest, folder = arguments if "--profile" in arguments else (*arguments, "")
    profiles = Path(folder) if folder else None
    arguments = tuple(own for own in rest if own != "--profile")
    options = read_options("pooled_speed", arguments, (0,), tuple(MAKERS))
    table = LiveTable(
        f"Processor seconds of pooled fits, τ = {SPARSITY}, one thread: {options.label}, abess",
        COLUMNS,
        WIDTHS,
    )
    for seed in options.seeds:
        for name, kind in product(options.only, LOSSES):
            title = f"{name}, {kind}, seed {seed}"
            own = profiles and profiles / f"{list(MAKERS).index(name)}-{kind}-{seed}.txt"
            for row in compared(title, objective_of(name, kind, seed), options, own):
                table.add(row)
