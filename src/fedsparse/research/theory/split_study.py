"""Measure what non-IID rows and local steps do to where Fed-HT and FedIter-HT end.

The same rows are dealt to clients evenly at random, or by Dirichlet(α) over ten categories as in
Hsu, Qi & Brown, Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification, 2019. Clients count by their rows, so that f is the same function whichever way rows
are dealt, and what changes is what clients do between two averages.

On *planted* rows, a linear regression whose categories are the tenths of the targets, the bias is
‖x_T − x*‖² for the x* they were made with. On *digits*, the 1,797 handwritten ones of Alpaydin &
Kaynak, 1998, nobody knows x*; there f tells how good an end is.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from fedsparse.algorithms import FedHT, FedIterHT
from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.checks import check_seed
from fedsparse.engines.run import run
from fedsparse.errors import DivergenceWarning
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss, Softmax, SquaredError
from fedsparse.research.data.partition import dirichlet, iid
from fedsparse.research.processes import in_processes
from fedsparse.research.theory.gradients import client_gradients
from fedsparse.research.theory.scaling_study import Design

CLIENTS = 10
CATEGORIES = 10
ALGORITHMS = {"Fed-HT": FedHT, "FedIter-HT": FedIterHT}
IID = "IID"
ALPHAS = {"Dirichlet(1)": 1.0, "Dirichlet(0.1)": 0.1}
SPLITS = (IID, *ALPHAS)
"""From alike to unlike clients."""

PLANTED, DIGITS = "planted", "digits"

_Line = dict[str, str | int | float | None]


@dataclass(frozen=True)
class Rows:
    """Rows before they are dealt, and how methods run on them.

    Attributes
    ----------
    features, targets, categories
        A row, a target and a category each.
    truth
        x*, where it is known.
    loss, sparsity, step_size
        f, τ and γ; the step suits a client of a single row, too.
    local_steps
        Every K that is tried.
    fewest_rounds, steps
        T is so many rounds, or as many as make so many local steps.
    """

    features: FloatArray
    targets: AnyArray
    categories: Int64Array
    truth: FloatArray | None
    loss: Loss
    sparsity: int
    step_size: float
    local_steps: tuple[int, ...]
    fewest_rounds: int
    steps: int

    def dealt(self, split: str, seed: int) -> FederatedData:
        """The clients of a split."""
        if split == IID:
            owners = iid(self.targets.size, clients=CLIENTS, seed=seed)
        else:
            owners = dirichlet(self.categories, clients=CLIENTS, alpha=ALPHAS[split], seed=seed)
        return FederatedData.from_table(self.features, self.targets, owners)


def planted_rows(seed: int, samples: int = 2000, width: int = 50) -> Rows:
    """Linear regression with a known x*; categories are tenths of the rows by their targets.

    Examples
    --------
    >>> rows = planted_rows(0, samples=40)
    >>> np.bincount(rows.categories).tolist()
    [4, 4, 4, 4, 4, 4, 4, 4, 4, 4]
    """
    data, truth = Design("linear", 1, samples, width).draw(seed)
    ranks = np.argsort(np.argsort(data.targets))
    return Rows(
        features=np.asarray(data.features),
        targets=data.targets,
        categories=ranks * CATEGORIES // samples,
        truth=truth,
        loss=SquaredError(),
        sparsity=10,
        step_size=0.01,
        local_steps=(1, 5, 20),
        fewest_rounds=60,
        steps=600,
    )


def digits_rows() -> Rows:
    """Handwritten digits of 8 × 8 pixels; categories are the digits.

    Examples
    --------
    >>> digits_rows().features.shape
    (1797, 64)
    """
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return Rows(
        features=features / 16.0,
        targets=labels,
        categories=labels.astype(np.int64),
        truth=None,
        loss=Softmax(l2=1e-4),
        sparsity=20,
        step_size=0.1,
        local_steps=(5,),
        fewest_rounds=100,
        steps=0,
    )


def measure_splits(*, seed: int = 0, quick: bool = False, processes: int = 1) -> pl.DataFrame:
    """Measure where algorithms end on all splits, for every K.

    Parameters
    ----------
    seed
        Same seed, same table.
    quick
        Fewer repetitions.
    processes
        How many at a time; the table does not depend on it.

    Returns
    -------
    polars.DataFrame
        Columns ``problem``, ``split``, ``algorithm``, ``local_steps`` K, ``repetition``,
        ``dissimilarity`` 𝓑 at x* and ``error`` ‖x_T − x*‖² (null where x* is not known), and
        ``objective`` f(x_T). What diverged is infinite.
    """
    check_seed(seed)
    splits = [
        _Split(problem, repetition, split, seed + repetition)
        for repetition in range(2 if quick else 10)
        for problem in (PLANTED, DIGITS)
        for split in SPLITS
    ]
    found = in_processes(_Split.lines, splits, processes)
    return pl.DataFrame([line for lines in found for line in lines])


@dataclass(frozen=True)
class _Split:
    """One way of dealing the rows of a problem."""

    problem: str
    repetition: int
    split: str
    seed: int

    def lines(self) -> list[_Line]:
        """Of the table: where every algorithm ends, for every K."""
        begins: _Line = {
            "problem": self.problem,
            "repetition": self.repetition,
            "split": self.split,
        }
        rows = planted_rows(self.seed) if self.problem == PLANTED else digits_rows()
        return [{**begins, **end} for end in _ends(rows, rows.dealt(self.split, self.seed))]


def _ends(rows: Rows, data: FederatedData) -> Iterator[_Line]:
    dissimilarity = None if rows.truth is None else _dissimilarity(data, rows, rows.truth)
    for name, kind in ALGORITHMS.items():
        for local_steps in rows.local_steps:
            algorithm = kind(
                rows.sparsity,
                local_steps=local_steps,
                step_size=rows.step_size,
                weights="samples",
            )
            rounds = max(rows.fewest_rounds, rows.steps // local_steps)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DivergenceWarning)  # the table tells
                result = run(
                    algorithm,
                    data,
                    loss=rows.loss,
                    rounds=rounds,
                    evaluate_every=rounds,
                    threads=1,
                )
            error = None if rows.truth is None else np.sum((result.coef - rows.truth) ** 2)
            lost = np.inf if result.diverged else 0.0
            yield {
                "algorithm": name,
                "local_steps": local_steps,
                "dissimilarity": dissimilarity,
                "error": None if error is None else float(error) + lost,
                "objective": result.objective + lost,
            }


def _dissimilarity(data: FederatedData, rows: Rows, truth: FloatArray) -> float:
    """The least 𝓑 that Assumption 2 allows at x*, with p_i = n_i/n."""
    gradients = client_gradients(data, rows.loss, truth).rows
    weights = data.counts / data.samples
    overall = weights @ gradients
    return float(np.sqrt(weights @ (gradients**2).sum(axis=1) / (overall @ overall)))


@dataclass(frozen=True)
class Ratio:
    """How many times as large a figure is, over repetitions: geometric mean, 95 % interval.

    Attributes
    ----------
    middle, low, high
        Of the ratio.
    below, count
        On how many repetitions of all the ratio is below 1.
    """

    middle: float
    low: float
    high: float
    below: int
    count: int

    def __str__(self) -> str:
        return f"{self.middle:.3g}× ({self.low:.3g} to {self.high:.3g})"


def ratio_of(
    measurements: pl.DataFrame, figure: str, above: dict[str, object], below: dict[str, object]
) -> Ratio:
    """Compare a figure between two kinds of runs, repetition by repetition.

    Parameters
    ----------
    measurements
        What `measure_splits` gave.
    figure
        ``"error"`` or ``"objective"``.
    above, below
        Columns and values that tell the runs of numerator and denominator.

    Examples
    --------
    >>> table = pl.DataFrame({"repetition": [0, 0, 1, 1], "split": ["a", "b", "a", "b"],
    ...     "error": [2.0, 1.0, 2.0, 1.0]})
    >>> str(ratio_of(table, "error", {"split": "a"}, {"split": "b"}))
    '2× (2 to 2)'
    """
    tops, bottoms = (
        measurements.filter(**constraints).sort("repetition")[figure].to_numpy()
        for constraints in (above, below)
    )
    if not np.isfinite([tops, bottoms]).all():
        return Ratio(np.inf, np.nan, np.nan, int((tops < bottoms).sum()), tops.size)
    logs = np.log(tops / bottoms)
    margin = stats.t.ppf(0.975, logs.size - 1) * logs.std(ddof=1) / np.sqrt(logs.size)
    low, middle, high = np.exp([logs.mean() - margin, logs.mean(), logs.mean() + margin])
    return Ratio(float(middle), float(low), float(high), int((logs < 0).sum()), logs.size)
