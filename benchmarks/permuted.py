"""What is said of labels that mean nothing: gene-expression sets, their labels in random order.

``python -m benchmarks permuted [times]``: each set, so many permutations (20), each as
``fedsparse fit`` would take it from four sites, without stability, with τ chosen anew in each fold.
The headline should not say that genes predict. Needs the sets in the folder that FEDSPARSE_DATA
names.
"""

import numpy as np

import fedsparse as fs
from benchmarks.genes import SETS, read
from benchmarks.tables import show
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.fitting import loss_for
from fedsparse.modelling.no_features import GUESSING
from fedsparse.modelling.specification import FitSpecification

SITES = 4
ASKED = FitSpecification(stability=0, held_out="all")


def analysed(X, y, seed, *, is_permuted):
    """τ and the score of all sites together."""
    random = np.random.default_rng(seed)
    sites = random.integers(0, SITES, y.size)
    labels, codes = np.unique(random.permutation(y) if is_permuted else y, return_inverse=True)
    engine = fs.LocalEngine(fs.FederatedData.from_table(X, codes, sites), loss_for(2, y.size))
    names = [str(place) for place in range(X.shape[1])]
    found = fs.converse(
        engine, analysing(engine, ASKED, names, labels=tuple(str(label) for label in labels))
    )
    engine.close()
    return found.sparsity, found.evaluation.overall


def main(times="20"):
    rows = []
    for name in SETS:
        table = read(name)
        if table is None:
            print(f"{name} is left out: FEDSPARSE_DATA has no genomics/{name}.mat")
            continue
        for is_permuted in (False, True):
            found = [
                analysed(*table, seed, is_permuted=is_permuted)
                for seed in range(int(times) if is_permuted else 1)
            ]
            said = sum(chosen == 0 or score.is_guessing for chosen, score in found)
            auc = np.array([score.metrics["AUC"] for _, score in found])
            rows.append(
                (name, "in random order" if is_permuted else "as they are",
                 f"{said} of {len(found)}", f"{np.median(auc):.2f} ({auc.min():.2f} to "
                 f"{auc.max():.2f})", sum(chosen == 0 for chosen, _ in found))
            )  # fmt: skip
            print(rows[-1], flush=True)
    show(
        f"How often the headline says “{GUESSING}”",
        ["set", "labels", "said", "AUC: median (least to largest)", "no feature chosen"],
        rows,
    )


if __name__ == "__main__":
    main()
