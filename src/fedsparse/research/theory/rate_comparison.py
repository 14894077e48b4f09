"""When the theorems give FedIter-HT the smaller rate: the paper's remark on θ₂ < θ₁, by version.

With c = 1 − 1/(12κ), at s = d for Fed-HT and at s = 2τ + τ* for FedIter-HT, θ₁ = (1 + 2α) c_d^K.
Each version of θ₂ is below it if and only if 2α is below a number of its own:

    as stated     (1 + 2α)² c_s            2α < c_d^K / c_s − 1
    as proved     (1 + 2α)² c_s^K          2α < (c_d / c_s)^K − 1, the paper's remark
    recomputed    (1 + 2α)^(K + 1) c_s^K   2α < c_d / c_s − 1
"""

import math
from dataclasses import dataclass

from fedsparse.research.theory.bounds import Version
from fedsparse.research.theory.setting import Setting

RATE_NOTES = (
    "The paper's remark on θ₂ < θ₁ takes θ₂ with the exponent K of its proof, and allows equality, "
    "where both are the same. Recomputed, FedIter-HT pays 1 + 2α at every local step: K cancels, "
    "and more local steps do not help it to the smaller rate.",
    "The paper's conclusion says the contrary of its remark: that Fed-HT has the better reduction "
    "factor, without a condition. By the theorems that is so exactly where 2α is not below the "
    "number given.",
)


@dataclass(frozen=True, kw_only=True)
class RateComparison:
    """θ₂ beside θ₁ in one version.

    Attributes
    ----------
    version
        Of θ₂; θ₁ is the same in all.
    fed_ht, fed_iter_ht
        θ₁ and θ₂.
    twice_alpha
        2α = 4√τ*/√(τ − τ*).
    limit
        What 2α must be below for θ₂ < θ₁; not above 0 where no τ is large enough.
    required_sparsity
        The τ that must be exceeded.
    """

    version: Version
    fed_ht: float
    fed_iter_ht: float
    twice_alpha: float
    limit: float
    required_sparsity: float

    @property
    def fed_iter_ht_is_faster(self) -> bool:
        """Whether θ₂ < θ₁."""
        return self.twice_alpha < self.limit


def compare_rates(whole: Setting, restricted: Setting) -> tuple[RateComparison, ...]:
    """Set θ₂ beside θ₁, as stated, as proved and recomputed.

    Parameters
    ----------
    whole
        With l and ρ of the whole space, for Fed-HT.
    restricted
        With those at sparsity 2τ + τ*, for FedIter-HT; τ, τ* and K are the same.

    Examples
    --------
    >>> known = {"sparsity": 40_000, "true_sparsity": 1, "local_steps": 10, "squared_distance": 1.0,
    ...     "squared_gradient": 0.0, "squared_mean_gradient": 0.0, "variance": 0.0,
    ...     "precision": 0.01, "smoothness": 1.0}
    >>> whole, restricted = Setting(convexity=0.5, **known), Setting(convexity=1.0, **known)
    >>> for one in compare_rates(whole, restricted):
    ...     print(one.version, round(one.limit, 3), one.fed_iter_ht_is_faster)
    as stated -0.287 False
    as proved 0.56 True
    recomputed 0.045 True
    """
    steps, growth = whole.local_steps, 1 + 2 * whole.alpha
    dense, sparse = whole.shrinkage, restricted.shrinkage
    versions: dict[Version, tuple[float, float]] = {
        "as stated": (growth**2 * sparse, dense**steps / sparse - 1),
        "as proved": (growth**2 * sparse**steps, (dense / sparse) ** steps - 1),
        "recomputed": (growth * (growth * sparse) ** steps, dense / sparse - 1),
    }
    return tuple(
        RateComparison(
            version=version,
            fed_ht=growth * dense**steps,
            fed_iter_ht=rate,
            twice_alpha=2 * whole.alpha,
            limit=limit,
            required_sparsity=_sparsity_for(limit, whole.true_sparsity),
        )
        for version, (rate, limit) in versions.items()
    )


def _sparsity_for(limit: float, true_sparsity: int) -> float:
    """The τ at which 2α = 4√τ*/√(τ − τ*) comes down to a limit."""
    return true_sparsity * (16.0 / limit**2 + 1.0) if limit > 0 else math.inf
