"""How fits end: those that diverge, told once, and one that stops before it has converged."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from fedsparse.engines.result import Result
from fedsparse.errors import DivergenceWarning

_STILL = 1e-3
"""Share of f by which it may change in the last quarter of the rounds if a fit has converged."""


@contextmanager
def divergences() -> Iterator[list[str]]:
    """Collect what fits inside say when they diverge, instead of showing it fit by fit.

    Other warnings are shown in the end.

    Examples
    --------
    >>> with divergences() as told:
    ...     warnings.warn("The step size is too large.", DivergenceWarning)
    >>> told
    ['The step size is too large.']
    """
    told: list[str] = []
    others: list[warnings.WarningMessage] = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", DivergenceWarning)
            try:
                yield told
            finally:
                for one in caught:
                    if issubclass(one.category, DivergenceWarning):
                        told.append(str(one.message))
                    else:
                        others.append(one)
    finally:
        for one in others:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def warn_of(told: list[str], *, stacklevel: int) -> None:
    """One warning for all that diverged; none if nothing did.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of(["Try a smaller step."] * 3, stacklevel=1)
    >>> print(*(one.message for one in caught))
    3 fits diverged, those that models are compared by among them. The first: Try a smaller step.
    """
    if len(told) == 1:
        warnings.warn(told[0], DivergenceWarning, stacklevel=stacklevel + 1)
    elif told:
        warnings.warn(
            f"{len(told)} fits diverged, those that models are compared by among them. The first: "
            f"{told[0]}",
            DivergenceWarning,
            stacklevel=stacklevel + 1,
        )


def sentence_on_early_end(
    result: Result, rounds: int, *, has_end: bool, option: str = "--rounds "
) -> str | None:
    """That a model was still changing when its rounds were over; None if it was not.

    Parameters
    ----------
    result
        The run that found it.
    rounds
        How many it had.
    has_end
        Whether its method tells when it is done; of another, f must have come to rest.
    option
        How a person asks for more.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=3, samples=20, width=9, relevant=2)
    >>> result = fs.run(fs.FedIterHT(2), data, rounds=3)
    >>> sentence_on_early_end(result, 3, has_end=False)[:62]
    'The model was still changing when its 3 rounds were over; give'
    """
    records = result.records
    if result.diverged or result.is_done or len(records) < 2 or records[-1].round < rounds:
        return None
    before, last = records[-1 - max(len(records) // 4, 1)].objective, records[-1].objective
    if not has_end and abs(last - before) <= _STILL * abs(last):
        return None
    return (
        f"The model was still changing when its {rounds} rounds were over; give it more with "
        f"{option}{2 * rounds}."
    )
