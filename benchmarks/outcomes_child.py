"""abess, and the data of scikit-survival, in a process of their own.

A task and two paths: what is asked is read from one NumPy archive, the answer written to another.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.measured import ONE_THREAD
from fedsparse.arrays import AnyArray, FloatArray


def ask(task: str, **asked: AnyArray) -> dict[str, AnyArray]:
    """Have another process do a task."""
    with tempfile.TemporaryDirectory() as name:
        read, written = Path(name, "asked.npz"), Path(name, "answer.npz")
        np.savez(read, **asked)
        subprocess.run(
            [sys.executable, "-m", "benchmarks.outcomes_child", task, str(read), str(written)],
            check=True,
            env=ONE_THREAD,
        )
        with np.load(written) as answer:
            return dict(answer)


def cox(
    features: FloatArray, signed: FloatArray, sparsity: FloatArray, **_: object
) -> dict[str, AnyArray]:
    """The features that abess chooses for survival."""
    from abess import CoxPHSurvivalAnalysis

    model = CoxPHSurvivalAnalysis(support_size=int(sparsity))
    model.fit(features, np.column_stack([np.abs(signed), signed > 0]))
    return {"support": np.flatnonzero(model.coef_)}


def poisson(
    features: FloatArray, counts: FloatArray, sparsity: FloatArray, **_: object
) -> dict[str, AnyArray]:
    """The features that abess chooses for counts."""
    from abess import PoissonRegression

    model = PoissonRegression(support_size=int(sparsity))
    model.fit(features, counts)
    return {"support": np.flatnonzero(model.coef_)}


def gbsg2(**_: object) -> dict[str, AnyArray]:
    """686 women with breast cancer: hormones, nodes, sizes (Schumacher et al., 1994)."""
    from sksurv.datasets import load_gbsg2

    return _numbers(*load_gbsg2())


def breast_cancer(**_: object) -> dict[str, AnyArray]:
    """198 women with breast cancer: 76 gene expressions (Desmedt et al., 2007)."""
    from sksurv.datasets import load_breast_cancer

    return _numbers(*load_breast_cancer())


def _numbers(frame: "object", outcome: AnyArray) -> dict[str, AnyArray]:
    import pandas as pd

    table = pd.get_dummies(frame, drop_first=True).astype(float)
    events, times = (outcome[name] for name in outcome.dtype.names)
    return {
        "features": table.to_numpy(),
        "signed": np.where(events, times, -times).astype(np.float64),
    }


TASKS: dict[str, Callable[..., dict[str, AnyArray]]] = {
    own.__name__: own for own in (cox, poisson, gbsg2, breast_cancer)
}


def main(task: str, read: str, written: str) -> None:
    with np.load(read) as asked:
        answer = TASKS[task](**asked)
    np.savez(written, **answer)


if __name__ == "__main__":
    main(*sys.argv[1:])
