"""Sparsity constraints as JSON. Only those of `fedsparse.problem.sparsity` can travel."""

from typing import Any

import numpy as np

from fedsparse.errors import OptionError
from fedsparse.problem.sparsity import (
    LowRank,
    Sparsity,
    TopK,
    TopKGroups,
    TopKPerClass,
    TopKRows,
)
from fedsparse.requests.wire.vectors import WireError

_KINDS: dict[str, type[Sparsity]] = {
    kind.__name__: kind for kind in (TopK, TopKPerClass, TopKRows, TopKGroups, LowRank)
}
_NUMBERS = {"sparsity", "rank"}


def constraint_to_json(constraint: Sparsity) -> dict[str, Any]:
    """A constraint's kind and parameters; groups are numbered, their labels stay here.

    Examples
    --------
    >>> constraint_to_json(TopK(5, keep=[0]))
    {'kind': 'TopK', 'sparsity': 5, 'keep': [0]}
    """
    kind = type(constraint).__name__
    if _KINDS.get(kind) is not type(constraint):
        raise OptionError(
            f"{constraint!r} cannot be sent to sites; use one of {', '.join(_KINDS)}, or a method "
            "that projects on the server only, such as FedHT"
        )
    return {"kind": kind} | _parameters(constraint)


def constraint_from_json(written: Any) -> Sparsity:
    """The constraint that `constraint_to_json` wrote.

    Examples
    --------
    >>> constraint_from_json({"kind": "LowRank", "rank": 2, "keep": []})
    LowRank(rank=2, keep=())
    """
    if not isinstance(written, dict) or written.get("kind") not in _KINDS:
        raise WireError("The constraint is of an unknown kind.")
    parameters = {name: value for name, value in written.items() if name != "kind"}
    for name, value in parameters.items():
        if not _is_whole(value) if name in _NUMBERS else not _is_list_of_wholes(value):
            raise WireError(f"The constraint's {name} is not a whole number, or a list of them.")
    lists = {name: tuple(value) for name, value in parameters.items() if name not in _NUMBERS}
    try:
        return _KINDS[written["kind"]](**(parameters | lists))
    except (TypeError, OptionError) as error:
        raise WireError(f"The constraint makes no sense: {error}.") from None


def _parameters(constraint: Sparsity) -> dict[str, Any]:
    if isinstance(constraint, TopKGroups):
        numbers = {label: number for number, label in enumerate(dict.fromkeys(constraint.groups))}
        return {
            "groups": [numbers[label] for label in constraint.groups],
            "sparsity": int(constraint.sparsity),
            "keep": [numbers[label] for label in constraint.keep],
        }
    if isinstance(constraint, LowRank):
        return {"rank": int(constraint.rank), "keep": _wholes(constraint.keep)}
    assert isinstance(constraint, (TopK, TopKPerClass, TopKRows))
    return {"sparsity": int(constraint.sparsity), "keep": _wholes(constraint.keep)}


def _wholes(numbers: Any) -> list[int]:
    return [int(number) for number in np.asarray(numbers, dtype=np.int64)]


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _is_list_of_wholes(value: Any) -> bool:
    return isinstance(value, list) and all(_is_whole(entry) for entry in value)
