"""Figures 1 and 2: where the clusters of the text data lie."""

import altair as alt
import polars as pl

from fedsparse.report.points import csv_data
from fedsparse.research.experiments.experiment_tables import Tables

MOST_POINTS = 3000
"""More would hide each other, and make a heavy picture."""


def cluster_map(tables: Tables, experiment: str) -> alt.LayerChart:
    """Draw rows on a plane, as t-SNE lays them out, coloured by their cluster.

    Parameters
    ----------
    tables
        ``clusters`` has the points.
    experiment
        Whose points to draw.
    """
    points = tables.clusters.filter(pl.col("experiment") == experiment)
    if points.height > MOST_POINTS:
        points = points.sample(MOST_POINTS, seed=0)
    shown = points.select(pl.col("x", "y").round_sig_figs(4), pl.col("cluster"))
    plain = alt.Axis(labels=False, ticks=False, domain=False, grid=False)
    dots = (
        alt.Chart(csv_data(shown))
        .mark_circle(size=22, opacity=0.75, aria=False)
        .encode(
            x=alt.X("x:Q", title=None, axis=plain).scale(zero=False),
            y=alt.Y("y:Q", title=None, axis=plain).scale(zero=False),
            color=alt.Color("cluster:N", title="Cluster")
            .scale(scheme="tableau10")
            .legend(columns=10, symbolType="circle", symbolSize=120),
        )
    )
    title = alt.TitleParams(
        f"{tables.title(experiment)}: clusters on a plane (t-SNE)",
        subtitle=f"{shown.height:,} rows; each client holds rows of two clusters",
    )
    return alt.LayerChart(layer=[dots]).properties(title=title, width=720, height=480)
