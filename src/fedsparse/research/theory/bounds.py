"""The paper's two convergence theorems as numbers: as stated, as proved, and recomputed.

E‖x_T − x*‖² ≤ θ^T ‖x_0 − x*‖² + g(x*). Statement, proof and what the proof's own steps give do not
always agree; the differences are computed here side by side and told in the notes. The corollaries
E[f(x_T) − f(x*)] ≤ θ^T Δ + g₂(x*), for FedIter-HT g₄(x*), follow from l-smoothness:

    f(x_T) − f(x*) ≤ ⟨∇f(x*), x_T − x*⟩ + l/2 ‖x_T − x*‖² ≤ ‖π_I ∇f(x*)‖²/(2l) + l ‖x_T − x*‖²,

so that Δ = l ‖x_0 − x*‖² and the bias is l g(x*) + ‖π_I ∇f(x*)‖²/(2l).

What was recomputed. One local step with γ = 1/(6l) gives, with r² = ‖x − x*‖² and ∇ = ∇f_i(x*),

    r₊² ≤ r² + (σ²/b + ‖∇‖²)/(12l²) − D/(6l) − ρr²/(6l) − ⟨∇, x − x*⟩/(3l),

where D ≥ ρr²/2 is the Bregman distance of f_i from x* to x. The paper's proof takes the inner
product in its lemma with the wrong sign, which makes the last term cancel. It does not; by Young's
inequality it is at most ρr²/(6l) + ‖∇‖²/(6lρ). So the factor 1 − 1/(12κ) stands and ‖∇‖² counts
1 + 2κ times. For FedIter-HT each of the K steps and the server apply H_τ, hence (1+α)^(K+1).
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fedsparse.research.theory.setting import Setting

Version = Literal["as stated", "as proved", "recomputed"]

FED_HT_NOTES = (
    "The proof of Theorem 1 takes ⟨∇f_i(x*), x − x*⟩ in its lemma with the wrong sign; put right, "
    "θ stays and the bias g is 1 + 2κ times as large.",
    "Its τ makes θ < 1 for K = 1 and must be exceeded, as equality gives θ = 1; a larger K needs "
    "less, which the recomputed τ shows.",
    "Its last recursion has the exponent K − 1 once; the lines before it give K.",
    "If x* were optimal among all τ-sparse vectors with τ* < τ non-zeros, ∇f(x*) would be 0; x* is "
    "read as the best τ*-sparse vector.",
    "The corollary's rounds take log(‖x_0 − x*‖/ε); the theorem bounds the square, so that "
    "log(‖x_0 − x*‖²/ε) is needed.",
    "The corollary on f gives g₂ to its order only. The last line of its proof has "
    "(ξ/(1 − ψ) + 1/(2l)) ‖∇f(x*)‖², without the l and the 𝓑² that the lines before give; "
    "recomputed it is l g₁ + ‖∇f(x*)‖²/(2l). Its θ^(T − 1) should be θ^T.",
)

FED_ITER_HT_NOTES = (
    "θ and ψ of Theorem 2 are stated without the exponent K that its proof has.",
    "The proof counts (1 + α)² although H_τ acts after each of the K local steps and at the "
    "server; recomputed it is (1 + α)^(K + 1), the same for K = 1 only.",
    "Its δ and ψ add up to (1 + 4α + 3α²)(1 − 1/(12κ))^K, a little less than θ = "
    "(1 + 2α)²(1 − 1/(12κ))^K: harmless.",
    "Its τ is stated with κ_d; the proof needs κ_s, which is used here.",
    "The wrong sign in the proof of Theorem 1 is here, too: the bias g is 1 + 2κ times as large.",
    "g₄ loses l and 𝓑² as g₂ does, and its proof's last line the restriction to Ĩ.",
)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """One version of a theorem, in numbers; biases and ``rounds`` are infinite where it is void.

    Attributes
    ----------
    version
        ``"as stated"``, ``"as proved"`` or ``"recomputed"``.
    step_size
        γ = 1/(6l).
    alpha, rate, kept, noise, slack
        α, θ, ψ, ξ and δ.
    required_sparsity
        The smallest τ for which the version claims convergence.
    first_batch
        Γ: the batch of round 0 must be at least this; it grows by 1/θ a round.
    bias
        g(x*): g₁ of Fed-HT, g₃ of FedIter-HT.
    initial_gap
        Δ = l ‖x_0 − x*‖², what f(x_0) − f(x*) starts from in the corollary on f.
    objective_bias
        g₂ of Fed-HT, g₄ of FedIter-HT: E[f(x_T) − f(x*)] ≤ θ^T Δ + this.
    rounds
        T after which E‖x_T − x*‖² ≤ ε + g(x*).
    is_void
        Whether nothing follows: θ or ψ is not below 1, or τ is below what is required.
    notes
        Why it is void.
    """

    version: Version
    step_size: float
    alpha: float
    rate: float
    kept: float
    noise: float
    slack: float
    required_sparsity: float
    first_batch: float
    bias: float
    initial_gap: float
    objective_bias: float
    rounds: float
    is_void: bool
    notes: tuple[str, ...]


def fed_ht_bounds(setting: Setting) -> tuple[Bound, ...]:
    """Theorem 1, as stated and recomputed.

    Parameters
    ----------
    setting
        With l, ρ and the gradient of the whole space.

    Examples
    --------
    >>> setting = Setting(sparsity=40_000, true_sparsity=1, local_steps=10, smoothness=1.0,
    ...     convexity=1.0, squared_distance=1.0, squared_gradient=0.0, squared_mean_gradient=0.0,
    ...     variance=0.0, precision=0.01)
    >>> stated, recomputed = fed_ht_bounds(setting)
    >>> stated.required_sparsity, round(stated.rate, 4), stated.rounds
    (1937.0, 0.4273, 6)
    """
    alpha, steps, shrink = setting.alpha, setting.local_steps, setting.shrinkage
    noise = (1 + alpha) * _geometric_sum(shrink, steps) / (12 * setting.smoothness**2)
    stated = _Parts(
        rate=(1 + 2 * alpha) * shrink**steps,
        kept=(1 + alpha) * shrink**steps,
        noise=noise,
        slack=alpha * shrink**steps,
        required_sparsity=_required_sparsity(setting, _excess(setting, 1.0)),
    )
    recomputed = stated._replace(
        required_sparsity=_required_sparsity(setting, _excess(setting, steps))
    )
    return (
        _bound_as_in_paper("as stated", setting, stated),
        _bound_recomputed(setting, recomputed),
    )


def fed_iter_ht_bounds(setting: Setting) -> tuple[Bound, ...]:
    """Theorem 2, as stated, as proved and recomputed.

    Parameters
    ----------
    setting
        With l and ρ at sparsity 2τ + τ*, and the gradient on Ĩ.

    Examples
    --------
    >>> setting = Setting(sparsity=40_000, true_sparsity=1, local_steps=10, smoothness=1.0,
    ...     convexity=1.0, squared_distance=1.0, squared_gradient=0.0, squared_mean_gradient=0.0,
    ...     variance=0.0, precision=0.01)
    >>> [(bound.version, round(bound.rate, 3)) for bound in fed_iter_ht_bounds(setting)]
    [('as stated', 0.954), ('as proved', 0.436), ('recomputed', 0.521)]
    """
    alpha, steps, shrink = setting.alpha, setting.local_steps, setting.shrinkage
    unit = (1 + alpha) ** 2 / (12 * setting.smoothness**2)
    stated = _Parts(
        rate=(1 + 2 * alpha) ** 2 * shrink,
        kept=(1 + alpha) ** 2 * shrink,
        noise=unit * _geometric_sum(shrink, steps),
        slack=(2 * alpha + 2 * alpha**2) * shrink**steps,
        required_sparsity=_required_sparsity(setting, _excess(setting, 0.5)),
    )
    proved = _Parts(
        rate=(1 + 2 * alpha) ** 2 * shrink**steps,
        kept=(1 + alpha) ** 2 * shrink**steps,
        noise=stated.noise,
        slack=stated.slack,
        required_sparsity=_required_sparsity(setting, _excess(setting, steps / 2)),
    )
    rate = (1 + 2 * alpha) * ((1 + 2 * alpha) * shrink) ** steps
    kept = (1 + alpha) * ((1 + alpha) * shrink) ** steps
    recomputed = _Parts(
        rate=rate,
        kept=kept,
        noise=unit * _geometric_sum((1 + alpha) * shrink, steps),
        slack=rate - kept,
        required_sparsity=_required_sparsity(setting, _excess(setting, steps / (steps + 1))),
    )
    return (
        _bound_as_in_paper("as stated", setting, stated),
        _bound_as_in_paper("as proved", setting, proved),
        _bound_recomputed(setting, recomputed),
    )


class _Parts(NamedTuple):
    """What a version of a theorem says of θ, ψ, ξ, δ and τ."""

    rate: float
    kept: float
    noise: float
    slack: float
    required_sparsity: float


class _Ends(NamedTuple):
    """What a version of a theorem says of g, of g₂ or g₄, and of T."""

    bias: float
    objective_bias: float
    rounds: float


_NOTHING = _Ends(math.inf, math.inf, math.inf)


def _bound_as_in_paper(version: Version, setting: Setting, parts: _Parts) -> Bound:
    held = parts.noise / (1 - parts.kept)
    ends = _Ends(
        bias=held * setting.squared_gradient,
        objective_bias=(held + 0.5 / setting.smoothness) * setting.squared_mean_gradient,
        rounds=_rounds_as_stated(setting, parts.rate),
    )
    return _bound(version, setting, parts, ends)


def _bound_recomputed(setting: Setting, parts: _Parts) -> Bound:
    bias = parts.noise * _cross_term(setting) * setting.squared_gradient / (1 - parts.kept)
    smoothness = setting.smoothness
    ends = _Ends(
        bias=bias,
        objective_bias=smoothness * bias + setting.squared_mean_gradient / (2 * smoothness),
        rounds=_rounds(setting, parts.rate),
    )
    return _bound("recomputed", setting, parts, ends)


def _bound(version: Version, setting: Setting, parts: _Parts, ends: _Ends) -> Bound:
    notes = _reasons_to_be_void(setting, parts)
    allowed_noise = parts.slack * setting.squared_distance
    return Bound(
        version=version,
        step_size=1.0 / (6.0 * setting.smoothness),
        alpha=setting.alpha,
        first_batch=parts.noise * setting.variance / allowed_noise if allowed_noise else math.inf,
        initial_gap=setting.smoothness * setting.squared_distance,
        is_void=bool(notes),
        notes=notes,
        **parts._asdict(),
        **(_NOTHING if notes else ends)._asdict(),
    )


def _reasons_to_be_void(setting: Setting, parts: _Parts) -> tuple[str, ...]:
    if setting.convexity <= 0:
        return ("the bound is void: ρ is 0, so κ is infinite and no τ is large enough",)
    if parts.rate >= 1:
        return (
            f"the bound is void: θ is {parts.rate:.4g}, not below 1; τ is {setting.sparsity} and "
            f"would have to be {parts.required_sparsity:.3g}",
        )
    if setting.sparsity < parts.required_sparsity:
        return (
            f"the bound is void: τ is {setting.sparsity}, below the required "
            f"{parts.required_sparsity:.3g}",
        )
    return ()


def _excess(setting: Setting, power: float) -> float:
    """(1 − 1/(12κ))^(−power) − 1, which 2α must not exceed."""
    return math.expm1(-power * math.log1p(-1.0 / (12.0 * setting.condition_number)))


def _required_sparsity(setting: Setting, excess: float) -> float:
    """The τ at which 2α = 4√τ*/√(τ − τ*) equals an excess."""
    return setting.true_sparsity * (16.0 / excess**2 + 1.0) if excess > 0 else math.inf


def _geometric_sum(ratio: float, terms: int) -> float:
    return math.fsum(ratio**power for power in range(terms))


def _cross_term(setting: Setting) -> float:
    """1 + 2κ: how often ‖∇f_i(x*)‖² counts once the proof's sign is put right."""
    return 1.0 + 2.0 * setting.condition_number


def _rounds(setting: Setting, rate: float) -> float:
    """T with θ^T ‖x_0 − x*‖² ≤ ε."""
    return _least_rounds(setting.squared_distance / setting.precision, rate)


def _rounds_as_stated(setting: Setting, rate: float) -> float:
    """The corollaries' T, whose logarithm holds the distance and not its square."""
    return _least_rounds(math.sqrt(setting.squared_distance) / setting.precision, rate)


def _least_rounds(ratio: float, rate: float) -> float:
    return 0 if ratio <= 1 else math.ceil(math.log(ratio) / -math.log(rate))
