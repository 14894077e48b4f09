"""The command line on wide sparse data: 20 of 100,000 features, 20,000 rows at 20 sites.

Seconds and memory from the shell prompt to the report, reading the files included; beside them an
ℓ1 model of about as many features by scikit-learn on all rows in one place, from the same files.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from benchmarks.tables import show

SITES, ROWS, FEATURES, STORED, RELEVANT = 20, 1000, 100_000, 100, 20

LASSO = """
import sys, warnings
import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.linear_model import LogisticRegression
from sklearn.svm import l1_min_c
warnings.filterwarnings("ignore")
parts = load_svmlight_files(sys.argv[1:], n_features=100_000)
X, y = sparse.vstack(parts[0::2], format="csr"), np.concatenate(parts[1::2])
for strength in l1_min_c(X, y, loss="log") * np.logspace(0.02, 3, 60):
    model = LogisticRegression(l1_ratio=1.0, C=strength, solver="liblinear").fit(X, y)
    if np.count_nonzero(model.coef_) >= 20:
        break
print(*np.flatnonzero(model.coef_[0]) + 1)
"""


def write_sites(folder):
    """LIBSVM files, one per site, and the features that decide."""
    random = np.random.default_rng(0)
    relevant = np.sort(random.choice(2_000, RELEVANT, replace=False))
    weights = random.choice([-1.0, 1.0], RELEVANT) * random.uniform(1.0, 2.0, RELEVANT)
    files = []
    for site in range(SITES):
        # As with words, low numbers are frequent.
        columns = (FEATURES * random.random((ROWS, STORED)) ** 3).astype(np.int64).ravel()
        rows = np.repeat(np.arange(ROWS), STORED)
        values = random.exponential(1.0, columns.size)
        matrix = sparse.csr_matrix((values, (rows, columns)), shape=(ROWS, FEATURES))
        matrix.indices, matrix.indptr = (  # what scikit-learn writes
            matrix.indices.astype(np.int32),
            matrix.indptr.astype(np.int32),
        )
        scores = matrix[:, relevant] @ weights
        labels = np.where(scores + 0.3 * random.standard_normal(ROWS) > np.median(scores), 1, -1)
        files.append(folder / f"site-{site:02d}.svm")
        dump_svmlight_file(matrix, labels, str(files[-1]), zero_based=False)
    return files, relevant + 1


def measured(command, folder):
    """Seconds, peak memory in MB and output of a process."""
    watch = (
        "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); "
        "sys.exit(code)"
    )
    environment = {**os.environ, "FEDSPARSE_CACHE": str(folder / "cache")}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", watch, *map(str, command)],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    return time.perf_counter() - began, int(done.stderr.split()[-1]) / 1e3, done.stdout


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files, relevant = write_sites(folder)
        fedsparse = Path(sys.executable).with_name("fedsparse")
        options = ("--sparsity", RELEVANT, "--json", "--out", folder / "out")
        seconds, memory, out = measured([fedsparse, "fit", *files, *options], folder)
        chosen = {int(feature["name"]) for feature in json.loads(out)["model"]["features"]}
        lasso_seconds, lasso_memory, out = measured([sys.executable, "-c", LASSO, *files], folder)
        lasso = {int(number) for number in out.split()}
    found = len(chosen & set(relevant.tolist()))
    found_by_lasso = len(lasso & set(relevant.tolist()))
    show(
        f"{RELEVANT} of {FEATURES:,} features, {SITES * ROWS:,} rows at {SITES} sites, files read",
        ["", "seconds", "peak MB", "true features found", "time against ℓ1"],
        [
            ("fedsparse fit, report and held-out metrics included", f"{seconds:.1f}",
             f"{memory:.0f}", f"{found} of {RELEVANT}", f"{seconds / lasso_seconds:.2f}×"),
            ("ℓ1 until 20 features, scikit-learn, pooled", f"{lasso_seconds:.1f}",
             f"{lasso_memory:.0f}", f"{found_by_lasso} of {RELEVANT}", "1.00×"),
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
