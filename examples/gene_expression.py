"""Which genes tell a disease? Five labs find at most 20 of them, and no sample leaves its lab.

    python examples/gene_expression.py

Three public data sets (ALLAML, colon, Prostate-GE) are read from the folder ``genomics`` inside
the folder that FEDSPARSE_DATA names; for a file that is not there, a table of its shape is drawn.
"""

import os
from pathlib import Path

import altair as alt
import numpy as np
import polars as pl
from scipy.io import loadmat

import fedsparse as fs
from fedsparse.modelling.fitting import FitOptions, loss_for
from fedsparse.modelling.judging import evaluate_held_out, given
from fedsparse.modelling.stability import select_stably

GENES = 20
SHAPES = {"ALLAML": (72, 7129), "colon": (62, 2000), "Prostate-GE": (102, 5966)}
WAYS = {"federated": "together", "alone": "each alone", "pooled": "pooled"}


def read(name):
    """Samples (rows), their classes 0 and 1, and what to call the table."""
    path = Path(os.environ.get("FEDSPARSE_DATA") or ".", "genomics", f"{name}.mat")
    if path.exists():
        table = loadmat(path)
        classes = np.unique(table["Y"].ravel(), return_inverse=True)[1]
        return table["X"].astype(float), classes, name
    random = np.random.default_rng(0)
    classes = random.integers(0, 2, SHAPES[name][0])
    samples = random.standard_normal(SHAPES[name])
    samples[:, :10] += 1.5 * classes[:, None]  # ten genes are more active in the second class
    return samples, classes, f"{name} (generated)"


def study(name):
    """Held-out accuracy of three ways to learn, and how often genes are found again."""
    samples, classes, title = read(name)
    labs = np.random.default_rng(1).integers(1, 6, classes.size)
    data = fs.FederatedData.from_table(samples, classes, [f"lab {number}" for number in labs])
    options = FitOptions(loss_for(2, data.samples))
    engine = fs.LocalEngine(data, options.loss)
    genes = [f"gene {number}" for number in range(1, data.width + 1)]
    judging = evaluate_held_out(engine, given(GENES), options)
    halving = select_stably(engine, GENES, options, genes, pairs=10)
    evaluation, stability = fs.converse(engine, fs.together([judging, halving]))
    return {
        "data set": title,
        **{WAYS[score.method]: score.metrics["accuracy"] for score in evaluation.scores[:3]},
        "genes": [f"{each.feature} ({each.frequency:.0%})" for each in stability.features[:4]],
    }


def main():
    """Print a table and draw it."""
    rows = [study(name) for name in SHAPES]
    print(f"Accuracy with {GENES} genes on samples that were held out, five labs")
    print(f"{'':<26}" + "".join(f"{way:>12}" for way in WAYS.values()))
    for row in rows:
        print(f"{row['data set']:<26}" + "".join(f"{row[way]:>12.0%}" for way in WAYS.values()))
    print("Found again most often on half of the samples")
    for row in rows:
        print(f"{row['data set']:<26}  {', '.join(row['genes'])}")
    table = pl.DataFrame(rows).unpivot(WAYS.values(), index="data set", variable_name="learnt")
    chart = alt.Chart(table).mark_point(filled=True, size=90, opacity=0.8).encode(
        x=alt.X("value", title="accuracy on held-out samples").scale(zero=False).axis(format="%"),
        y=alt.Y("data set", title=None), color="learnt", shape="learnt",
    )  # fmt: skip
    chart.save("gene_expression.png", scale_factor=2)
    print("Picture: gene_expression.png")


if __name__ == "__main__":
    main()
