"""Models of several sparsities, each starting from the one before."""

from collections.abc import Iterable
from typing import Any

from fedsparse.algorithms.splicing import FedSplice
from fedsparse.checks import check_count
from fedsparse.engines.result import Result
from fedsparse.engines.run import run
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import Loss


def sparsity_path(
    data: FederatedData,
    sparsities: Iterable[int],
    *,
    loss: str | Loss = "squared",
    rounds: int = 100,
    seed: int = 0,
    **options: Any,
) -> dict[int, Result]:
    """FedSplice for several τ, from small to large, each started at the model before.

    Parameters
    ----------
    data
        The clients.
    sparsities
        τ values, in any order.
    loss, rounds, seed
        As in `run`; the rounds are those of one model.
    options
        Further options of `FedSplice`.

    Returns
    -------
    dict
        A `Result` by τ, in increasing order. Its history counts the rounds of that model alone.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=5, samples=40, width=30, relevant=3)
    >>> path = fs.sparsity_path(data, [4, 2])
    >>> [(sparsity, result.support.size) for sparsity, result in path.items()]
    [(2, 2), (4, 4)]
    """
    wanted = sorted(set(sparsities))
    if not wanted:
        raise OptionError("there are no sparsities; give at least one, such as [5, 10, 20]")
    for sparsity in wanted:
        check_count("sparsities", sparsity)
    results: dict[int, Result] = {}
    before = None
    for sparsity in wanted:
        algorithm = FedSplice(sparsity, start_at=before, **options)
        results[sparsity] = run(algorithm, data, loss=loss, rounds=rounds, seed=seed)
        before = results[sparsity].coef
    return results
