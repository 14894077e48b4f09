"""A loss of one's own that is flat where it does not bend: Huber's."""

import math
from dataclasses import dataclass

import numpy as np

import fedsparse as fs


@fs.register_loss
@dataclass(frozen=True)
class Huber(fs.Loss):
    """Half the square of a residual up to a width, then straight."""

    width: float = 1.0

    name = "huber"
    outcome = "numbers"
    measure = "Huber's loss"
    curvature = 1.0
    dispersion = math.nan

    def values(self, scores, targets):
        """What each row loses."""
        sizes = np.abs(scores - targets)
        straight = self.width * (sizes - self.width / 2.0)
        return np.where(sizes <= self.width, sizes**2 / 2.0, straight)

    def slopes(self, scores, targets):
        """Their derivatives."""
        return np.clip(scores - targets, -self.width, self.width)

    def curvatures(self, scores, targets):
        """And second ones."""
        return (np.abs(scores - targets) <= self.width).astype(np.float64)
