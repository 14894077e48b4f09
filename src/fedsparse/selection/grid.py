"""Which τ to try."""

from fedsparse.data.federated import FederatedData

_STEPS = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80)


def default_sparsities(data: FederatedData, keep: int = 0) -> list[int]:
    """τ from 1 (or the features to keep) upwards, each about one and a half times the last.

    At most as many as there are features, and a third of the rows: more cannot be told apart.

    Examples
    --------
    >>> data = FederatedData.from_clients([([[1.0] * 50] * 40, [0.0] * 40)])
    >>> default_sparsities(data)
    [1, 2, 3, 5, 8, 12]
    """
    most = max(min(data.width, data.samples // 3), keep, 1)
    steps = [step for step in _STEPS if max(keep, 1) <= step <= most] or [most]
    # All features together, where there are few.
    return sorted({*steps, most}) if most == data.width <= _STEPS[-1] else steps
