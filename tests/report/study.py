"""Made-up tables of a reproduction, shared by the tests of its figures and page."""

import numpy as np
import polars as pl

from fedsparse.research.experiments.experiment_tables import Tables

ROUNDS = 12
CLIENTS = 10


def made_up_tables(names=("simulation-1", "e2006", "mnist"), **changes):
    parts = {
        "results": pl.concat([made_up_results(name) for name in names]),
        "experiments": made_up_experiments(),
        "clusters": made_up_clusters(),
        "claims": made_up_claims(),
        "scaling": made_up_scaling(),
        "slopes": made_up_slopes(),
    }
    return Tables(**{**parts, **changes})


def made_up_results(experiment):
    """A grid of two K and two γ, and final runs of three seeds.

    The larger γ diverges, with FedIter-HT ends above f(0), and with Fed-HT and K = 10 both diverge.
    """
    grid = [
        made_up_run(experiment, algorithm, "grid", steps=steps, step_size=size)
        for algorithm in ("Fed-HT", "FedIter-HT")
        for steps in (3, 10)
        for size in (0.01, 0.1)
    ]
    final = [
        made_up_run(experiment, algorithm, "final", server=server, steps=steps, seed=seed)
        for algorithm, steps in (("Distributed-IHT", 1), ("Fed-HT", 3), ("FedIter-HT", 10))
        for server in ("plain", "adaptive")
        for seed in range(3)
    ]
    spliced = [
        made_up_run(experiment, "FedSplice", "final", steps=None, step_size=None, seed=seed)
        for seed in range(3)
    ]
    return pl.concat(grid + final + spliced)


def made_up_run(experiment, algorithm, stage, *, server="plain", steps, step_size=None, seed=0):
    is_large = step_size == 0.1 or (step_size == 0.01 and algorithm == "Fed-HT" and steps == 10)
    ends_high = is_large and algorithm == "FedIter-HT"
    has_diverged = is_large and not ends_high
    is_spliced = algorithm == "FedSplice"
    rounds = np.arange(3 if has_diverged else 5 + seed if is_spliced else ROUNDS + 1)
    rate = 3.0 if is_spliced else 0.1 * (1 + steps / 5) * (1.5 if server == "adaptive" else 1.0)
    falling = 100 * np.exp(-rate * rounds) * (1 + 0.1 * seed) + (0.5 if is_spliced else 1)
    rising = 101.0 * (10.0 if has_diverged else 1.1) ** rounds
    if stage == "final" and server == "plain" and not is_spliced:
        step_size = 0.01
    return pl.DataFrame(
        {
            "experiment": experiment,
            "seed": seed,
            "stage": stage,
            "algorithm": algorithm,
            "server": server,
            "local_steps": pl.Series([steps] * rounds.size, dtype=pl.Int64),
            "step_size": pl.Series([step_size] * rounds.size, dtype=pl.Float64),
            "diverged": has_diverged,
            "round": rounds,
            "iterations": (steps or 0) * rounds,
            "objective": rising if is_large else falling,
            "nonzeros": np.minimum(20, 100 * rounds),
            "bytes_down": 20_000 * rounds,
            "bytes_up": 80_000 * rounds,
            "seconds": 0.01 * rounds,
        }
    )


def made_up_experiments():
    return pl.DataFrame(
        {
            "experiment": ["simulation-1", "e2006", "rcv1", "mnist"],
            "title": ["Simulation I", "E2006", "RCV1", "MNIST"],
            "stand_in": ["", "invented reports", "", ""],
            "loss": ["squared", "squared", "logistic", "softmax"],
            "sparsity": [20, 20, 20, 50],
            "rounds": ROUNDS,
            "samples": [1000, 3308, 2000, 6000],
            "width": [100, 500, 500, 784],
            "clients": CLIENTS,
            "samples_mean": [100.0, 330.8, 200.0, 600.0],
            "samples_sd": [0.0, 9.4, 9.4, 0.0],
            "paper_mean": [None, 33.8, 202.4, 600.0],
            "paper_sd": [None, 9.1, 114.5, 0.0],
        }
    )


def made_up_clusters():
    random = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "experiment": "e2006",
            "x": random.standard_normal(60),
            "y": random.standard_normal(60),
            "cluster": np.arange(60) % 10,
        }
    )


def made_up_claims():
    return pl.DataFrame(
        [
            ("simulation-1", "20 rounds for 100", "5×", "0.3×", "does not hold"),
            ("e2006", "lowest objective", "lowest", "lowest", "holds"),
            ("mnist", "lowest <objective>", "lowest", "as low", "holds with a tie"),
            ("mnist", "faster", "1.6×", "not measured", "holds"),
        ],
        schema=["experiment", "claim", "paper", "ours", "verdict"],
        orient="row",
    )


def made_up_scaling():
    return pl.DataFrame(
        [
            (model, sweep, factor, (1 + repetition) * factor**exponent)
            for model in ("linear", "logistic")
            for sweep, exponent, factors in (
                ("rows", -1.0, (500.0, 1000.0, 2000.0)),
                ("width", 1.0, (3.9, 5.3, 6.7)),
            )
            for factor in factors
            for repetition in range(2)
        ],
        schema=["model", "sweep", "factor", "error"],
        orient="row",
    )


def made_up_slopes():
    return pl.DataFrame(
        [
            (model, sweep, slope, slope - 0.1, slope + 0.1, expected)
            for model in ("linear", "logistic")
            for sweep, slope, expected in (("rows", -1.02, -1.0), ("width", 0.8, 1.0))
        ],
        schema=["model", "sweep", "slope", "low", "high", "expected"],
        orient="row",
    )
