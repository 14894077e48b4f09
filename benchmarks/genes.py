"""Accuracy with few genes: five sites that keep their rows against ℓ1 on all rows in one place.

Needs the gene-expression sets in the folder that FEDSPARSE_DATA names.
"""

import os
from pathlib import Path

import numpy as np
from scipy.io import loadmat
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import l1_min_c

import fedsparse as fs
from benchmarks.tables import show

SETS = ("ALLAML", "colon", "Prostate-GE")
GENES = (5, 10, 20, 30)
REPEATS = 5
SITES = 5


def read(name):
    folder = os.environ.get("FEDSPARSE_DATA")
    path = Path(folder or ".") / "genomics" / f"{name}.mat"
    if not path.exists():
        return None
    table = loadmat(path)
    return table["X"].astype(np.float64), table["Y"].ravel()


def lasso_predictions(X, y, unseen):
    """For every number of genes, the least penalized ℓ1 model that has no more of them."""
    scaler = StandardScaler().fit(X)
    X, unseen = scaler.transform(X), scaler.transform(unseen)
    found, counts = {}, {}
    for strength in l1_min_c(X, y, loss="log") * np.logspace(0.02, 4, 60):
        model = LogisticRegression(
            l1_ratio=1.0, C=strength, solver="liblinear", intercept_scaling=10, random_state=0
        ).fit(X, y)
        used = np.count_nonzero(model.coef_)
        for genes in GENES:
            if used <= genes:
                found[genes], counts[genes] = model.predict(unseen), used
        if used > max(GENES):
            break
    return found, counts


def compare(X, y):
    """Correct predictions and genes used, by method and number of genes."""
    correct = {(method, genes): [] for method in ("federated", "l1") for genes in GENES}
    used = {genes: [] for genes in GENES}
    for repeat in range(REPEATS):
        sites = np.random.default_rng(repeat).integers(0, SITES, y.size)
        for train, unseen in StratifiedKFold(5, shuffle=True, random_state=repeat).split(X, y):
            lasso, counts = lasso_predictions(X[train], y[train], X[unseen])
            for genes in GENES:
                model = fs.FedSparseClassifier(sparsity=genes)
                model.fit(X[train], y[train], sites=sites[train])
                correct["federated", genes].extend(model.predict(X[unseen]) == y[unseen])
                correct["l1", genes].extend(lasso[genes] == y[unseen])
                used[genes].append(counts[genes])
    return {key: np.mean(values) for key, values in correct.items()}, used


def main():
    rows = []
    for name in SETS:
        table = read(name)
        if table is None:
            print(f"{name} is left out: FEDSPARSE_DATA has no genomics/{name}.mat")
            continue
        accuracy, used = compare(*table)
        for genes in GENES:
            federated, lasso = accuracy["federated", genes], accuracy["l1", genes]
            rows.append(
                (
                    f"{name}, {table[0].shape[0]} × {table[0].shape[1]:,}", genes,
                    f"{federated:.3f}", f"{lasso:.3f}", f"{np.mean(used[genes]):.1f}",
                    f"{federated / lasso:.3f}×",
                )
            )  # fmt: skip
    show(
        f"Cross-validated accuracy, {REPEATS} × 5 folds: {SITES} sites together, and ℓ1 on pooled "
        "rows",
        ["set", "genes at most", "fedsparse", "ℓ1, pooled", "genes of ℓ1", "ratio"],
        rows,
    )


if __name__ == "__main__":
    main()
