"""The numbers of a `LocalSteps` request, as the compiled loops read them."""

from typing import NamedTuple

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.compiling import compiled
from fedsparse.compute.kernels import random


class Plan(NamedTuple):
    """What K local steps need besides data and vectors (a plain tuple once compiled).

    A step is x ← ``shrink`` x + ``pull`` x_t − ``step_size`` g, where ``shrink`` carries the ℓ2 and
    proximal terms and ``pull`` the proximal one. ``decay`` is what x_t itself is multiplied by
    after all steps.
    """

    loss: int
    steps: int
    step_size: float
    shrink: float
    pull: float
    decay: float
    batch: int  # 0: all rows of the client
    kept: int  # coefficients kept per class after each step, 0: no local thresholding
    seed: int
    round: int


@compiled
def batch_of(plan: Plan, rows: int) -> int:
    """Rows in each of a client's batches."""
    return rows if plan.batch == 0 or plan.batch > rows else plan.batch


@compiled
def batch_key(plan: Plan, client: int, step: int) -> np.uint64:
    """Key of the generator for one step's batch."""
    return random.key(plan.seed, client, plan.round, step)


@compiled
def step_in_place(x: FloatArray, start: FloatArray, gradient: FloatArray, plan: Plan) -> None:
    """One gradient step with ℓ2 and proximal terms on flat vectors of equal length."""
    for position in range(x.size):
        x[position] = (
            plan.shrink * x[position]
            + plan.pull * start[position]
            - plan.step_size * gradient[position]
        )
