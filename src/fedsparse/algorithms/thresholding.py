"""What algorithms that project onto a constraint share: its option, checked once."""

from dataclasses import dataclass

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import Sparsity, as_sparsity


@dataclass(frozen=True)
class Thresholding(Algorithm):
    """τ or another constraint, refused where it does not fit.

    Parameters
    ----------
    sparsity
        τ, per class for softmax; or a constraint such as `TopKGroups`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> fs.ScaffoldHT(sparsity=0)
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: sparsity must be a whole number of at least 1, not 0
    """

    sparsity: int | Sparsity

    def __post_init__(self) -> None:
        super().__post_init__()
        as_sparsity(self.sparsity, (1,))  # refuses a τ below 1

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """x_0 = 0; a constraint that does not fit is refused here."""
        state = super().start(shape, seed, loss)
        as_sparsity(self.sparsity, shape).project(state.x)
        return state
