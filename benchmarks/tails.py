"""How many rounds FedSplice takes until it ends, and what the last of them are worth.

Labels on columns that correlate with their neighbours by 0.9, and rows like text.
"""

from collections.abc import Callable, Iterator

from benchmarks.best_known import solve
from benchmarks.correlated import problem_of
from benchmarks.options import Options, read_options
from benchmarks.rounds.cases import text_problem
from benchmarks.rounds.progress import LiveTable, tell
from fedsparse.research.experiments import Problem

MOST = 20
CLOSE = 1.0 + 1e-3

COLUMNS = [
    "problem", "rounds", f"over {MOST}", "met", "MB up", "f at the end", f"f in {MOST}", "ratio",
    "rounds to 0.1 %",
]  # fmt: skip
WIDTHS = (66, 8, 10, 6, 12, 14, 12, 11, 17)


def small(seed: int) -> Problem:
    return problem_of("AR", "logistic", seed)


def large(seed: int) -> Problem:
    return problem_of("AR", "logistic", seed, rows=2_000, sparsity=50)


def text(seed: int) -> Problem:
    return text_problem(seed)[0]


PARTS: dict[str, Callable[[int], Problem]] = {"small": small, "large": large, "text": text}


def cells(problem: Problem, seed: int, options: Options) -> list[str]:
    """Rounds until it ends, and how f at the end compares with f after the rounds it may take."""
    tell(problem.title)
    long = solve(problem, options.splice(problem.sparsity))
    short = solve(problem, options.splice(problem.sparsity), MOST)
    rounds, up = long.records[-1].round, long.records[-1].bytes_up
    close = next(own.round for own in long.records if own.objective <= CLOSE * long.objective)
    tell(" ".join(f"{own.objective:.6g}" for own in long.records))
    title = problem.title if "seed" in problem.title else f"{problem.title}, seed {seed}"
    return [
        title, f"{rounds}", f"{rounds / MOST:.2f}", "yes" if rounds <= MOST else "NO",
        f"{up / 1e6:,.1f}", f"{long.objective:.6g}", f"{short.objective:.6g}",
        f"{short.objective / long.objective:.5f}", f"{close}",
    ]  # fmt: skip


def rows_of(part: str, options: Options) -> Iterator[list[str]]:
    seeds = options.seeds if part != "text" else options.seeds[:1]
    for seed in seeds:
        yield cells(PARTS[part](seed), seed, options)


def main(*arguments: str) -> None:
    options = read_options("tails", arguments, (0, 1, 2, 3), tuple(PARTS))
    table = LiveTable(f"{options.label} until it ends; target: {MOST} rounds", COLUMNS, WIDTHS)
    for part in options.only:
        for row in rows_of(part, options):
            table.add(row)
