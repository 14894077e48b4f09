"""Ways to split one table over clients.

Each gives the number 0, …, N − 1 of the client that owns a row, for every row; hand the result to
`FederatedData.from_table` as its sites.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fedsparse.arrays import AnyArray, BoolArray, Int64Array
from fedsparse.checks import check_count, check_seed, is_number
from fedsparse.errors import DataError, OptionError
from fedsparse.problem.checking import as_targets
from fedsparse.problem.federated import FederatedData

LARGEST_ALPHA = 1e6
"""Beyond it the clients' shares of a label are even to three digits."""


def by_categories(
    categories: ArrayLike,
    *,
    clients: int = 100,
    parts: int = 20,
    per_client: int = 2,
    seed: int = 0,
) -> Int64Array:
    """Give each client rows of a few categories only: the paper's non-IID split.

    The rows of every category are shuffled and cut evenly into parts. Each client takes parts of
    different categories at random, and every part is taken once.

    Parameters
    ----------
    categories
        The category of each row: a cluster, or for digits the digit.
    clients
        Number of clients N.
    parts
        Parts per category; their sizes differ by one row at most.
    per_client
        Parts per client. Categories × parts must equal clients × per_client.
    seed
        Same seed, same split.

    Examples
    --------
    >>> owners = by_categories(["a"] * 6 + ["b"] * 6, clients=3, parts=3)
    >>> np.bincount(owners).tolist()
    [4, 4, 4]
    """
    for name, value in (("clients", clients), ("parts", parts), ("per_client", per_client)):
        check_count(name, value)
    random = seeded_generator(seed)
    values, codes, sizes = _coded(categories, "categories")
    _check_deal(len(values), clients, parts, per_client)
    for value, size in zip(values, sizes, strict=True):
        if size < parts:
            raise DataError(
                f"category {value} has {size} rows, too few for {parts} parts of at least one row; "
                "merge it with another category or cut into fewer parts"
            )
    takes = _deal(len(values), clients, parts, per_client, random)
    owners = np.empty(codes.size, dtype=np.int64)
    for code, size in enumerate(sizes):
        takers = random.permutation(np.flatnonzero(takes[:, code]))
        rows = random.permutation(np.flatnonzero(codes == code))
        owners[rows] = takers[np.arange(size) % parts]
    return owners


def iid(samples: int, *, clients: int = 100, seed: int = 0) -> Int64Array:
    """Deal shuffled rows out evenly: every client sees the same distribution.

    Parameters
    ----------
    samples
        Number of rows.
    clients
        Number of clients N; their sizes differ by one row at most.
    seed
        Same seed, same split.

    Examples
    --------
    >>> np.bincount(iid(10, clients=3)).tolist()
    [4, 3, 3]
    """
    check_count("samples", samples)
    _check_enough_rows(samples, clients)
    return seeded_generator(seed).permutation(np.arange(samples, dtype=np.int64) % clients)


def dirichlet(
    labels: ArrayLike, *, clients: int = 100, alpha: float = 0.5, seed: int = 0
) -> Int64Array:
    """Divide the rows of each label in random proportions, drawn from Dirichlet(α, …, α).

    A client that would be left without rows then takes one, drawn at random from the client that
    has most.

    Parameters
    ----------
    labels
        The label of each row.
    clients
        Number of clients N, at most the number of rows.
    alpha
        Concentration α: near 0 a label sits on few clients, large values spread it evenly.
    seed
        Same seed, same split.

    Examples
    --------
    >>> owners = dirichlet([0] * 50 + [1] * 50, clients=4, alpha=0.1)
    >>> owners.size, np.unique(owners).tolist()
    (100, [0, 1, 2, 3])
    """
    if not is_number(alpha) or not 0 < alpha <= LARGEST_ALPHA:
        raise OptionError(
            f"alpha must be a number above 0 and at most {LARGEST_ALPHA:g}, not {alpha!r}; "
            "for an even split use iid"
        )
    random = seeded_generator(seed)
    _, codes, sizes = _coded(labels, "labels")
    _check_enough_rows(codes.size, clients)
    owners = np.empty(codes.size, dtype=np.int64)
    for code, size in enumerate(sizes):
        shares = random.dirichlet(np.full(clients, float(alpha)))
        rows = random.permutation(np.flatnonzero(codes == code))
        owners[rows] = np.searchsorted(np.cumsum(shares), (np.arange(size) + 0.5) / size)
    _fill_empty_clients(owners, clients, random)
    return owners


def by_column(values: ArrayLike) -> Int64Array:
    """Make a client of each distinct value, such as a label or a site, in sorted order.

    ``FederatedData.from_table(X, y, values)`` makes the same split and keeps the values as the
    clients' names; prefer it where numbers are not needed.

    Parameters
    ----------
    values
        One value per row.

    Examples
    --------
    >>> by_column(["Lyon", "Bern", "Lyon"]).tolist()
    [1, 0, 1]
    """
    _, codes, _ = _coded(values, "values")
    return codes


@dataclass(frozen=True)
class SamplesPerDevice:
    """How many rows clients hold, as in the paper's Table 2.

    Attributes
    ----------
    clients, samples
        Number of clients, and of rows of all of them.
    mean, standard_deviation
        Of the rows per client. It is the sample standard deviation, with N − 1 in the
        denominator; NaN for a single client.
    minimum, maximum
        Rows of the smallest and of the largest client.
    """

    clients: int
    samples: int
    mean: float
    standard_deviation: float
    minimum: int
    maximum: int


def samples_per_device(data: FederatedData | ArrayLike) -> SamplesPerDevice:
    """Summarize how many rows clients hold.

    Parameters
    ----------
    data
        A federation, or the owner of each row.

    Examples
    --------
    >>> held = samples_per_device(["Bern", "Lyon", "Bern", "Bern", "Lyon", "Bern"])
    >>> held.mean, round(held.standard_deviation, 2), held.minimum, held.maximum
    (3.0, 1.41, 2, 4)
    """
    counts = data.counts if isinstance(data, FederatedData) else _coded(data, "owners")[2]
    return SamplesPerDevice(
        clients=counts.size,
        samples=int(counts.sum()),
        mean=float(counts.mean()),
        standard_deviation=float(counts.std(ddof=1)) if counts.size > 1 else float("nan"),
        minimum=int(counts.min()),
        maximum=int(counts.max()),
    )


def seeded_generator(seed: int) -> np.random.Generator:
    """Make the generator that splits are drawn from.

    Examples
    --------
    >>> seeded_generator(3).integers(100) == seeded_generator(3).integers(100)
    np.True_
    """
    check_seed(seed)
    return np.random.Generator(np.random.PCG64(int(seed)))


def _coded(values: ArrayLike, what: str) -> tuple[AnyArray, Int64Array, Int64Array]:
    """Distinct values in sorted order, each row's place among them, and their numbers of rows."""
    shape = np.shape(values)
    rows = shape[0] if shape else 0
    array = as_targets(values, rows, "the table", what)
    if rows == 0:
        raise DataError(f"there are no {what}; give one per row")
    missing = np.flatnonzero(array != array)
    if missing.size:
        raise DataError(f"row {missing[0]} of the {what} is missing; remove or fill the row")
    distinct, codes, counts = np.unique(array, return_inverse=True, return_counts=True)
    return distinct, codes.astype(np.int64), counts.astype(np.int64)


def _check_enough_rows(samples: int, clients: int) -> None:
    check_count("clients", clients)
    if samples < clients:
        raise OptionError(
            f"clients is {clients}, but there are only {samples} rows; "
            f"lower clients to at most {samples}"
        )


def _check_deal(categories: int, clients: int, parts: int, per_client: int) -> None:
    if per_client > categories:
        raise OptionError(
            f"per_client is {per_client}, but there are only {categories} different categories; "
            f"lower per_client to at most {categories}"
        )
    if categories * parts != clients * per_client:
        raise OptionError(
            f"{categories} categories × {parts} parts are {categories * parts} parts, but "
            f"{clients} clients × {per_client} per client are {clients * per_client}; "
            f"set {_numbers_that_fit(categories, clients, parts, per_client)}"
        )


def _numbers_that_fit(categories: int, clients: int, parts: int, per_client: int) -> str:
    """Change the number of parts if that is enough, else of clients, else of both."""
    if clients * per_client % categories == 0:
        return f"parts to {clients * per_client // categories}"
    if categories * parts % per_client == 0:
        return f"clients to {categories * parts // per_client}"
    times = max(1, round(clients / categories))
    return f"parts to {per_client * times} and clients to {categories * times}"


def _deal(
    categories: int, clients: int, parts: int, per_client: int, random: np.random.Generator
) -> BoolArray:
    """Say which client takes a part of which category.

    One client after the other draws categories, each with a chance in proportion to its parts left.
    A category with as many parts left as clients wait must go to all of them, so it comes first.
    Thus no category ever has more parts left than clients wait, and the deal always completes.
    """
    takes = np.zeros((clients, categories), dtype=np.bool_)
    left = np.full(categories, parts)
    for turn, client in enumerate(random.permutation(clients)):
        # The largest of weight / exponential are a weighted draw without replacement.
        priority = left / random.standard_exponential(categories)
        priority[left == clients - turn] = np.inf
        takes[client, np.argsort(-priority)[:per_client]] = True
        left -= takes[client]
    return takes


def _fill_empty_clients(owners: Int64Array, clients: int, random: np.random.Generator) -> None:
    counts = np.bincount(owners, minlength=clients)
    for empty in np.flatnonzero(counts == 0):
        giver = counts.argmax()
        owners[random.choice(np.flatnonzero(owners == giver))] = empty
        counts[giver] -= 1
        counts[empty] = 1
