"""A loss of one's own, in one file: Gamma regression."""

from dataclasses import dataclass

import numpy as np

import fedsparse as fs


@fs.register_loss
@dataclass(frozen=True)
class Gamma(fs.Loss):
    """Half the deviance of means μ = exp(z·x): y/μ − 1 − log(y/μ)."""

    name = "gamma"
    outcome = "numbers"
    measure = "half the deviance"
    link = "log"
    ratio = "ratio of means"
    dispersion = 2.0

    def encode(self, data):
        """Numbers above 0."""
        encoded = super().encode(data)
        if (encoded.values <= 0).any():
            raise fs.DataError("the gamma loss needs numbers above 0")
        return encoded

    def values(self, scores, targets):
        """What each row loses."""
        ratio = targets * np.exp(-scores)
        return ratio - 1.0 - np.log(ratio)

    def slopes(self, scores, targets):
        """Their derivatives."""
        return 1.0 - targets * np.exp(-scores)

    def curvatures(self, scores, targets):
        """And second ones."""
        return targets * np.exp(-scores)
