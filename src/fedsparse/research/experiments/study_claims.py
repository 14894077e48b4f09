"""What the paper says beside its experiments, on bandwidth, bias and rates, judged by studies."""

from math import isinf
from statistics import median
from typing import Any

import polars as pl

from fedsparse.research.experiments.claims import NEARLY, Claim, as_table
from fedsparse.research.experiments.experiment_tables import REFERENCE
from fedsparse.research.theory.split_study import DIGITS, IID, PLANTED, SPLITS, Ratio, ratio_of

SWEEPS = {
    "rows": "rows NB",
    "width": "log d",
    "width, one client": "log d, one client",
    "clients": "clients N, NB fixed",
    "noise": "noise σ²",
    "dissimilarity": "dissimilarity 𝓑², same rows",
    "spread": "spread (Σ β_i)², covariance I",
    "row length": "squared length 𝒦² of the longest row, covariance I",
}
"""What grows in the check of the corollaries."""

NON_IID = "Non-IID rows and local steps"
"""What claims judged by the split study are listed under."""

MESSAGES = "Bandwidth"
"""What claims judged by the message study are listed under."""

_LOAD = ["algorithm", "down", "up"]


def scaling_claims(slopes: pl.DataFrame) -> pl.DataFrame:
    """Judge the rates of the corollaries by the slopes that were measured.

    The corollaries are upper bounds, so an error that grows more slowly is in keeping with them.

    Parameters
    ----------
    slopes
        What `fedsparse.research.theory.scaling_study.scaling_slopes` gave; may be empty.
    """
    return as_table([_scaling_claim(row) for row in slopes.iter_rows(named=True)])


def split_claims(measurements: pl.DataFrame) -> pl.DataFrame:
    """Judge what the paper says of non-IID rows and of local steps by where runs ended.

    Parameters
    ----------
    measurements
        What `fedsparse.research.theory.split_study.measure_splits` gave; may be empty.
    """
    if measurements.is_empty():
        return as_table([])
    return as_table(
        [
            *(_steps_claim(measurements, algorithm) for algorithm in ("Fed-HT", "FedIter-HT")),
            *(_unlikeness_claim(measurements, algorithm) for algorithm in ("Fed-HT", "FedIter-HT")),
            *(_help_claim(measurements, problem) for problem in (PLANTED, DIGITS)),
        ]
    )


def message_claims(messages: pl.DataFrame) -> pl.DataFrame:
    """Judge what the paper says of bandwidth by bytes that were counted.

    Parameters
    ----------
    messages
        What `fedsparse.research.experiments.message_study.measure_messages` gave; may be empty.
    """
    if messages.is_empty():
        return as_table([])
    return as_table(
        [
            _load_claim(
                messages,
                "Fed-HT",
                "FedAvg",
                "“can largely reduce the communication cost because the central server broadcasts "
                "a sparse iterate” (section III)",
            ),
            _load_claim(
                messages,
                "FedIter-HT",
                "Fed-HT",
                "“further reduces the communication cost because model parameters sent back from "
                "clients […] are also sparse” (section IV)",
            ),
            *(
                _load_claim(
                    messages,
                    algorithm,
                    "Distributed-IHT",
                    "“reduce […] the communication load at each round” (conclusion)",
                )
                for algorithm in ("Fed-HT", "FedIter-HT")
            ),
            *(_total_claim(messages, algorithm) for algorithm in ("Fed-HT", "FedIter-HT")),
        ]
    )


def _scaling_claim(row: dict[str, Any]) -> Claim:
    if row["slope"] <= row["expected"]:
        verdict = "holds"
    elif row["low"] <= row["expected"]:
        verdict = "holds within the interval"
    else:
        verdict = "does not hold because the error changes faster than the bound"
    return Claim(
        "Rates of the corollaries",
        f"Error of FedIter-HT in {row['model']} regression against {SWEEPS[row['sweep']]}",
        f"slope at most {row['expected']:g} (an upper bound)",
        f"{row['slope']:.2f} (95 % interval {row['low']:.2f} to {row['high']:.2f})",
        verdict,
    )


def _steps_claim(measurements: pl.DataFrame, algorithm: str) -> Claim:
    """The error with most local steps over that with one, split by split."""
    runs = measurements.filter(problem=PLANTED, algorithm=algorithm)
    fewest, *_, most = runs["local_steps"].unique().sort()
    ratios = {
        split: ratio_of(
            runs,
            "error",
            {"split": split, "local_steps": most},
            {"split": split, "local_steps": fewest},
        )
        for split in SPLITS
    }
    return Claim(
        NON_IID,
        f"{algorithm}: more local steps raise the statistical bias (K = {fewest} to {most})",
        "“more local iterations may decrease θ but increase the statistical bias” "
        "(contributions, b)",
        f"‖x_T − x*‖² {_each(ratios)}",
        _growth_verdict(ratios),
    )


def _unlikeness_claim(measurements: pl.DataFrame, algorithm: str) -> Claim:
    """The error on non-IID splits over that on the IID split of the same rows, K by K."""
    runs = measurements.filter(problem=PLANTED, algorithm=algorithm)
    worst = SPLITS[-1]
    ratios = {
        f"K = {local_steps}": ratio_of(
            runs.filter(local_steps=local_steps), "error", {"split": worst}, {"split": IID}
        )
        for local_steps in sorted(runs["local_steps"].unique())
        if local_steps > 1  # a single step of Fed-HT is the same whoever holds the rows
    }
    levels = ", ".join(
        f"{split} {median(runs.filter(split=split)['dissimilarity']):.2g}" for split in SPLITS
    )
    return Claim(
        NON_IID,
        f"{algorithm}: rows dealt by {worst} raise the bias over the same rows dealt {IID}",
        "“higher non-IIDness across clients causes a larger bias for both algorithms” "
        "(contributions, b)",
        f"‖x_T − x*‖² {_each(ratios)}; 𝓑 at x*: {levels}",
        _growth_verdict(ratios),
    )


def _growth_verdict(ratios: dict[str, Ratio]) -> str:
    """Whether all of several ratios are above 1, beyond their intervals."""
    grown = [name for name, ratio in ratios.items() if ratio.low > 1 or isinf(ratio.middle)]
    if len(grown) == len(ratios):
        return "holds"
    if grown:
        return f"holds with exceptions: only for {', '.join(grown)}"
    return "does not hold because the error grows nowhere beyond its interval"


def _help_claim(measurements: pl.DataFrame, problem: str) -> Claim:
    """How often a non-IID split ends lower than the IID one of the same rows."""
    runs = measurements.filter(problem=problem)
    local_steps = int(runs["local_steps"].unique().sort()[-1])
    runs = runs.filter(local_steps=local_steps)
    ratios = {
        f"{algorithm}, {split}": ratio_of(
            runs.filter(algorithm=algorithm), "objective", {"split": split}, {"split": IID}
        )
        for algorithm in ("Fed-HT", "FedIter-HT")
        for split in SPLITS[1:]
    }
    lower, count = (sum(getattr(r, name) for r in ratios.values()) for name in ("below", "count"))
    if all(ratio.high < 1 for ratio in ratios.values()):
        verdict = "holds"
    elif 2 * lower > count:
        verdict = f"holds with exceptions: f ends lower in {lower} of {count} runs"
    else:
        verdict = f"does not hold because f ends lower in only {lower} of {count} runs"
    return Claim(
        NON_IID,
        f"Noise of non-IID rows helps to a better end than {IID} ({problem} rows, K = "
        f"{local_steps})",
        "“the extra noise introduced by decentralized non-IID data may actually help […] converge "
        "to a better local optimizer” (contributions, c)",
        f"f(x_T) {_each(ratios)}",
        verdict,
    )


def _each(ratios: dict[str, Ratio]) -> str:
    return "; ".join(f"{name}: {ratio}" for name, ratio in ratios.items())


def _load_claim(messages: pl.DataFrame, algorithm: str, other: str, paper: str) -> Claim:
    """Bytes of a client in a round."""
    ours, factors = [], []
    for (kind,), part in messages.group_by("rows", maintain_order=True):
        loads = {name: (down, up) for name, down, up in part.select(_LOAD).iter_rows()}
        own, theirs = loads[algorithm], loads[other]
        factors.append(sum(theirs) / sum(own))
        ours.append(
            f"{kind}: {_kilobytes(own[0])} kB down and {_kilobytes(own[1])} up instead of "
            f"{_kilobytes(theirs[0])} and {_kilobytes(theirs[1])} ({factors[-1]:.2g}×)"
        )
    return Claim(
        MESSAGES,
        f"{algorithm} sends less a round than {other}",
        paper,
        "; ".join(ours),
        _sparing_verdict(factors, f"a round of {other} sends as little"),
    )


def _total_claim(messages: pl.DataFrame, algorithm: str) -> Claim:
    """Bytes of a client until f is where Distributed-IHT ends."""
    ours, factors = [], []
    for (kind,), part in messages.group_by("rows", maintain_order=True):
        totals = dict(part.select("algorithm", "total").iter_rows())
        own = totals[algorithm]
        factors.append(0.0 if own is None else totals[REFERENCE] / own)
        told = (
            f"{name} {'never' if total is None else f'{_kilobytes(total)} kB'}"
            for name, total in totals.items()
        )
        ours.append(f"{kind}: {', '.join(told)}")
    return Claim(
        MESSAGES,
        f"{algorithm} sends less than {REFERENCE} until f is where that ends",
        "“lower requirements on communication rounds and bandwidth” (abstract)",
        "; ".join(ours),
        _sparing_verdict(factors, f"{REFERENCE} sends as little until it is there"),
    )


def _sparing_verdict(factors: list[float], otherwise: str) -> str:
    """Whether something is sent more sparingly, on all kinds of rows or on some."""
    sparing = [factor * NEARLY > 1 for factor in factors]
    if all(sparing):
        return "holds"
    if any(sparing):
        return f"holds with exceptions: on {sum(sparing)} of {len(sparing)} kinds of rows"
    return f"does not hold because {otherwise}"


def _kilobytes(count: float) -> str:
    return f"{count / 1000:.3g}" if count < 1e5 else f"{count / 1000:,.0f}"
