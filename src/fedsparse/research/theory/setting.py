"""What the theorems need to know of a problem."""

import math
from dataclasses import dataclass

from fedsparse.checks import check_count, is_number
from fedsparse.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the theorems need to know of a problem.

    Parameters
    ----------
    sparsity
        τ.
    true_sparsity
        τ*, the non-zeros of x*; smaller than τ.
    local_steps
        K.
    smoothness, convexity
        l and ρ at the theorem's sparsity level: d for Fed-HT, 2τ + τ* for FedIter-HT.
    squared_distance
        ‖x_0 − x*‖².
    squared_gradient
        Σ p_i ‖π_I ∇f_i(x*)‖², which is 𝓑² ‖π_I ∇f(x*)‖² with the least 𝓑 that Assumption 2 allows
        at x*; I is everything for Fed-HT and Ĩ for FedIter-HT.
    squared_mean_gradient
        ‖π_I ∇f(x*)‖².
    variance
        Σ p_i σ_i².
    precision
        ε.

    Examples
    --------
    >>> setting = Setting(sparsity=50, true_sparsity=10, local_steps=5, smoothness=2.0,
    ...     convexity=1.0, squared_distance=4.0, squared_gradient=0.1, squared_mean_gradient=0.05,
    ...     variance=1.0, precision=0.01)
    >>> setting.alpha, setting.condition_number
    (1.0, 2.0)
    """

    sparsity: int
    true_sparsity: int
    local_steps: int
    smoothness: float
    convexity: float
    squared_distance: float
    squared_gradient: float
    squared_mean_gradient: float
    variance: float
    precision: float

    def __post_init__(self) -> None:
        for name in ("sparsity", "true_sparsity", "local_steps"):
            check_count(name, getattr(self, name))
        if self.true_sparsity >= self.sparsity:
            raise OptionError(
                f"true_sparsity is {self.true_sparsity}, but the theorems need it below the "
                f"sparsity {self.sparsity}; lower it or raise sparsity"
            )
        for name in ("smoothness", "precision"):
            value = getattr(self, name)
            if not is_number(value) or value <= 0:
                raise OptionError(f"{name} must be a number > 0, not {value!r}")

    @property
    def alpha(self) -> float:
        """α = 2√τ*/√(τ − τ*): H_τ takes ‖x − x*‖² to at most 1 + α times as much."""
        return 2.0 * math.sqrt(self.true_sparsity / (self.sparsity - self.true_sparsity))

    @property
    def condition_number(self) -> float:
        """κ = l/ρ."""
        return self.smoothness / self.convexity if self.convexity > 0 else math.inf

    @property
    def shrinkage(self) -> float:
        """1 − 1/(12κ): what a local step does to ‖x − x*‖²."""
        return 1.0 - self.convexity / (12.0 * self.smoothness)
