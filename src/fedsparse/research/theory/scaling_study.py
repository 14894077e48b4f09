"""Measure whether FedIter-HT's errors scale as the paper's corollaries for M-estimators say.

On sub-Gaussian designs ‖x_T − x*‖² is to be at most of order (2Nτ + τ*) log d / (NB). Here x* is
drawn, clients get independent N(0, I) rows of it, FedIter-HT is run to convergence, and the error
is measured while the rows NB, the width d or the number of clients N varies and the rest stands.
The width varies twice: on five clients, and on a single one with as many rows.

Every row of the logistic design is as long as about √d, so that the corollary's 𝒦² would add a
factor d to its bound; the rows are not scaled down, because shorter rows mean a weaker signal.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from scipy import special, stats

from fedsparse.algorithms import FedIterHT
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count
from fedsparse.engines.run import run
from fedsparse.errors import DivergenceWarning, OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Logistic, Loss, SquaredError

ModelName = Literal["linear", "logistic"]
Sweep = Literal["rows", "width", "width, one client", "clients"]

SPARSITY = 10
TRUE_SPARSITY = 5
COEFFICIENT = 1.0
NOISE = 1.0
LOCAL_STEPS = 5
ROUNDS = 60

EXPECTED: dict[Sweep, float] = {
    "rows": -1.0,
    "width": 1.0,
    "width, one client": 1.0,
    "clients": 1.0,
}
"""Exponents of NB, log d and N in the corollaries, by sweep; they bound the error from above.

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
        ``"linear"``: y = z·x* + N(0, 1). ``"logistic"``: y is 1 with the odds e^{z·x*}.
    clients, samples, width
        N, B and d.

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

    def __post_init__(self) -> None:
        if self.model not in _LOSSES:
            raise OptionError(f"unknown model {self.model!r}; use one of {', '.join(_LOSSES)}")
        for name in ("clients", "samples", "width"):
            check_count(name, getattr(self, name))
        if self.width < TRUE_SPARSITY:
            raise OptionError(f"width must be at least {TRUE_SPARSITY}, not {self.width}")

    def draw(self, seed: int | np.random.SeedSequence) -> tuple[FederatedData, FloatArray]:
        """The clients' data and x*, whose non-zeros are ±1."""
        random = np.random.default_rng(seed)
        truth = np.zeros(self.width)
        places = random.choice(self.width, TRUE_SPARSITY, replace=False)
        truth[places] = COEFFICIENT * random.choice([-1.0, 1.0], TRUE_SPARSITY)
        rows = self.clients * self.samples
        features = random.standard_normal((rows, self.width))
        scores = features @ truth
        if self.model == "linear":
            targets = scores + NOISE * random.standard_normal(rows)
        else:
            targets = (random.random(rows) < special.expit(scores)).astype(np.float64)
        owners = np.repeat(np.arange(self.clients), self.samples)
        return FederatedData.from_table(features, targets, owners), truth

    def error(self, seed: int | np.random.SeedSequence) -> float:
        """‖x_T − x*‖² of FedIter-HT on one draw, with the theorem's step 1/(6 l_s)."""
        data, truth = self.draw(seed)
        step = 1.0 / (6.0 * _SMOOTHNESS[self.model])
        algorithm = FedIterHT(SPARSITY, local_steps=LOCAL_STEPS, step_size=step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DivergenceWarning)  # the error tells
            result = run(
                algorithm, data, loss=_LOSSES[self.model], rounds=ROUNDS, evaluate_every=ROUNDS
            )
        return float(np.sum((result.coef - truth) ** 2))

    @property
    def bound_shape(self) -> float:
        """(2Nτ + τ*) log d / (NB): the corollaries without constants, 𝓑 and spreads."""
        total = self.clients * self.samples
        return (2 * self.clients * SPARSITY + TRUE_SPARSITY) * math.log(self.width) / total


def measure_scaling(*, seed: int = 0, quick: bool = False) -> pl.DataFrame:
    """Measure errors over all sweeps, for both models.

    Parameters
    ----------
    seed
        Same seed, same table.
    quick
        Fewer and smaller designs: seconds instead of minutes.

    Returns
    -------
    polars.DataFrame
        Columns ``model``, ``sweep``, ``clients`` N, ``samples`` B, ``rows`` NB, ``width`` d,
        ``repetition``, ``error`` ‖x_T − x*‖² and ``bound_shape``.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise OptionError(f"seed must be a whole number ≥ 0, not {seed!r}")
    repetitions = 3 if quick else 16
    rows = []
    for sweep, place, design in _designs(quick):
        for repetition in range(repetitions):
            key = (seed, list(EXPECTED).index(sweep), place, repetition)
            rows.append(
                {
                    "model": design.model,
                    "sweep": sweep,
                    "clients": design.clients,
                    "samples": design.samples,
                    "rows": design.clients * design.samples,
                    "width": design.width,
                    "repetition": repetition,
                    "error": design.error(np.random.SeedSequence(key)),
                    "bound_shape": design.bound_shape,
                }
            )
    return pl.DataFrame(rows)


def scaling_slopes(measurements: pl.DataFrame) -> pl.DataFrame:
    """Fit the exponents: slopes of log(error) against log(NB), log(log d) and log(N).

    All three are exponents of a factor in the corollaries' bound, so that they compare with it
    directly; being exponents of an upper bound, they may be undercut for d and N. Intervals are
    those of least squares, as every measurement has a draw of its own.

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
    ...     "rows": [10, 10, 100, 100], "error": [0.9, 1.1, 0.11, 0.09]})
    >>> scaling_slopes(table).select("slope", "expected").row(0)
    (-1.0, -1.0)
    """
    slopes = []
    for (model, sweep), part in measurements.group_by("model", "sweep", maintain_order=True):
        slope, low, high = _fit(_varied(str(sweep), part), np.log(part["error"].to_numpy()))
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


def _varied(sweep: str, part: pl.DataFrame) -> FloatArray:
    """Logarithm of the factor of the bound that a sweep varies."""
    column = sweep.split(",")[0]
    values = part[column].to_numpy().astype(np.float64)
    return np.asarray(np.log(np.log(values) if column == "width" else values))


def _fit(varied: FloatArray, outcome: FloatArray) -> tuple[float, float, float]:
    """Slope of a straight line by least squares, with a 95 % interval."""
    line = stats.linregress(varied, outcome)
    margin = stats.t.ppf(0.975, varied.size - 2) * line.stderr
    return float(line.slope), float(line.slope - margin), float(line.slope + margin)
