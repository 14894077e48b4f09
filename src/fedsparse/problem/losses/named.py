"""The losses by their names."""

from fedsparse.arrays import AnyArray
from fedsparse.errors import OptionError
from fedsparse.problem.losses.cox import Cox
from fedsparse.problem.losses.logistic import Logistic
from fedsparse.problem.losses.loss import Loss
from fedsparse.problem.losses.poisson import Poisson
from fedsparse.problem.losses.softmax import Softmax
from fedsparse.problem.losses.squared import SquaredError

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (SquaredError, Logistic, Softmax, Poisson, Cox)
}


def as_loss(loss: str | Loss) -> Loss:
    """A loss object from its name or itself.

    Examples
    --------
    >>> as_loss("logistic")
    Logistic(l2=0.0001)
    """
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        raise OptionError(f"unknown loss {loss!r}; use one of {', '.join(LOSSES)} or a Loss object")
    return LOSSES[loss]()


def coefficient_shape(width: int, classes: AnyArray | None, loss: Loss) -> tuple[int, ...]:
    """Shape of x: (d,), or (d, c) for softmax."""
    if loss.is_by_class and classes is not None:
        return (width, classes.size)
    return (width,)
