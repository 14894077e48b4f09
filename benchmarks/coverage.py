"""What intervals of chosen features hold: as if chosen beforehand, and valid after the choice.

``python -m benchmarks coverage [--problems 500] [--pairs 10] [--seed 0]`` draws that many small
problems in all: three losses, independent columns and columns of which neighbours correlate by 0.7
(AR 1). Each has four sites, 30 columns, four effects of which some are weak, and a model of five.
Coverage is the share of the model's features whose interval holds the true coefficient, 0 for
those without an effect. A familywise error is a problem in which any feature without an effect has
a p-value below 0.05.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import fedsparse as fs
from benchmarks.tables import show
from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.modelling.beside_a_model import found_beside
from fedsparse.modelling.certainty import LEVEL
from fedsparse.modelling.fitting import FitOptions, fit_model, loss_for, prepare

WIDTH, EFFECTS, SPARSITY, SITES = 30, 4, 5, 4
ROWS = {"squared": 120, "logistic": 320, "cox": 240}
STRENGTH = {"squared": 0.5, "logistic": 0.9, "cox": 0.6}
TASKS = {"squared": "regression", "logistic": "classification", "cox": "survival"}
DESIGNS = {"independent": 0.0, "AR 0.7": 0.7}
CENSORED_AFTER = 2.0


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of four sites, and the coefficients that made them."""

    rows: FloatArray
    targets: AnyArray
    truth: FloatArray


@dataclass(frozen=True, eq=False)
class Judged:
    """One kind of interval on one problem.

    Attributes
    ----------
    held
        Share of the model's features whose interval holds the truth; NaN if there were none.
    is_wrong
        Whether a feature without an effect was called one.
    found
        Share of the effects that were called one.
    width
        Median of the intervals; infinite if half of them have no bounds.
    """

    held: float
    is_wrong: bool
    found: float
    width: float


def draw(loss: str, correlation: float, seed: int) -> Problem:
    random = np.random.default_rng(seed)
    rows = random.standard_normal((ROWS[loss], WIDTH))
    for place in range(1, WIDTH):
        own = np.sqrt(1.0 - correlation**2) * rows[:, place]
        rows[:, place] = correlation * rows[:, place - 1] + own
    truth = np.zeros(WIDTH)
    effects = random.choice(WIDTH, EFFECTS, replace=False)
    sizes = STRENGTH[loss] * random.uniform(0.5, 1.5, EFFECTS)
    truth[effects] = sizes * random.choice([-1, 1], EFFECTS)
    return Problem(rows, _targets(loss, rows @ truth, random), truth)


def _targets(loss: str, scores: FloatArray, random: np.random.Generator) -> AnyArray:
    if loss == "squared":
        return scores + random.standard_normal(scores.size)
    if loss == "logistic":
        return (random.random(scores.size) < 1.0 / (1.0 + np.exp(-scores))).astype(int)
    times = random.exponential(np.exp(-scores))
    ends = random.exponential(CENSORED_AFTER, scores.size)
    return np.where(times <= ends, times, -ends)


def judge(loss: str, problem: Problem, pairs: int, seed: int) -> tuple[Judged, Judged]:
    """Intervals as if features were chosen beforehand, and valid after the choice."""
    own = loss_for(2 if loss == "logistic" else None, 1.0, task=TASKS[loss])
    sites = np.arange(len(problem.rows)) % SITES
    data = fs.FederatedData.from_table(problem.rows, problem.targets, sites)
    engine = fs.LocalEngine(data, own, 1)
    options = FitOptions(own, auto_rows=1.0, seed=seed, intercept=own.has_intercept)

    def found():
        prepared = yield from prepare(engine, options)
        model = yield from fit_model(prepared, SPARSITY, options)
        names = [str(place) for place in range(WIDTH)]
        return (
            yield from found_beside(
                engine,
                options,
                model,
                pairs=pairs,
                sparsity=SPARSITY,
                names=names,
                with_intervals=True,
            )
        )

    _, sure = fs.converse(engine, found())
    engine.close()
    chosen = sure.refitted.support
    plain = np.ones(WIDTH)
    if sure.refitted.plain is not None:
        plain[chosen] = np.nan_to_num(sure.refitted.plain.p_values, nan=1.0)
    naive, valid = sure.refitted_vectors(WIDTH)[1], sure.split_vectors(WIDTH)[1]
    naive = np.where(np.isnan(naive), [-np.inf, np.inf], naive)
    return (
        _judged(problem.truth, chosen, naive, plain),
        _judged(problem.truth, chosen, valid, sure.splits.p_values),
    )


def _judged(truth: FloatArray, chosen: AnyArray, ends: FloatArray, p_values: FloatArray) -> Judged:
    low, high = ends[chosen].T
    is_called = p_values < 1.0 - LEVEL
    return Judged(
        float(np.mean((low <= truth[chosen]) & (truth[chosen] <= high))),
        bool((is_called & (truth == 0)).any()),
        float(is_called[truth != 0].mean()),
        float(np.median(high - low)),
    )


def cells(problems: int, pairs: int, seed: int) -> Iterator[list[str]]:
    """Two lines of the table for every loss and design, and for all together."""
    each = -(-problems // (len(ROWS) * len(DESIGNS)))
    every: list[tuple[Judged, Judged]] = []
    for loss in ROWS:
        for design, correlation in DESIGNS.items():
            began = time.perf_counter()
            found = []
            for number in range(each):
                problem = draw(loss, correlation, seed + number)
                found.append(judge(loss, problem, pairs, seed + number))
            every += found
            took = (time.perf_counter() - began) / each
            print(f"{loss}, {design}: {each} problems, {took:.1f} s each", flush=True)
            yield from _told(f"{loss}, {design}", found)
    yield from _told("all", every)


def _told(name: str, found: list[tuple[Judged, Judged]]) -> Iterator[list[str]]:
    for kind, own in zip(("beforehand", "after"), zip(*found, strict=True), strict=True):
        yield [
            name if kind == "beforehand" else "",
            str(len(found)) if kind == "beforehand" else "",
            kind,
            f"{np.mean([each.held for each in own]):.1%}",
            f"{np.mean([each.is_wrong for each in own]):.1%}",
            f"{np.mean([each.found for each in own]):.0%}",
            f"{np.median([each.width for each in own]):.2f}",
        ]


def main(*arguments: str) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks coverage")
    parser.add_argument("--problems", type=int, default=500, help="in all")
    parser.add_argument("--pairs", type=int, default=10, help="of half-samples")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    rows = list(cells(asked.problems, asked.pairs, asked.seed))
    show(
        f"{LEVEL:.0%} intervals, as if chosen beforehand and after the choice "
        f"({2 * asked.pairs} splits)",
        ["problem", "number", "intervals", "covered", "familywise", "found", "width"],
        rows,
    )


if __name__ == "__main__":
    main()
