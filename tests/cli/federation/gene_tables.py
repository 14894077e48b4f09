"""Tables such as a microarray study has at three hospitals, for tests."""

import numpy as np
import polars as pl

SITES = {"boston": (27, 11), "memphis": (12, 8), "torino": (8, 4)}
"""Rows of the two classes at each site."""
CLASSES = ("ALL", "AML")
TARGET = "leukemia"
GENES = 6000
INFORMATIVE = 12
FLOOR = 20.0
"""What the scanner writes where it sees too little."""

_HOLES = 9


def gene_names(count=GENES):
    return [f"G{place:05}_at" for place in range(count)]


def write_gene_tables(folder, genes=GENES, sites=SITES, seed=5):
    """A CSV file for each site: patients' identifiers, sex, age, genes and the class.

    Most genes are seen in some patients only and have the floor elsewhere; the first ones tell the
    classes apart. A few values are missing.
    """
    random = np.random.default_rng(seed)
    level = random.normal(4.5, 2.0, genes)
    level[:INFORMATIVE] = 9.0
    tables = {}
    first = 1
    for name, counts in sites.items():
        labels = random.permutation(np.repeat(CLASSES, counts))
        rows = labels.size
        shift = np.zeros((rows, genes))
        shift[:, :INFORMATIVE] = 1.5 * (labels == CLASSES[1])[:, None]
        logarithms = level + shift + random.normal(0.0, 1.0, (rows, genes))
        values = np.maximum(np.rint(2.0**logarithms), FLOOR)
        columns = {
            "patient": [f"{name[:2].upper()}-{first + row:04}" for row in range(rows)],
            "sex": random.permutation(np.resize(["F", "M"], rows)),
            "age": [None if row == 3 else int(age) for row, age in enumerate(_ages(random, rows))],
        }
        holes = set(random.choice(INFORMATIVE * 50, _HOLES, replace=False).tolist())
        for place, gene in enumerate(gene_names(genes)):
            column = values[:, place].tolist()
            if place in holes:
                column[int(random.integers(rows))] = None
            columns[gene] = column
        tables[name] = folder / f"{name}.csv"
        pl.DataFrame({**columns, TARGET: labels}).write_csv(tables[name])
        first += rows
    return tables


def _ages(random, rows):
    return random.integers(2, 80, rows)
