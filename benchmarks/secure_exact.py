"""What fixed point costs in digits: coefficients of secure sums beside those of float64.

`LocalEngine(sums="fixed")` adds up the integers that sites add up under masks, to the same bits.
The last line of each set is another comparison: where sums are open, FedSplice's second derivatives
travel in a few bits, in `fedsparse fit` as well. Under masks they do not, and other features may be
found.
"""

import numpy as np

import fedsparse as fs
from benchmarks.lockstep import GENES, ROWS
from benchmarks.tables import show
from fedsparse.modelling.fitting import FitOptions, fit

MOST = 1e-9
ROUNDED = "FedSplice, a few bits"
METHODS = {
    "FedSplice": lambda tau: None,
    "FedIterHT": lambda tau: fs.FedIterHT(tau),
    ROUNDED: lambda tau: None,
}


def genes():
    """As many rows and genes as in `benchmarks.lockstep`, and two kinds."""
    random = np.random.default_rng(3)
    weights = np.zeros(GENES)
    weights[[10, 200, 3000, 5000]] = (1.5, -1.2, 1.0, -0.8)
    clients = []
    for count in ROWS:
        rows = random.standard_normal((count, GENES))
        score = rows @ weights + 0.5 * random.standard_normal(count)
        clients.append((rows, (score > 0).astype(int)))
    return fs.FederatedData.from_clients(clients)


SETS = {
    "Simulation I": (fs.datasets.simulation_1, "squared", 100, 40),
    "Simulation II": (
        lambda: fs.datasets.simulation_2(samples=100, positives=30),
        "logistic",
        30,
        40,
    ),
    "genes": (genes, "logistic", 10, 40),
}
"""Data, loss, τ and rounds."""


def coefficients(data, loss, tau, rounds, method, sums):
    """Coefficients and intercept of a model."""
    loss = fs.SquaredError() if loss == "squared" else fs.Logistic(8.0 / data.samples)
    engine = fs.LocalEngine(data, loss, sums=sums)
    message_bytes = fs.FedSplice.message_bytes if method == ROUNDED else None
    options = FitOptions(
        loss, algorithm=METHODS[method](tau), rounds=rounds, message_bytes=message_bytes
    )
    try:
        found = fs.converse(engine, fit(engine, tau, options))
    finally:
        engine.close()
    return np.append(found.coefficients.ravel(), found.intercept), found.result


def main():
    rows, worst = [], 0.0
    for name, (make, loss, tau, rounds) in SETS.items():
        data = make()
        for method in METHODS:
            plain, result = coefficients(data, loss, tau, rounds, method, "float")
            fixed, secure = coefficients(data, loss, tau, rounds, method, "fixed")
            difference = float(np.linalg.norm(fixed - plain) / np.linalg.norm(plain))
            worst = max(worst, difference if method != ROUNDED else 0.0)
            same = np.array_equal(np.flatnonzero(plain), np.flatnonzero(fixed))
            rows.append(
                [
                    f"{name}, {len(data.names)} sites, {data.samples:,} × {data.width:,}", method,
                    np.count_nonzero(plain), "yes" if same else "NO",
                    f"{result.objective:.6g}", f"{secure.objective:.6g}",
                    f"{difference:.1e}", f"{difference / MOST:.0e}×",
                ]
            )  # fmt: skip
    show(
        f"Coefficients of secure sums beside those of float64 (at most {MOST:g} apart)",
        [
            "set", "method", "coefficients", "same features", "f", "f of secure sums",
            "relative difference", "of 1e-9",
        ],
        rows,
    )  # fmt: skip
    assert worst <= MOST, worst


if __name__ == "__main__":
    main()
