"""The losses, each with an ℓ2 term: f_i(x) = (1/B_i) Σ_j loss(z_ij·x, y_ij) + (λ/2) ‖x‖².

A class names a loss, checks targets and knows its constants. The compiled form of those that have
one is in `fedsparse.problem.slopes`.
"""

from fedsparse.problem.losses.cox import Cox
from fedsparse.problem.losses.logistic import Logistic
from fedsparse.problem.losses.loss import AtScores, EncodedTargets, Link, Loss, Outcome
from fedsparse.problem.losses.named import LOSSES, as_loss, coefficient_shape, register_loss
from fedsparse.problem.losses.poisson import Poisson
from fedsparse.problem.losses.softmax import Softmax
from fedsparse.problem.losses.squared import SquaredError

__all__ = [
    "LOSSES",
    "AtScores",
    "Cox",
    "EncodedTargets",
    "Link",
    "Logistic",
    "Loss",
    "Outcome",
    "Poisson",
    "Softmax",
    "SquaredError",
    "as_loss",
    "coefficient_shape",
    "register_loss",
]
