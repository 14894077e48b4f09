"""The one decorator every compiled loop of the package carries."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered so that they vectorize, but NaN and infinity keep their meaning:
# they are how divergence is noticed.
_REORDER_SUMS = {"reassoc", "contract", "arcp", "nsz"}


def _forget_stale_code(folder: Path) -> None:
    """Remove compiled code older than any source of compiled functions in ``folder`` or below.

    numba notices a change in the file of a function, not in the files of those it calls, and
    would go on running the old callee inlined in the caller. Other sources do not matter: compiled
    functions use nothing from them.
    """
    indices = list(folder.rglob("__pycache__/*.nbi"))
    sources = {index.parent.parent / f"{index.name.partition('.')[0]}.py" for index in indices}
    newest = max((source.stat().st_mtime for source in sources if source.exists()), default=0.0)
    for index in indices:
        if index.stat().st_mtime < newest:
            index.unlink(missing_ok=True)


try:
    _forget_stale_code(Path(__file__).parent)
except OSError:
    pass  # a read-only installation, where sources do not change either

_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": _REORDER_SUMS,
    "error_model": "numpy",
}

compiled = cast(Callable[[Function], Function], njit(**_OPTIONS))
"""Compile a loop nest: runs without the interpreter lock, kept on disk between starts."""

inlined = cast(Callable[[Function], Function], njit(inline="always", **_OPTIONS))
"""Compile a few lines into every caller: for what is done once a row, where calls would show."""
