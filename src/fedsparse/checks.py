"""Checks on options that many places share."""

import math
from typing import Any

import numpy as np

from fedsparse.errors import OptionError


def check_count(name: str, value: object) -> None:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise OptionError(f"{name} must be a whole number of at least 1, not {value!r}")


def check_not_negative(name: str, value: object) -> None:
    """A finite number of at least 0."""
    if not is_number(value) or value < 0:  # type: ignore[operator]
        raise OptionError(f"{name} must be a number ≥ 0, not {value!r}")


def check_seed(seed: object) -> None:
    """A whole number from 0 to 2⁶³ − 1."""
    is_whole = isinstance(seed, (int, np.integer)) and not isinstance(seed, bool)
    if not is_whole or not 0 <= seed < 2**63:  # type: ignore[operator]
        raise OptionError(f"seed must be a whole number from 0 to 2**63 - 1, not {seed!r}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite real number."""
    is_real = isinstance(value, (int, float, np.integer, np.floating))
    return is_real and not isinstance(value, bool) and math.isfinite(value)
