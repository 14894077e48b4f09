"""Simulated federations of Tong, Liang, Zhu and Bi, "Federated Nonconvex Sparse Learning".

Every client draws its own coefficients and its own centre of the features, so clients disagree both
about the model and about where their data lie. α sets how much the models differ, β how much the
centres do. The second argument of N is a variance throughout.
"""

from dataclasses import dataclass

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.checks import check_count, check_not_negative, check_seed
from fedsparse.compute.workers import side_by_side
from fedsparse.errors import OptionError
from fedsparse.problem.federated import FederatedData

COEFFICIENT_MEAN = 0.1
"""Mean of u_i, around which a client's coefficients and offsets lie."""

DECAY = 1.2
"""The j-th feature has variance j^(−1.2) within a client."""


@dataclass(frozen=True)
class _Population:
    """What the clients are drawn from."""

    samples: int
    width: int
    relevant: int
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        for name in ("samples", "width", "relevant"):
            check_count(name, getattr(self, name))
        if self.relevant > self.width:
            raise OptionError(
                f"relevant is {self.relevant}, but there are only {self.width} features; "
                "lower relevant or raise width"
            )
        for name in ("alpha", "beta"):
            check_not_negative(name, getattr(self, name))

    def draw_client(self, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw one client's features z_ij and noisy scores z_ij·x_i + b_ij."""
        mean = random.normal(COEFFICIENT_MEAN, np.sqrt(self.alpha))  # u_i
        coefficients = random.normal(mean, 1.0, self.relevant)  # x_i; the rest are 0
        centre_mean = random.normal(0.0, np.sqrt(self.beta))  # B_i
        centre = random.normal(centre_mean, 1.0, self.width)  # v_i
        features = random.standard_normal((self.samples, self.width))
        # Rounded, because the last bit of a power differs between processors.
        features *= np.round(np.arange(1, self.width + 1) ** (-DECAY / 2), 12)
        features += centre
        offsets = random.normal(mean, 1.0, self.samples)  # b_ij
        return features, offsets + _products(features[:, : self.relevant], coefficients)


def simulation_1(
    *,
    clients: int = 100,
    samples: int = 100,
    width: int = 1000,
    relevant: int = 100,
    alpha: float = 0.1,
    beta: float = 0.1,
    seed: int = 0,
) -> FederatedData:
    """Draw Simulation I: linear regression on clients that disagree.

    Client i draws u_i ~ N(0.1, α) and B_i ~ N(0, β). Its first ``relevant`` coefficients are
    N(u_i, 1), the others 0. The entries of its centre v_i are N(B_i, 1), its rows are
    z ~ N(v_i, diag(j^(−1.2))), and the targets are y = z·x_i + b with b ~ N(u_i, 1).

    Parameters
    ----------
    clients
        Number of clients N.
    samples
        Rows of each client.
    width
        Number of features d.
    relevant
        How many of the first features carry a coefficient.
    alpha
        Variance of u_i: how much the clients' models differ.
    beta
        Variance of B_i: how much the clients' features differ.
    seed
        Same seed, same data. Client i's rows do not depend on the number of clients.

    Returns
    -------
    FederatedData
        Dense float64 features, with real targets for ``loss="squared"``.

    Examples
    --------
    >>> simulation_1(clients=3, samples=5, width=20, relevant=4)
    FederatedData(3 clients, 15 rows, 20 features, dense float64)
    """
    population = _Population(samples, width, relevant, alpha, beta)
    generators = _client_generators(clients, seed)
    return FederatedData.from_clients(side_by_side(population.draw_client, generators))


def simulation_2(
    *,
    clients: int = 100,
    samples: int = 1000,
    width: int = 1000,
    relevant: int = 100,
    positives: int = 100,
    alpha: float = 1.0,
    beta: float = 1.0,
    seed: int = 0,
) -> FederatedData:
    """Draw Simulation II: classification on clients that disagree.

    Rows and scores z·x_i + b are drawn as in `simulation_1`; on every client the rows with the
    highest scores are labelled 1, the others 0.

    Parameters
    ----------
    clients, samples, width, relevant, alpha, beta, seed
        As in `simulation_1`.
    positives
        How many rows of each client are labelled 1.

    Returns
    -------
    FederatedData
        Dense float64 features, with labels 0 and 1 for ``loss="logistic"``.

    Examples
    --------
    >>> data = simulation_2(clients=3, samples=50, width=20, relevant=4, positives=5)
    >>> data.client(1).targets.sum()
    np.float64(5.0)
    """
    population = _Population(samples, width, relevant, alpha, beta)
    check_count("positives", positives)
    if positives >= samples:
        raise OptionError(
            f"positives is {positives}, but a client has only {samples} rows, some of which must "
            "be labelled 0; lower positives or raise samples"
        )
    drawn = side_by_side(population.draw_client, _client_generators(clients, seed))
    return FederatedData.from_clients(
        [(features, _label_highest(scores, positives)) for features, scores in drawn]
    )


def _products(rows: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Scores z·x, summed in a fixed order: a library's product differs between processors."""
    scores = np.zeros(rows.shape[0])
    for column, coefficient in zip(rows.T, coefficients, strict=True):
        scores += column * coefficient
    return scores


def _label_highest(scores: FloatArray, positives: int) -> FloatArray:
    labels = np.zeros(scores.size)
    labels[np.argsort(-scores, kind="stable")[:positives]] = 1.0
    return labels


def _client_generators(clients: int, seed: int) -> list[np.random.Generator]:
    """Independent streams; the i-th is the same however many there are."""
    check_count("clients", clients)
    check_seed(seed)
    streams = np.random.SeedSequence(seed).spawn(clients)
    return [np.random.Generator(np.random.PCG64(stream)) for stream in streams]
