"""What an algorithm hands back, or one sentence about what it should have handed back."""

from dataclasses import fields

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.errors import OptionError
from fedsparse.requests import Request


def checked_state(found: object, algorithm: Algorithm, by: str, shape: tuple[int, ...]) -> State:
    """The state that ``start`` or ``update`` returned.

    Parameters
    ----------
    found
        What came back.
    algorithm, by
        From whom, and from which of its functions.
    shape
        Of coefficients.

    Examples
    --------
    >>> import fedsparse as fs
    >>> checked_state(np.zeros(3), fs.FedAvg(), "update", (3,))
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: FedAvg.update must return a State, such as that of \
state.step(x, iterations=1), not a ndarray
    """
    own = f"{type(algorithm).__name__}.{by}"
    if not isinstance(found, State):
        raise OptionError(
            f"{own} must return a State, such as that of state.step(x, iterations=1), "
            f"not a {type(found).__name__}"
        )
    if np.shape(found.x) != shape:
        raise OptionError(
            f"{own} must return a State with an x of the shape {shape}, not {np.shape(found.x)}"
        )
    return found


def checked_request(found: object, algorithm: Algorithm, shape: tuple[int, ...]) -> Request:
    """What ``request`` returned: compiled loops read whatever lies behind too short a vector.

    Parameters
    ----------
    found
        What came back.
    algorithm
        From whom.
    shape
        Of coefficients.

    Examples
    --------
    >>> import fedsparse as fs
    >>> checked_request(fs.Gradient(np.zeros(2)), fs.FedAvg(), (3,))
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: FedAvg.request asks with x of the shape (2,), and \
coefficients have the shape (3,)
    """
    own = f"{type(algorithm).__name__}.request"
    if not isinstance(found, Request):
        raise OptionError(
            f"{own} must return a request, such as fs.Gradient(state.x), "
            f"not a {type(found).__name__}"
        )
    for field in fields(found):
        vector = getattr(found, field.name)
        if not isinstance(vector, np.ndarray) or vector.dtype.kind != "f":
            continue
        expected = shape[:1] if field.name in found.like_a_row else shape
        if vector.shape != expected:
            raise OptionError(
                f"{own} asks with {field.name} of the shape {vector.shape}, and coefficients "
                f"have the shape {expected}"
            )
    return found
