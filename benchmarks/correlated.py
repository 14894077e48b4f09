"""How far from the best known f FedSplice ends where columns correlate strongly.

500 rows of 1,000 columns, dealt to five sites, τ = 20. Columns come in blocks of ten of which each
two correlate by 0.95, or each correlates with the next one by 0.9. The best known f is the lowest
of FedSplice with many candidates, of restarts of it, and of abess (the extra ``bench``). FedSplice
is told nothing, and then to restart.
"""

from collections.abc import Callable, Iterator

import numpy as np
from scipy.special import expit

import fedsparse as fs
from benchmarks.best_known import by_others, restarted, solve
from benchmarks.options import Options, read_options
from benchmarks.rounds.progress import tell
from benchmarks.targets import Row, show_rows
from fedsparse.arrays import FloatArray
from fedsparse.problem.losses import Loss
from fedsparse.research.data.partition import iid
from fedsparse.research.experiments import Problem

ROWS, WIDTH, SPARSITY, SITES = 500, 1_000, 20, 5
BLOCK, WITHIN_BLOCK, NEIGHBOURS = 10, 0.95, 0.9
NOISE = 0.5
"""Beside scores of spread 1."""

STEEPNESS = 3.0
"""The spread of scores that labels are drawn with."""

MANY, RESTARTS, OWN_RESTARTS = 500, 20, 10
LIMIT = 60.0
MOST = 1.005

ABESS = (
    "abess",
    "abess, warm-started path",
    "abess, 100 exchanges, halved",
    "abess, 100 exchanges, one by one",
)


def blocks(random: np.random.Generator, rows: int, width: int) -> FloatArray:
    """Columns of a block share most of what they are."""
    shared = np.repeat(random.standard_normal((rows, width // BLOCK)), BLOCK, axis=1)
    own = random.standard_normal((rows, width))
    return np.sqrt(WITHIN_BLOCK) * shared + np.sqrt(1.0 - WITHIN_BLOCK) * own


def autoregressive(
    random: np.random.Generator, rows: int, width: int, correlation: float = NEIGHBOURS
) -> FloatArray:
    """Columns of which each correlates with the next one."""
    columns = random.standard_normal((rows, width))
    for column in range(1, width):
        columns[:, column] *= np.sqrt(1.0 - correlation**2)
        columns[:, column] += correlation * columns[:, column - 1]
    return columns


def targets(
    random: np.random.Generator, features: FloatArray, relevant: int, loss: Loss
) -> FloatArray:
    """Numbers or labels that depend on some columns drawn at random."""
    coefficients = np.zeros(features.shape[1])
    chosen = random.choice(coefficients.size, relevant, replace=False)
    coefficients[chosen] = random.choice([-1.0, 1.0], relevant) * random.uniform(0.5, 2.0, relevant)
    scores = features @ coefficients
    scores /= scores.std()
    if isinstance(loss, fs.SquaredError):
        return np.asarray(scores + NOISE * random.standard_normal(scores.size))
    return (random.random(scores.size) < expit(STEEPNESS * scores)).astype(np.float64)


DESIGNS: dict[str, Callable[..., FloatArray]] = {"blocks": blocks, "AR": autoregressive}
LOSSES: dict[str, Loss] = {"squared": fs.SquaredError(), "logistic": fs.Logistic()}


def problem_of(
    design: str,
    kind: str,
    seed: int,
    *,
    rows: int = ROWS,
    width: int = WIDTH,
    sparsity: int = SPARSITY,
) -> Problem:
    """Rows dealt to the sites at random."""
    random = np.random.default_rng(seed)
    features, loss = DESIGNS[design](random, rows, width), LOSSES[kind]
    owners = iid(rows, clients=SITES, seed=seed)
    data = fs.FederatedData.from_table(features, targets(random, features, sparsity, loss), owners)
    title = f"{design}, {kind}, {rows:,} × {width:,}, τ = {sparsity}, seed {seed}"
    return Problem(title, data, loss, sparsity)


def compared(problem: Problem, options: Options, seed: int) -> Iterator[Row]:
    """FedSplice's f over the best known one, and who found that; then with restarts of its own."""
    tell(problem.title)
    ours = solve(problem, options.splice(problem.sparsity))
    own = solve(problem, options.splice(problem.sparsity, restarts=OWN_RESTARTS))
    wide = solve(problem, options.splice(problem.sparsity, candidates=MANY))
    best = min(ours, wide, key=lambda result: result.objective)
    again = restarted(problem, options, best, RESTARTS, seed, candidates=MANY)
    known = {
        "FedSplice": ours.objective,
        f"restarts={OWN_RESTARTS}": own.objective,
        f"{MANY} candidates": wide.objective,
        "restarts": again.objective,
        **dict(by_others(problem, ABESS, LIMIT)),
    }
    tell(", ".join(f"{name}: {value:.6g}" for name, value in known.items()))
    who = min(known, key=known.__getitem__)
    for told, result in (("", ours), (f"restarts={OWN_RESTARTS}, ", own)):
        rounds = result.records[-1].round
        yield Row(
            f"{problem.title}: {told}f in {rounds} rounds, best known ({who})",
            result.objective, known[who], most=MOST, of_ratio=True,
        )  # fmt: skip


def rows_of(design: str, kind: str, options: Options) -> Iterator[Row]:
    for seed in options.seeds:
        yield from compared(problem_of(design, kind, seed), options, seed)


def main(*arguments: str) -> None:
    parts = [f"{design}-{kind}" for design in DESIGNS for kind in LOSSES]
    options = read_options("correlated", arguments, (0, 1, 2, 3), parts)
    rows = (row for part in options.only for row in rows_of(*part.split("-"), options))
    show_rows(f"{options.label}, columns that correlate strongly", rows)
