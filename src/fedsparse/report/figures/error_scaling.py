"""Figure 7: errors against the sizes of a problem, beside the theory's rates."""

import altair as alt
import numpy as np
import polars as pl

from fedsparse.report.points import csv_data
from fedsparse.report.style import HUES
from fedsparse.research.experiments.experiment_tables import Tables

SWEEPS = {
    "rows": "Rows of all clients, NB",
    "width": "log d, for d features",
    "width, one client": "log d, one client",
    "clients": "Clients N, at the same NB",
    "noise": "Noise of the targets, σ²",
    "dissimilarity": "Dissimilarity 𝓑² at x*",
    "spread": "Spread (Σ βᵢ)², same covariance",
    "row length": "Longest row 𝒦², same covariance",
}
"""How the axis of the factor that a sweep varies is named."""

COLUMNS = 4
WIDTH = 190


def scaling_figure(tables: Tables) -> alt.VConcatChart:
    """Measured errors on logarithmic axes with fitted lines: a panel a sweep, model after model.

    Parameters
    ----------
    tables
        ``scaling`` has the measurements, ``slopes`` what was fitted to them.
    """
    rows = [
        alt.concat(
            *(_panel(tables, model, sweep) for sweep in _sweeps(tables.scaling, model)),
            columns=COLUMNS,
            spacing=28,
        )
        for model in tables.scaling["model"].unique(maintain_order=True)
    ]
    title = alt.TitleParams(
        "Error of FedIter-HT against the rates of the theory",
        subtitle="line: fitted, slope with 95 % interval; dashes: slope of the theory's bound",
        offset=14,
    )
    return alt.vconcat(*rows, spacing=24).properties(title=title)


def _sweeps(scaling: pl.DataFrame, model: str) -> list[str]:
    ran = scaling.filter(pl.col("model") == model)["sweep"].unique()
    return [sweep for sweep in SWEEPS if sweep in ran]


def _panel(tables: Tables, model: str, sweep: str) -> alt.LayerChart:
    is_mine = (pl.col("model") == model) & (pl.col("sweep") == sweep)
    points = tables.scaling.filter(is_mine).select("factor", "error")
    x = alt.X("factor:Q", title=SWEEPS[sweep]).scale(type="log", nice=False, padding=12)
    y = alt.Y("error:Q", title="Squared error ‖x − x*‖²").scale(type="log", nice=False, padding=8)
    dots = (
        alt.Chart(csv_data(points))
        .mark_circle(color=HUES[0], size=40, opacity=0.55)
        .encode(x=x, y=y)
    )
    layers, subtitle = [dots], ""
    slopes = tables.slopes.filter(is_mine) if not tables.slopes.is_empty() else tables.slopes
    if not slopes.is_empty():
        fit = slopes.row(0, named=True)
        subtitle = _in_words(fit)
        layers += [
            _line(points, fit["expected"], "#777", [5, 4]).encode(x=x, y=y),
            _line(points, fit["slope"], HUES[1], [1, 0]).encode(x=x, y=y),
        ]
    title = alt.TitleParams(
        f"{model.capitalize()} regression", subtitle=subtitle, fontSize=14, subtitleFontSize=13
    )
    return alt.LayerChart(layer=layers).properties(title=title, width=WIDTH, height=220)


def _line(points: pl.DataFrame, slope: float, colour: str, dash: list[int]) -> alt.Chart:
    """A line of a slope through the middle of the points, where a least-squares fit passes."""
    factors, errors = (np.log(points[name].to_numpy()) for name in ("factor", "error"))
    ends = np.array([factors.min(), factors.max()])
    heights = errors.mean() + slope * (ends - factors.mean())
    table = pl.DataFrame({"factor": np.exp(ends), "error": np.exp(heights)})
    line = alt.Chart(csv_data(table))
    return line.mark_line(color=colour, strokeDash=dash, strokeWidth=2)  # type: ignore[no-any-return]


def _in_words(fit: dict[str, float]) -> str:
    low, slope, high, expected = (
        f"{fit[name]:.2f}".replace("-", "−") for name in ("low", "slope", "high", "expected")
    )
    return f"slope {slope} ({low} to {high}), theory {expected}"
