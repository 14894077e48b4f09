"""Why Fed-HT survives some steps longer than 2/l_i on Simulation I, and others not: K matters.

Without H_τ a round of K full-gradient steps takes x − x̄ to A_K (x − x̄), where x̄ is the round's
fixed point and A_K = Σ p_i (I − γH_i)^K. A client's rows lie along its mean v_i, where its
curvature is l_i; elsewhere it is small. The v_i are nearly orthogonal, so along v_i the others stay
put, and the eigenvalue of A_K is near 1 − (1 − (1 − γl_i)^K)/N. Beyond γ = 2/l_i the power grows
with K, but counts one Nth: an odd K makes it a longer step, which is fine until it overshoots the
average's minimum, too; an even K makes it a step uphill. H_τ keeps 200 of 1,000 entries, so that a
little beyond −1 is survived as well: the eigenvalues on those entries lie between.

``python -m benchmarks overshoot`` prints a table; a path ending in .png as well draws a picture.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl

import fedsparse as fs
from benchmarks.tables import show
from fedsparse.arrays import FloatArray
from fedsparse.report.pictures import save_png
from fedsparse.report.points import csv_data

SPARSITY, ROUNDS, STEP_SIZE = 200, 100, 0.001
LOCAL_STEPS = range(1, 8)
HUES = ("#767676", "#56B4E9", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00")


@dataclass(frozen=True)
class Outcome:
    """What a K does: eigenvalues of A_K, and objectives of the run until it ended.

    ``lowest_kept`` is the lowest eigenvalue on the entries of the last x.
    """

    local_steps: int
    lowest: float
    highest: float
    lowest_kept: float
    objectives: list[float]
    diverged: bool

    @property
    def what_happened(self) -> str:
        """In a word or two."""
        if self.diverged:
            return f"diverges in round {len(self.objectives) - 1}"
        return "descends" if self.objectives[-1] < self.objectives[0] else "rises"


def spectra(data: fs.FederatedData) -> list[tuple[FloatArray, FloatArray]]:
    """Of every client: the eigenvalues of H_i that are not 0, and their vectors as rows."""
    clients = [data.client(client).features for client in range(len(data))]
    return [
        (2 * singular**2 / len(features), directions)
        for features in clients
        for _, singular, directions in [np.linalg.svd(features, full_matrices=False)]
    ]


def round_map(
    clients: list[tuple[FloatArray, FloatArray]], step_size: float, local_steps: int
) -> FloatArray:
    """A_K = Σ (I − γH_i)^K / N."""
    width = clients[0][1].shape[1]
    moved = np.zeros((width, width))
    for curvatures, directions in clients:
        share = (1 - (1 - step_size * curvatures) ** local_steps) / len(clients)
        moved += (directions.T * share) @ directions
    return np.eye(width) - moved


def outcomes(data: fs.FederatedData) -> Iterator[Outcome]:
    """Run Fed-HT for every K, beside the eigenvalues of its round."""
    clients = spectra(data)
    for local_steps in LOCAL_STEPS:
        of_round = round_map(clients, STEP_SIZE, local_steps)
        eigenvalues = np.linalg.eigvalsh(of_round)
        algorithm = fs.FedHT(SPARSITY, local_steps=local_steps, step_size=STEP_SIZE)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.DivergenceWarning)
            result = fs.run(algorithm, data, rounds=ROUNDS)
        objectives = [record.objective for record in result.records]
        kept = np.flatnonzero(result.coef)
        yield Outcome(
            local_steps=local_steps,
            lowest=eigenvalues[0],
            highest=eigenvalues[-1],
            lowest_kept=np.linalg.eigvalsh(of_round[np.ix_(kept, kept)])[0],
            objectives=objectives,
            diverged=result.diverged,
        )


def picture(found: list[Outcome], largest: float) -> alt.HConcatChart:
    """Eigenvalues by K beside the runs."""
    return alt.hconcat(_eigenvalues(found), _runs(found), spacing=40).properties(
        title=alt.TitleParams(
            f"Fed-HT on Simulation I at γ = {STEP_SIZE:g}, with clients up to l = {largest:,.0f}",
            subtitle="a round's eigenvalues must be within −1 and 1 (dashes); K = 5 just survives",
            offset=14,
        )
    )


def _eigenvalues(found: list[Outcome]) -> alt.LayerChart:
    table = pl.DataFrame(
        {
            "K": [one.local_steps for one in found],
            "lowest": [one.lowest for one in found],
            "highest": [one.highest for one in found],
        }
    )
    y = alt.Y("lowest:Q", title="Eigenvalues of a round, lowest to highest")
    scale = alt.Scale(type="symlog", constant=0.5)
    bars = (
        alt.Chart(csv_data(table))
        .mark_bar(size=16)
        .encode(
            x=alt.X("K:O", title="Local steps K", axis=alt.Axis(labelAngle=0)),
            y=y.scale(scale).axis(values=[-10, -5, -2, -1, 0, 1, 2, 5]),
            y2="highest:Q",
            color=_colours(found),
        )
    )
    limits = alt.Chart(csv_data(pl.DataFrame({"limit": [-1.0, 1.0]})))
    rules = limits.mark_rule(strokeDash=[5, 4], color="#555").encode(y="limit:Q")
    return alt.LayerChart(layer=[bars, rules]).properties(width=300, height=260)


def _runs(found: list[Outcome]) -> alt.LayerChart:
    ceiling = 5 * found[0].objectives[0]
    table = pl.DataFrame(
        [
            (one.local_steps, place, min(objective, ceiling))
            for one in found
            for place, objective in enumerate(_until_above(one.objectives, ceiling))
        ],
        schema=["K", "round", "objective"],
        orient="row",
    )
    lines = (
        alt.Chart(csv_data(table))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("round:Q", title="Communication rounds"),
            y=alt.Y("objective:Q", title="Objective f(x)").scale(
                type="log", nice=False, domain=[table["objective"].min(), ceiling]
            ),
            color=_colours(found),
        )
    )
    return alt.LayerChart(layer=[lines]).properties(width=420, height=260)


def _until_above(objectives: list[float], ceiling: float) -> list[float]:
    """All up to the first that is above the ceiling."""
    above = [place for place, objective in enumerate(objectives) if not objective <= ceiling]
    return objectives[: above[0] + 1] if above else objectives


def _colours(found: list[Outcome]) -> alt.Color:
    names = [one.local_steps for one in found]
    return alt.Color("K:O", title="K").scale(domain=names, range=list(HUES)).legend(columns=7)


def main(path: str | None = None) -> None:
    data = fs.datasets.simulation_1()
    largest = max(curvatures[0] for curvatures, _ in spectra(data))
    found = list(outcomes(data))
    show(
        f"Fed-HT on Simulation I, seed 0, γ = {STEP_SIZE:g}; max l_i = {largest:,.0f}",
        ["K", "lowest eigenvalue", "of entries kept", "highest", "f(x_0)", "f(x_1)", "last f", ""],
        [
            (
                one.local_steps,
                f"{one.lowest:.3f}",
                f"{one.lowest_kept:.3f}",
                f"{one.highest:.3f}",
                f"{one.objectives[0]:.1f}",
                f"{one.objectives[1]:,.1f}",
                f"{one.objectives[-1]:,.1f}",
                one.what_happened,
            )
            for one in found
        ],
    )
    if path is not None:
        save_png(picture(found, largest), Path(path))
