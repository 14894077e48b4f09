"""Everything the theory says of one problem, with what is measured beside it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.sparse import csr_array

from fedsparse.algorithms import FedHT, FedIterHT
from fedsparse.algorithms.step_sizes import StepSize
from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count, is_number
from fedsparse.compute.stacks import squared_norm
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss, Softmax
from fedsparse.research.theory.bounds import Bound, fed_ht_bounds, fed_iter_ht_bounds
from fedsparse.research.theory.conditioning import (
    Conditioning,
    global_conditioning,
    restricted_conditioning,
)
from fedsparse.research.theory.contraction import (
    Contraction,
    Reference,
    measure_contraction,
    reference_solution,
)
from fedsparse.research.theory.gradients import (
    ClientGradients,
    client_gradients,
    gradient_variances,
)
from fedsparse.research.theory.rate_comparison import RateComparison, compare_rates
from fedsparse.research.theory.setting import Setting

# Gradients of every client that looking for x* may cost, and each measured run a quarter of it:
# as many as take about a minute on a laptop, within limits.
_PRODUCTS = 3e10
_FEWEST_GRADIENTS, _MOST_GRADIENTS = 240, 1200


@dataclass(frozen=True)
class Dissimilarity:
    """𝓑 of Assumption 2 at one point: on all entries, and on the support of x*."""

    point: str
    everywhere: float
    on_support: float


@dataclass(frozen=True)
class Measurement:
    """A run of one algorithm with one step size, and θ as recomputed for the theorem's step."""

    algorithm: str
    step: str
    contraction: Contraction
    proven_rate: float


@dataclass(frozen=True, eq=False)
class Study:
    """What `study` found; see the classes of its parts.

    Attributes
    ----------
    sparsity, true_sparsity, local_steps
        τ, τ* and K.
    reference
        The solution taken for x*.
    whole, restricted
        Constants of Assumption 1 at s = d and s = 2τ + τ*.
    dissimilarities
        𝓑 at x_0 = 0 and at x*.
    variance
        Σ p_i σ_i² at x*.
    squared_gradient, squared_local_gradients
        ‖∇f(x*)‖² and Σ p_i ‖∇f_i(x*)‖².
    fed_ht, fed_iter_ht
        The theorems' versions.
    rates
        When θ₂ is below θ₁, by version.
    measurements
        What runs did.
    """

    sparsity: int
    true_sparsity: int
    local_steps: int
    reference: Reference
    whole: Conditioning
    restricted: Conditioning
    dissimilarities: tuple[Dissimilarity, ...]
    variance: float
    squared_gradient: float
    squared_local_gradients: float
    fed_ht: tuple[Bound, ...]
    fed_iter_ht: tuple[Bound, ...]
    rates: tuple[RateComparison, ...]
    measurements: tuple[Measurement, ...]


def study(
    data: FederatedData,
    loss: Loss,
    sparsity: int,
    *,
    true_sparsity: int | None = None,
    local_steps: int = 10,
    precision: float = 1e-3,
    seed: int = 0,
    tell: Callable[[str], None] = lambda what: None,
) -> Study:
    """Estimate the constants of a problem, evaluate both theorems, and measure contraction.

    Parameters
    ----------
    data, loss
        The problem.
    sparsity
        τ, per class for softmax.
    true_sparsity
        τ*; half of τ by default, as in the paper's simulations, where 100 features are relevant
        and τ is 200.
    local_steps
        K.
    precision
        ε as a fraction of ‖x_0 − x*‖².
    seed
        Of sampled supports and of the runs that look for x*.
    tell
        Called with what is being done.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=2, samples=30, width=8, relevant=2)
    >>> found = study(data, fs.SquaredError(), 4, true_sparsity=2, local_steps=2)
    >>> [bound.is_void for bound in found.fed_ht]
    [True, True]
    """
    true_sparsity = _checked_true_sparsity(sparsity, true_sparsity, data.width)
    check_count("local_steps", local_steps)
    if not is_number(precision) or precision <= 0:
        raise OptionError(f"precision must be a number > 0, not {precision!r}")
    gradients = _affordable_gradients(data, loss)
    tell("looking for a reference solution")
    reference = reference_solution(data, loss, true_sparsity, gradients=gradients, seed=seed)
    x = reference.coef
    tell("estimating smoothness and strong convexity")
    whole = global_conditioning(data, loss, x)
    restricted = restricted_conditioning(data, loss, 2 * sparsity + true_sparsity, x, seed=seed)
    tell("comparing the clients' gradients")
    at_start = client_gradients(data, loss, np.zeros_like(x))
    at_reference = client_gradients(data, loss, x)
    variance = float(gradient_variances(data, loss, x).mean())
    setting = partial(
        Setting,
        sparsity=sparsity,
        true_sparsity=true_sparsity,
        local_steps=local_steps,
        squared_distance=squared_norm(x),
        variance=variance,
        precision=precision * max(squared_norm(x), np.finfo(float).tiny),
    )
    of_whole = setting(
        smoothness=whole.smoothness,
        convexity=whole.convexity,
        squared_gradient=at_reference.local,
        squared_mean_gradient=at_reference.overall,
    )
    entries = at_reference.bias_entries(x, sparsity * (x.size // data.width))
    of_restricted = setting(
        smoothness=restricted.smoothness,
        convexity=restricted.convexity,
        squared_gradient=at_reference.local_within(entries),
        squared_mean_gradient=at_reference.overall_within(entries),
    )
    fed_ht, fed_iter_ht = fed_ht_bounds(of_whole), fed_iter_ht_bounds(of_restricted)
    rounds = max(2, gradients // (4 * local_steps))
    measure = partial(_measure, data, loss, x, rounds, tell)
    return Study(
        sparsity=sparsity,
        true_sparsity=true_sparsity,
        local_steps=local_steps,
        reference=reference,
        whole=whole,
        restricted=restricted,
        dissimilarities=(
            _dissimilarity("x_0 = 0", at_start, x),
            _dissimilarity("x*", at_reference, x),
        ),
        variance=variance,
        squared_gradient=at_reference.overall,
        squared_local_gradients=at_reference.local,
        fed_ht=fed_ht,
        fed_iter_ht=fed_iter_ht,
        rates=compare_rates(of_whole, of_restricted),
        measurements=(
            *measure("Fed-HT", FedHT(sparsity, local_steps=local_steps), fed_ht),
            *measure("FedIter-HT", FedIterHT(sparsity, local_steps=local_steps), fed_iter_ht),
        ),
    )


def _checked_true_sparsity(sparsity: int, true_sparsity: int | None, width: int) -> int:
    check_count("sparsity", sparsity)
    if sparsity > width:
        raise OptionError(f"sparsity is {sparsity}, but there are only {width} features; lower it")
    if true_sparsity is None:
        true_sparsity = sparsity // 2
    check_count("true_sparsity", true_sparsity)
    if true_sparsity >= sparsity:
        raise OptionError(
            f"true_sparsity is {true_sparsity}, but the theorems need it below the sparsity "
            f"{sparsity}; lower it or raise sparsity"
        )
    return true_sparsity


def _affordable_gradients(data: FederatedData, loss: Loss) -> int:
    stored = data.features.nnz if isinstance(data.features, csr_array) else data.features.size
    classes = np.unique(data.targets).size if isinstance(loss, Softmax) else 1
    return int(np.clip(_PRODUCTS / (stored * classes), _FEWEST_GRADIENTS, _MOST_GRADIENTS))


def _dissimilarity(point: str, gradients: ClientGradients, reference: FloatArray) -> Dissimilarity:
    on_support = gradients.dissimilarity(reference.ravel() != 0)
    return Dissimilarity(point, gradients.dissimilarity(), on_support)


def _measure(
    data: FederatedData,
    loss: Loss,
    target: FloatArray,
    rounds: int,
    tell: Callable[[str], None],
    name: str,
    algorithm: FedHT,
    bounds: tuple[Bound, ...],
) -> Iterator[Measurement]:
    """Run an algorithm with the theorem's step size and with the automatic one."""
    steps: dict[str, StepSize] = {"1/(6l)": bounds[0].step_size, "auto": "auto"}
    for step, step_size in steps.items():
        tell(f"running {name} with step {step}")
        run = replace(algorithm, step_size=step_size)
        contraction = measure_contraction(run, data, loss, target, rounds=rounds)
        yield Measurement(name, step, contraction, bounds[-1].rate)
