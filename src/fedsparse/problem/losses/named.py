"""The losses by their names."""

from typing import TypeVar, get_args

from fedsparse.arrays import AnyArray
from fedsparse.errors import OptionError
from fedsparse.problem.losses.cox import Cox
from fedsparse.problem.losses.logistic import Logistic
from fedsparse.problem.losses.loss import Link, Loss, Outcome
from fedsparse.problem.losses.poisson import Poisson
from fedsparse.problem.losses.softmax import Softmax
from fedsparse.problem.losses.squared import SquaredError

_Kind = TypeVar("_Kind", bound=Loss)

LOSSES: dict[str, type[Loss]] = {
    loss.name: loss for loss in (SquaredError, Logistic, Softmax, Poisson, Cox)
}


_OWN = frozenset(LOSSES)


def register_loss(kind: type[_Kind]) -> type[_Kind]:
    """Know a loss of one's own by its name, so that it can travel; also a decorator.

    Server and sites must both know it: no code travels.

    Examples
    --------
    >>> from fedsparse.problem.losses import Logistic
    >>> class Mine(Logistic):
    ...     name = "logistic"
    >>> register_loss(Mine)
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: Mine is called "logistic" as a loss of fedsparse is; rename it
    """
    _check_said(kind)
    if kind.name in _OWN and LOSSES[kind.name] is not kind:
        raise OptionError(
            f'{kind.__name__} is called "{kind.name}" as a loss of fedsparse is; rename it'
        )
    LOSSES[kind.name] = kind
    return kind


def _check_said(kind: type[Loss]) -> None:
    """An OptionError if a class does not say what reports and metrics go by."""
    for name in ("name", "measure"):
        if not isinstance(getattr(kind, name, None), str):
            raise OptionError(f'{kind.__name__} has no {name}; write {name} = "…" in the class')
    if not kind.name.isidentifier():
        raise OptionError(
            f"{kind.__name__} is called {kind.name!r}; its name must be letters, digits and _, and "
            "begin with a letter"
        )
    for name, allowed in (("outcome", get_args(Outcome)), ("link", get_args(Link))):
        given = getattr(kind, name, None)
        if given not in allowed:
            raise OptionError(
                f"{kind.__name__}.{name} is {given!r}; it must be one of {', '.join(allowed)}"
            )


def as_loss(loss: str | Loss) -> Loss:
    """A loss object from its name or itself.

    Examples
    --------
    >>> as_loss("logistic")
    Logistic(l2=0.0001)
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, type) and issubclass(loss, Loss):
        raise OptionError(f"loss is the class {loss.__name__}; write {loss.__name__}()")
    if loss not in LOSSES:
        raise OptionError(f"unknown loss {loss!r}; use one of {', '.join(LOSSES)} or a Loss object")
    return LOSSES[loss]()


def coefficient_shape(width: int, classes: AnyArray | None, loss: Loss) -> tuple[int, ...]:
    """Shape of x: (d,), or (d, c) for softmax."""
    if loss.is_by_class and classes is not None:
        return (width, classes.size)
    return (width,)
