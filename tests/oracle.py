"""Plain NumPy reference for federated hard thresholding, written to be read beside the paper.

It shares no code with the library and does not try to be fast. Clients are dense pairs (Z_i, y_i).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
Client = tuple[Array, Array]

WORD = 2**64 - 1  # mask of 64-bit unsigned arithmetic
GOLDEN = 0x9E3779B97F4A7C15
PARTICIPATION = 2**64 - 1  # stands where the client's index stands in the key of a mini-batch

FEDERATED = ("FedHT", "FedIterHT", "DistributedIHT", "FedAvg", "FedProx")
CENTRALIZED = ("GDHT", "SGDHT", "HSGHT", "SVRGHT")


# ---------------------------------------------------------------- the problem


def loss_value(Z: Array, y: Array, x: Array, loss: str, l2: float) -> float:
    """f_i(x): one client's mean loss plus (l2/2) ||x||^2."""
    scores = Z @ x
    if loss == "squared":
        per_row = (y - scores) ** 2
    elif loss == "logistic":
        per_row = np.logaddexp(0.0, scores) - y * scores
    elif loss == "softmax":
        per_row = -log_softmax(scores)[np.arange(len(y)), y.astype(int)]
    else:
        raise ValueError(f"unknown loss {loss!r}")
    return float(np.mean(per_row) + 0.5 * l2 * np.sum(x**2))


def gradient(Z: Array, y: Array, x: Array, loss: str, l2: float) -> Array:
    """Gradient of f_i at x, the mean over the given rows plus l2 * x."""
    scores = Z @ x
    if loss == "squared":
        slopes = 2.0 * (scores - y)
    elif loss == "logistic":
        slopes = np.exp(-np.logaddexp(0.0, -scores)) - y
    elif loss == "softmax":
        slopes = np.exp(log_softmax(scores))
        slopes[np.arange(len(y)), y.astype(int)] -= 1.0
    else:
        raise ValueError(f"unknown loss {loss!r}")
    return Z.T @ slopes / len(y) + l2 * x


def log_softmax(scores: Array) -> Array:
    """Logarithms of the class probabilities, row by row."""
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))


def smoothness(Z: Array, loss: str, l2: float) -> float:
    """l_i: the smoothness constant of f_i, from the largest eigenvalue of Z'Z / B."""
    largest_eigenvalue = np.linalg.norm(Z, 2) ** 2 / len(Z)
    curvature = {"squared": 2.0, "logistic": 0.25, "softmax": 0.5}[loss]
    return float(curvature * largest_eigenvalue + l2)


def smoothness_thresholds(own: Array) -> Array:
    """256 numbers from the mean of l_i to the number of clients times it, evenly in logarithms."""
    mean = float(np.sum(own)) / len(own)
    share = np.arange(256) / 255
    return mean * np.exp(share * np.log(len(own))) * (1.0 + 1e-9)


def largest_smoothness(own: Array) -> float:
    """The lowest threshold that no l_i lies above; of one client, l_i itself."""
    if len(own) == 1:
        return float(own[0])
    thresholds = smoothness_thresholds(own)
    return float(min(t for t in thresholds if not np.any(own > t)))


def client_weights(clients: Sequence[Client], weights: str | Sequence[float] | Array) -> Array:
    """p_i: 1/N, n_i/n, or the given numbers as they are."""
    if isinstance(weights, str):
        if weights == "uniform":
            return np.full(len(clients), 1.0 / len(clients))
        if weights == "samples":
            samples = np.array([len(y) for _, y in clients], dtype=float)
            return samples / samples.sum()
        raise ValueError(f"unknown weights {weights!r}")
    return np.asarray(weights, dtype=float)


def objective(
    clients: Sequence[Client],
    x: Array,
    loss: str,
    l2: float = 0.0,
    weights: str | Sequence[float] | Array = "uniform",
) -> float:
    """f(x) = sum_i p_i f_i(x)."""
    p = client_weights(clients, weights)
    return float(
        sum(p_i * loss_value(Z, y, x, loss, l2) for p_i, (Z, y) in zip(p, clients, strict=True))
    )


def hard_threshold(x: Array, tau: int) -> Array:
    """H_tau: the tau largest magnitudes of each column; a tie goes to the lower index."""
    if x.ndim == 2:
        return np.column_stack([hard_threshold(column, tau) for column in x.T])
    kept = np.argsort(-np.abs(x), kind="stable")[:tau]
    result = np.zeros_like(x)
    result[kept] = x[kept]
    return result


# ---------------------------------------------------------------- random draws


def mix(z: int) -> int:
    """The finalizer of SplitMix64."""
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & WORD
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def key(*words: int) -> int:
    """One 64-bit key out of several 64-bit words."""
    h = 0
    for word in words:
        h = mix(((h ^ word) + GOLDEN) & WORD)
    return h


def uniform(h: int, j: int) -> float:
    """Number j of the stream of key h, in [0, 1)."""
    return (mix((h + (j + 1) * GOLDEN) & WORD) >> 11) * 2.0**-53


def draw(h: int, population: int, count: int) -> list[int]:
    """`count` of 0..population-1 without replacement: the start of a Fisher-Yates shuffle."""
    permutation = list(range(population))
    for j in range(count):
        s = j + math.floor(uniform(h, j) * (population - j))
        permutation[j], permutation[s] = permutation[s], permutation[j]
    return permutation[:count]


# ---------------------------------------------------------------- the algorithms


def extrapolated_step(p: Array, deltas: Sequence[Array]) -> float:
    """FedExP's eta = max(1, sum p_i ||delta_i||^2 / (2 ||sum p_i delta_i||^2))."""
    mean_of_squares = sum(p_i * np.sum(delta**2) for p_i, delta in zip(p, deltas, strict=True))
    square_of_mean = np.sum(sum(p_i * delta for p_i, delta in zip(p, deltas, strict=True)) ** 2)
    if square_of_mean == 0.0:
        return 1.0
    return max(1.0, float(mean_of_squares / (2.0 * square_of_mean)))


def run(
    name: str,
    clients: Sequence[Client],
    *,
    loss: str,
    rounds: int,
    sparsity: int | None = None,
    local_steps: int = 1,
    step_size: float | str | Callable[[int], float] = "auto",
    l2: float = 0.0,
    batch: int | None = None,
    growing: tuple[float, float] | None = None,
    variance_reduction: bool | int = False,
    server_step: float | str = 1.0,
    weights: str | Sequence[float] | Array = "uniform",
    clients_per_round: int | None = None,
    proximal: float = 0.0,
    classes: int | None = None,
    seed: int = 0,
) -> list[Array]:
    """Iterates x_0, ..., x_T of the named algorithm; `growing` is (first, factor).

    Arguments that a named method fixes are overridden (local_steps of Distributed-IHT, say).
    """
    if name not in FEDERATED + CENTRALIZED:
        raise ValueError(f"unknown algorithm {name!r}")
    if name in CENTRALIZED and len(clients) != 1:
        raise ValueError(f"{name} runs on one client")
    if name == "HSGHT" and growing is None:
        raise ValueError("HSGHT needs a growing batch")
    if name in ("DistributedIHT", "GDHT", "SGDHT", "HSGHT"):
        local_steps = 1
    if name == "GDHT":
        batch = None
    if name in CENTRALIZED:
        variance_reduction = name == "SVRGHT"
        growing = growing if name == "HSGHT" else None
        server_step = 1.0
    if name != "FedProx":
        proximal = 0.0
    threshold_locally = name in ("FedIterHT", "SVRGHT")
    threshold_at_server = name not in ("FedAvg", "FedProx")
    if threshold_at_server and sparsity is None:
        raise ValueError(f"{name} needs a sparsity")

    features = clients[0][0].shape[1]
    if loss == "softmax":
        if classes is None:
            classes = 1 + max(int(y.max()) for _, y in clients)
        x_t = np.zeros((features, classes))
    else:
        x_t = np.zeros(features)
    all_weights = client_weights(clients, weights)
    iterates = [x_t]

    for t in range(rounds):
        if callable(step_size):
            gamma = step_size(t)
        elif step_size == "auto":
            own = np.array([smoothness(Z, loss, l2) for Z, _ in clients])
            gamma = 1.0 / (largest_smoothness(own) + proximal)
        else:
            gamma = step_size
        batch_size = batch if growing is None else math.ceil(growing[0] * growing[1] ** t)
        if variance_reduction:
            snapshot = iterates[t // int(variance_reduction) * int(variance_reduction)]
        participants = list(range(len(clients)))
        if clients_per_round is not None and clients_per_round < len(clients):
            participants = sorted(
                draw(key(seed, PARTICIPATION, t, 0), len(clients), clients_per_round)
            )

        deltas = []
        for i in participants:
            Z, y = clients[i]
            x = x_t
            for k in range(local_steps):
                rows = list(range(len(y)))
                if batch_size is not None and batch_size < len(y):
                    rows = draw(key(seed, i, t, k), len(y), batch_size)
                g = gradient(Z[rows], y[rows], x, loss, l2)
                if variance_reduction:
                    g = g - gradient(Z[rows], y[rows], snapshot, loss, l2)
                    g = g + gradient(Z, y, snapshot, loss, l2)
                x = x - gamma * (g + proximal * (x - x_t))
                if threshold_locally:
                    x = hard_threshold(x, sparsity)
            deltas.append(x - x_t)

        p = all_weights[participants] / all_weights[participants].sum()
        eta = extrapolated_step(p, deltas) if server_step == "extrapolated" else server_step
        x_t = x_t + eta * sum(p_i * delta for p_i, delta in zip(p, deltas, strict=True))
        if threshold_at_server:
            x_t = hard_threshold(x_t, sparsity)
        iterates.append(x_t)
    return iterates


# ---------------------------------------------------------------- the rivals

AGE = 2**64 - 2  # stands where the client's index stands when it is drawn how old an x is


def zero(clients: Sequence[Client], loss: str) -> Array:
    """x_0."""
    features = clients[0][0].shape[1]
    if loss != "softmax":
        return np.zeros(features)
    return np.zeros((features, 1 + max(int(y.max()) for _, y in clients)))


def mean_gradient(clients: Sequence[Client], x: Array, loss: str, l2: float, p: Array) -> Array:
    """∇f(x)."""
    return sum(p_i * gradient(Z, y, x, loss, l2) for p_i, (Z, y) in zip(p, clients, strict=True))


def hessian(Z: Array, x: Array, loss: str, l2: float) -> Array:
    """Second derivatives of f_i by all entries of x, class by class."""
    if loss == "squared":
        bends = np.full((len(Z), 1, 1), 2.0)
    elif loss == "logistic":
        s = 1.0 / (1.0 + np.exp(-(Z @ x)))
        bends = (s * (1.0 - s))[:, None, None]
    else:
        s = np.exp(log_softmax(Z @ x))
        bends = s[:, :, None] * np.eye(s.shape[1]) - s[:, :, None] * s[:, None, :]
    full = np.einsum("rab,rj,rk->ajbk", bends, Z, Z).reshape(x.size, x.size) / len(Z)
    return full + l2 * np.eye(x.size)


def newton(
    clients: Sequence[Client], x: Array, places: Array, loss: str, l2: float, p: Array
) -> Array:
    """The lowest point, on some entries, of the quadratic that touches f at x."""
    H = sum(p_i * hessian(Z, x, loss, l2) for p_i, (Z, _) in zip(p, clients, strict=True))
    g = mean_gradient(clients, x, loss, l2, p).ravel(order="F")
    now, moved = x.ravel(order="F"), np.zeros(x.size)
    moved[places] = np.linalg.solve(H[np.ix_(places, places)], (H @ now - g)[places])
    return moved.reshape(x.shape, order="F")


def support(x: Array) -> Array:
    """Entries of x that are not zero, class by class."""
    return np.flatnonzero(x.ravel(order="F"))


def grasp(
    clients: Sequence[Client],
    *,
    loss: str,
    iterations: int,
    sparsity: int,
    l2: float = 0.0,
    debias: bool = False,
    weights: str | Sequence[float] = "uniform",
) -> Array:
    """GraSP with a Newton step on 2τ entries of the gradient and the support; CoSaMP if squared."""
    p, x = client_weights(clients, weights), zero(clients, loss)
    for _ in range(iterations):
        z = mean_gradient(clients, x, loss, l2, p)
        union = np.union1d(support(hard_threshold(z, 2 * sparsity)), support(x))
        pruned = hard_threshold(newton(clients, x, union, loss, l2, p), sparsity)
        x = newton(clients, x, support(pruned), loss, l2, p) if debias else pruned
    return x


def htp(
    clients: Sequence[Client],
    *,
    iterations: int,
    sparsity: int,
    step_size: float,
    l2: float = 0.0,
    weights: str | Sequence[float] = "uniform",
) -> Array:
    """Hard thresholding pursuit for the squared loss: a step, H_τ, least squares on the support."""
    p, x = client_weights(clients, weights), zero(clients, "squared")
    for _ in range(iterations):
        x = hard_threshold(x - step_size * mean_gradient(clients, x, "squared", l2, p), sparsity)
        x = newton(clients, x, support(x), "squared", l2, p)
    return x


def corrected_step(
    client: Client, x: Array, rows: Array, s: Array, c: Array, loss: str, l2: float
) -> Array:
    """g_i(x) − g_i(s) + c on some rows, the ℓ2 term that of x; c is without it."""
    Z, y = client
    g_x = gradient(Z[rows], y[rows], x, loss, 0.0)
    return g_x - gradient(Z[rows], y[rows], s, loss, 0.0) + c + l2 * x


def rows_of(client: Client, i: int, batch: int | None, seed: int, t: int, k: int) -> Array:
    """All rows of a client, or those of a mini-batch."""
    count = len(client[1])
    if batch is None or batch >= count:
        return np.arange(count)
    return np.array(draw(key(seed, i, t, k), count, batch))


def scaffold(
    clients: Sequence[Client],
    *,
    loss: str,
    rounds: int,
    sparsity: int,
    local_steps: int,
    step_size: float,
    thresholds_locally: bool = False,
    server_step: float | str = 1.0,
    batch: int | None = None,
    l2: float = 0.0,
    weights: str | Sequence[float] = "uniform",
    seed: int = 0,
) -> Array:
    """SCAFFOLD, option I, everyone in every round, with H_τ; the first round is for c alone."""
    p, x_t = client_weights(clients, weights), zero(clients, loss)
    s, c = x_t, mean_gradient(clients, x_t, loss, 0.0, p)
    for t in range(1, rounds):
        deltas = []
        for i, client in enumerate(clients):
            x = x_t
            for k in range(local_steps):
                rows = rows_of(client, i, batch, seed, t, k)
                x = x - step_size * corrected_step(client, x, rows, s, c, loss, l2)
                x = hard_threshold(x, sparsity) if thresholds_locally else x
            deltas.append(x - x_t)
        eta = extrapolated_step(p, deltas) if server_step == "extrapolated" else server_step
        s, c = x_t, mean_gradient(clients, x_t, loss, 0.0, p)
        change = sum(p_i * delta for p_i, delta in zip(p, deltas, strict=True))
        x_t = hard_threshold(x_t + eta * change, sparsity)
    return x_t


def async_svrg(
    clients: Sequence[Client],
    *,
    loss: str,
    rounds: int,
    sparsity: int,
    staleness: int,
    updates: int,
    step_size: float,
    clients_per_round: int,
    batch: int | None = None,
    l2: float = 0.0,
    weights: str | Sequence[float] = "uniform",
    seed: int = 0,
) -> Array:
    """SVRG-HT whose updates are worked out at an x up to `staleness` updates old."""
    p, x = client_weights(clients, weights), zero(clients, loss)
    since: list[Array] = []  # iterates from the snapshot on
    for t in range(rounds):
        if not since or len(since) > updates:
            s, c, since = x, mean_gradient(clients, x, loss, 0.0, p), [x]
            continue
        readable = since[-staleness - 1 :]
        old = readable[draw(key(seed, AGE, t, 0), len(readable), 1)[0]]
        next_ones = draw(key(seed, PARTICIPATION, t, 0), len(clients), clients_per_round)
        v = sum(
            p[i]
            * corrected_step(
                clients[i], old, rows_of(clients[i], i, batch, seed, t, 0), s, c, loss, l2
            )
            for i in sorted(next_ones)
        ) / sum(p[i] for i in next_ones)
        x = hard_threshold(x - step_size * v, sparsity)
        since.append(x)
    return x
