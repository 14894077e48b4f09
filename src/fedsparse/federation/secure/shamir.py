"""Shamir's secret sharing: any `threshold` shares give a secret back, fewer tell nothing of it.

A. Shamir, "How to share a secret", Communications of the ACM 22(11), 1979.
"""

import secrets
from collections.abc import Mapping

PRIME = 2**521 - 1
"""The field's size, a Mersenne prime above every secret."""

SHARE_BYTES = 66
SECRET_BYTES = 32


def split(secret: bytes, threshold: int, count: int) -> list[bytes]:
    """Shares of a secret of 32 bytes; share number k (from 0) is the polynomial at k + 1.

    Examples
    --------
    >>> shares = split(bytes(range(32)), threshold=2, count=3)
    >>> join({0: shares[0], 2: shares[2]}) == bytes(range(32))
    True
    """
    assert len(secret) == SECRET_BYTES
    assert 1 <= threshold <= count
    coefficients = [
        int.from_bytes(secret),
        *(secrets.randbelow(PRIME) for _ in range(threshold - 1)),
    ]
    return [_at(coefficients, place + 1).to_bytes(SHARE_BYTES) for place in range(count)]


def join(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret that shares give by their numbers; None if they give none of 32 bytes.

    As many as the threshold are needed: fewer, or a wrong one, give something else.
    """
    points = {place + 1: int.from_bytes(share) for place, share in shares.items()}
    total = 0
    for x, y in points.items():
        above = below = 1
        for other in points:
            if other != x:
                above = above * other % PRIME
                below = below * (other - x) % PRIME
        total = (total + y * above * pow(below, -1, PRIME)) % PRIME
    return total.to_bytes(SECRET_BYTES) if total < 2 ** (8 * SECRET_BYTES) else None


def _at(coefficients: list[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value
