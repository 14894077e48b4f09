"""Measure whether FedIter-HT's errors scale as the paper's corollaries for M-estimators say.

On sub-Gaussian designs ‖x_T − x*‖² is to be at most of order (2Nτ + τ*) 𝓑² log d / (NB), times
σ² (Σ β_i)² for linear and 𝒦² for logistic regression. Here x* is drawn, clients get independent
rows of covariance I, FedIter-HT is run to convergence, and the error is measured while one factor
varies and the rest stands. The width varies twice: on five clients, and on a single one with as
many rows.

* *Noise* σ² is what targets are drawn with.
* *Dissimilarity* 𝓑² is measured at x*, the least that Assumption 2 allows there. It varies without
  changing f or ∇f: the same rows are dealt out anew, equally many to every client, more and more
  of them in the order in which their gradients at x* point along x*.
* *Spread* β_i and *row length* 𝒦 ≥ ‖z_ij‖ vary by making a tenth of the rows longer and the others
  shorter. The covariance remains I, as both proofs have it: rows that are longer altogether carry
  more signal, too, and have smaller errors. A mixture of N(0, aI) and N(0, mI), a < m, is
  sub-Gaussian with β² = m and nothing less, because its tails are those of N(0, mI). 𝒦 is measured.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from scipy import special, stats

from fedsparse.algorithms import FedIterHT
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count, check_not_negative, is_number
from fedsparse.engines.run import run
from fedsparse.errors import DivergenceWarning, OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Logistic, Loss, SquaredError
from fedsparse.research.processes import in_processes
from fedsparse.research.theory.gradients import client_gradients
from fedsparse.research.theory.squares import sums_of_squares

ModelName = Literal["linear", "logistic"]
Sweep = Literal[
    "rows",
    "width",
    "width, one client",
    "clients",
    "noise",
    "dissimilarity",
    "spread",
    "row length",
]

SPARSITY = 10
TRUE_SPARSITY = 5
COEFFICIENT = 1.0
LOCAL_STEPS = 5
ROUNDS = 60
LONG_SHARE = 0.1
"""The share of rows that are longer than others, where lengths differ."""

EXPECTED: dict[Sweep, float] = {
    "rows": -1.0,
    "width": 1.0,
    "width, one client": 1.0,
    "clients": 1.0,
    "noise": 1.0,
    "dissimilarity": 1.0,
    "spread": 1.0,
    "row length": 1.0,
}
"""Exponents of NB, log d, N, σ², 𝓑², (Σ β_i)² and 𝒦² in the corollaries' upper bounds, by sweep.

N enters through 2Nτ + τ*. The linear corollary also has (Σ β_i)², the square of a sum of the
clients' spreads, which would make it N³; for rows of one distribution one spread is enough.
"""

# Rows N(0, I) have l_s = 6/5 of the loss's curvature at most, by the corollaries' proofs.
_SMOOTHNESS = {"linear": 2.0 * 6 / 5, "logistic": 0.25 * 6 / 5}
_LOSSES: dict[str, Loss] = {"linear": SquaredError(), "logistic": Logistic(l2=0.0)}


@dataclass(frozen=True)
class Design:
    """A federation whose rows all come from one distribution.

    Parameters
    ----------
    model
        ``"linear"``: y = z·x* + N(0, σ²). ``"logistic"``: y is 1 with the odds e^{z·x*}.
    clients, samples, width
        N, B and d.
    noise
        σ.
    stretch
        m: a tenth of the rows is N(0, mI), the others so much shorter that the covariance is I.
    ordered
        The share of rows dealt out in the order in which their gradients at x* point along x*.

    Examples
    --------
    >>> data, truth = Design("linear", clients=2, samples=3, width=8).draw(seed=0)
    >>> data, int(np.count_nonzero(truth))
    (FederatedData(2 clients, 6 rows, 8 features, dense float64), 5)
    """

    model: ModelName
    clients: int
    samples: int
    width: int
    noise: float = 1.0
    stretch: float = 1.0
    ordered: float = 0.0

    def __post_init__(self) -> None:
        if self.model not in _LOSSES:
            raise OptionError(f"unknown model {self.model!r}; use one of {', '.join(_LOSSES)}")
        for name in ("clients", "samples", "width"):
            check_count(name, getattr(self, name))
        if self.width < TRUE_SPARSITY:
            raise OptionError(f"width must be at least {TRUE_SPARSITY}, not {self.width}")
        check_not_negative("noise", self.noise)
        if not is_number(self.stretch) or not 1 <= self.stretch < 1 / LONG_SHARE:
            raise OptionError(
                f"stretch must be a number from 1 to below {1 / LONG_SHARE:g}, so that the other "
                f"rows can make up for it, not {self.stretch!r}"
            )
        if not is_number(self.ordered) or not 0 <= self.ordered <= 1:
            raise OptionError(f"ordered must be a share from 0 to 1, not {self.ordered!r}")

    def draw(self, seed: int | np.random.SeedSequence) -> tuple[FederatedData, FloatArray]:
        """The clients' data and x*, whose non-zeros are ±1."""
        random = np.random.default_rng(seed)
        truth = np.zeros(self.width)
        places = random.choice(self.width, TRUE_SPARSITY, replace=False)
        truth[places] = COEFFICIENT * random.choice([-1.0, 1.0], TRUE_SPARSITY)
        rows = self.clients * self.samples
        features = random.standard_normal((rows, self.width))
        if self.stretch > 1:
            features *= self._lengths(random, rows)[:, np.newaxis]
        scores = features @ truth
        if self.model == "linear":
            means = scores
            targets = means + self.noise * random.standard_normal(rows)
        else:
            means = special.expit(scores)
            targets = (random.random(rows) < means).astype(np.float64)
        owners = self._owners(random, pulls=(means - targets) * scores)
        return FederatedData.from_table(features, targets, owners), truth

    def error(self, data: FederatedData, truth: FloatArray) -> float:
        """‖x_T − x*‖² of FedIter-HT with the theorem's step 1/(6 l_s)."""
        step = 1.0 / (6.0 * _SMOOTHNESS[self.model])
        algorithm = FedIterHT(SPARSITY, local_steps=LOCAL_STEPS, step_size=step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)  # the error tells
            result = run(
                algorithm, data, loss=self.loss, rounds=ROUNDS, evaluate_every=ROUNDS, threads=1
            )
        return float(np.sum((result.coef - truth) ** 2))

    @property
    def loss(self) -> Loss:
        """Of the model, without an ℓ2 term."""
        return _LOSSES[self.model]

    def _lengths(self, random: np.random.Generator, rows: int) -> FloatArray:
        """Factors of rows whose squares are 1 on average."""
        others = (1 - LONG_SHARE * self.stretch) / (1 - LONG_SHARE)
        return np.sqrt(np.where(random.random(rows) < LONG_SHARE, self.stretch, others))

    def _owners(self, random: np.random.Generator, pulls: FloatArray) -> Int64Array:
        """The client of each row: some rows in the order of their pulls, the others anywhere."""
        owners = np.repeat(np.arange(self.clients), self.samples)
        if self.ordered > 0:
            owners[np.argsort(pulls)] = owners.copy()
            anywhere = np.flatnonzero(random.random(pulls.size) >= self.ordered)
            owners[anywhere] = owners[random.permutation(anywhere)]
        return owners


def _dissimilarity(design: Design, data: FederatedData, truth: FloatArray) -> float:
    """𝓑² at x*."""
    return client_gradients(data, design.loss, truth).dissimilarity() ** 2


FACTORS: dict[Sweep, Callable[[Design, FederatedData, FloatArray], float]] = {
    "rows": lambda design, data, truth: data.samples,
    "width": lambda design, data, truth: np.log(design.width),
    "width, one client": lambda design, data, truth: np.log(design.width),
    "clients": lambda design, data, truth: design.clients,
    "noise": lambda design, data, truth: design.noise**2,
    "dissimilarity": _dissimilarity,
    "spread": lambda design, data, truth: design.clients**2 * design.stretch,
    "row length": lambda design, data, truth: sums_of_squares(data.features, axis=1).max(),
}
"""The factor of the bound that a sweep varies, of one draw."""


@dataclass(frozen=True)
class _Draw:
    """One draw of a design, and what its numbers come from."""

    sweep: Sweep
    design: Design
    repetition: int
    key: tuple[int, ...]

    def measured(self) -> dict[str, str | int | float]:
        """A line of the table."""
        design = self.design
        data, truth = design.draw(np.random.SeedSequence(self.key))
        return {
            "model": design.model,
            "sweep": self.sweep,
            "factor": float(FACTORS[self.sweep](design, data, truth)),
            "clients": design.clients,
            "samples": design.samples,
            "width": design.width,
            "repetition": self.repetition,
            "error": design.error(data, truth),
        }


def measure_scaling(*, seed: int = 0, quick: bool = False, processes: int = 1) -> pl.DataFrame:
    """Measure errors over all sweeps, for both models.

    Parameters
    ----------
    seed
        Same seed, same table.
    quick
        Fewer and smaller designs: seconds instead of minutes.
    processes
        How many at a time; the table does not depend on it.

    Returns
    -------
    polars.DataFrame
        Columns ``model``, ``sweep``, ``factor`` (of the bound, that varies), ``clients`` N,
        ``samples`` B, ``width`` d, ``repetition`` and ``error`` ‖x_T − x*‖².
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise OptionError(f"seed must be a whole number ≥ 0, not {seed!r}")
    repetitions = 3 if quick else 16
    draws = [
        _Draw(sweep, design, repetition, (seed, list(EXPECTED).index(sweep), place, repetition))
        for sweep, place, design in _designs(quick)
        for repetition in range(repetitions)
    ]
    return pl.DataFrame(in_processes(_Draw.measured, draws, processes))


def scaling_slopes(measurements: pl.DataFrame) -> pl.DataFrame:
    """Fit the exponents: slopes of log(error) against the logarithm of a factor of the bound.

    They compare with the bound's exponents directly and may undercut them, as the bound is from
    above. Intervals are those of least squares, as every measurement has a draw of its own.

    Parameters
    ----------
    measurements
        The table of `measure_scaling`.

    Returns
    -------
    polars.DataFrame
        Columns ``model``, ``sweep``, ``slope``, ``low`` and ``high`` (95 %), and ``expected``.

    Examples
    --------
    >>> table = pl.DataFrame({"model": ["linear"] * 4, "sweep": ["rows"] * 4,
    ...     "factor": [10, 10, 100, 100], "error": [0.9, 1.1, 0.11, 0.09]})
    >>> scaling_slopes(table).select("slope", "expected").row(0)
    (-1.0, -1.0)
    """
    slopes = []
    for (model, sweep), part in measurements.group_by("model", "sweep", maintain_order=True):
        slope, low, high = _fit(*(np.log(part[name].to_numpy()) for name in ("factor", "error")))
        slopes.append(
            {
                "model": model,
                "sweep": sweep,
                "slope": round(slope, 4),
                "low": round(low, 4),
                "high": round(high, 4),
                "expected": EXPECTED[sweep],
            }
        )
    return pl.DataFrame(slopes)


def _designs(quick: bool) -> Iterator[tuple[Sweep, int, Design]]:
    """All designs, with their place in the sweep."""
    samples = (100, 300, 900) if quick else (100, 200, 400, 800, 1600, 3200)
    widths = (30, 150, 750) if quick else (30, 100, 300, 1000, 3000)
    clients = (2, 4, 8) if quick else (2, 4, 8, 16, 32)
    total = 1600 if quick else 6400
    noises = (0.5, 1.0, 2.0) if quick else (0.25, 0.5, 1.0, 2.0, 4.0)
    shares = (0.0, 0.5, 1.0) if quick else (0.0, 0.25, 0.5, 0.75, 1.0)
    stretches = (1.0, 3.0, 8.0) if quick else (1.0, 2.0, 4.0, 8.0)
    models: tuple[ModelName, ...] = ("linear", "logistic")
    for model in models:
        for place, rows in enumerate(samples):
            yield "rows", place, Design(model, 5, rows, 200)
        for place, width in enumerate(widths):
            yield "width", place, Design(model, 5, 200, width)
        for place, width in enumerate(widths):
            yield "width, one client", place, Design(model, 1, 1000, width)
        for place, count in enumerate(clients):
            yield "clients", place, Design(model, count, total // count, 200)
        for place, share in enumerate(shares):
            yield "dissimilarity", place, Design(model, 5, 400, 50, ordered=share)
    for place, noise in enumerate(noises):
        yield "noise", place, Design("linear", 5, 400, 200, noise=noise)
    for place, stretch in enumerate(stretches):
        yield "spread", place, Design("linear", 5, 400, 200, stretch=stretch)
    for place, stretch in enumerate(stretches):
        yield "row length", place, Design("logistic", 5, 400, 200, stretch=stretch)


def _fit(varied: FloatArray, outcome: FloatArray) -> tuple[float, float, float]:
    """Slope of a straight line by least squares, with a 95 % interval."""
    line = stats.linregress(varied, outcome)
    margin = stats.t.ppf(0.975, varied.size - 2) * line.stderr
    return float(line.slope), float(line.slope - margin), float(line.slope + margin)
