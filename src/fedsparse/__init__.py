"""Learn a model with at most τ non-zero coefficients from data that stay where they are."""

from typing import TYPE_CHECKING

from fedsparse import datasets
from fedsparse.algorithms import (
    EDSL,
    GDHT,
    HSGHT,
    SGDHT,
    SVRGHT,
    Algorithm,
    DistributedIHT,
    FedAvg,
    FedHT,
    FedIterHT,
    FedProx,
    FedSplice,
    GrowingBatch,
    State,
)
from fedsparse.answers import Answers
from fedsparse.data.federated import FederatedData
from fedsparse.errors import (
    CheckpointError,
    DataError,
    DivergenceWarning,
    FederationError,
    OptionError,
)
from fedsparse.losses import Logistic, Softmax, SquaredError
from fedsparse.path import sparsity_path
from fedsparse.requests import (
    ColumnMoments,
    Curvature,
    Describe,
    Evaluate,
    Gradient,
    LocalSteps,
    Slopes,
)
from fedsparse.result import Result
from fedsparse.run import run, run_on
from fedsparse.sparsity import LowRank, TopK, TopKGroups, TopKPerClass, hard_threshold
from fedsparse.version import __version__

if TYPE_CHECKING:
    from fedsparse.estimators import FedSparseClassifier, FedSparseRegressor

__all__ = [
    "EDSL",
    "GDHT",
    "HSGHT",
    "SGDHT",
    "SVRGHT",
    "Algorithm",
    "Answers",
    "CheckpointError",
    "ColumnMoments",
    "Curvature",
    "DataError",
    "Describe",
    "DistributedIHT",
    "DivergenceWarning",
    "Evaluate",
    "FedAvg",
    "FedHT",
    "FedIterHT",
    "FedProx",
    "FedSparseClassifier",
    "FedSparseRegressor",
    "FedSplice",
    "FederatedData",
    "FederationError",
    "Gradient",
    "GrowingBatch",
    "LocalSteps",
    "Logistic",
    "LowRank",
    "OptionError",
    "Result",
    "Slopes",
    "Softmax",
    "SquaredError",
    "State",
    "TopK",
    "TopKGroups",
    "TopKPerClass",
    "__version__",
    "datasets",
    "hard_threshold",
    "run",
    "run_on",
    "sparsity_path",
]


def __getattr__(name: str) -> object:
    """Import the estimators when they are asked for: scikit-learn takes a second."""
    if name not in ("FedSparseClassifier", "FedSparseRegressor"):
        raise AttributeError(f"module 'fedsparse' has no attribute {name!r}")
    from fedsparse import estimators

    return getattr(estimators, name)
