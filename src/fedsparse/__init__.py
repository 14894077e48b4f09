"""Learn a model with at most τ non-zero coefficients from data that stay where they are."""

from typing import TYPE_CHECKING

from fedsparse.algorithms import (
    EDSL,
    GDHT,
    HSGHT,
    HTP,
    SGDHT,
    SVRGHT,
    Algorithm,
    AsyncSVRGHT,
    CoSaMP,
    DistributedIHT,
    FedAvg,
    FedHT,
    FedIterHT,
    FedProx,
    FedSplice,
    GraSP,
    GrowingBatch,
    ScaffoldHT,
    State,
)
from fedsparse.engines import (
    Engine,
    Lens,
    LocalEngine,
    RayEngine,
    TorchEngine,
    converse,
    open_engine,
    together,
)
from fedsparse.engines.path import sparsity_path
from fedsparse.engines.result import Result
from fedsparse.engines.run import run, run_together
from fedsparse.errors import (
    CheckpointError,
    DataError,
    DivergenceWarning,
    FederationError,
    OptionError,
)
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.losses import (
    Cox,
    EncodedTargets,
    Logistic,
    Loss,
    Poisson,
    Softmax,
    SquaredError,
    register_loss,
)
from fedsparse.problem.rows import Rows
from fedsparse.problem.sparsity import (
    LowRank,
    TopK,
    TopKGroups,
    TopKPerClass,
    TopKRows,
    hard_threshold,
)
from fedsparse.requests import (
    Answers,
    ColumnSquares,
    ColumnSums,
    CorrectedSteps,
    Curvature,
    Evaluate,
    Gradient,
    Judge,
    JudgeCounts,
    JudgeSurvival,
    LocalSteps,
    ScoreCounts,
    Slopes,
    Smoothness,
    SmoothnessAbove,
    SurvivalCounts,
    SurvivalMoments,
)
from fedsparse.research import datasets
from fedsparse.version import __version__

if TYPE_CHECKING:
    from fedsparse.estimators import FedSparseClassifier, FedSparseCox, FedSparseRegressor

__all__ = [
    "EDSL",
    "GDHT",
    "HSGHT",
    "HTP",
    "SGDHT",
    "SVRGHT",
    "Algorithm",
    "Answers",
    "AsyncSVRGHT",
    "CheckpointError",
    "CoSaMP",
    "ColumnSquares",
    "ColumnSums",
    "CorrectedSteps",
    "Cox",
    "Curvature",
    "DataError",
    "DistributedIHT",
    "DivergenceWarning",
    "EncodedTargets",
    "Engine",
    "Evaluate",
    "FedAvg",
    "FedHT",
    "FedIterHT",
    "FedProx",
    "FedSparseClassifier",
    "FedSparseCox",
    "FedSparseRegressor",
    "FedSplice",
    "FederatedData",
    "FederationError",
    "GraSP",
    "Gradient",
    "GrowingBatch",
    "Judge",
    "JudgeCounts",
    "JudgeSurvival",
    "Lens",
    "LocalEngine",
    "LocalSteps",
    "Logistic",
    "Loss",
    "LowRank",
    "OptionError",
    "Poisson",
    "RayEngine",
    "Result",
    "Rows",
    "ScaffoldHT",
    "ScoreCounts",
    "Slopes",
    "Smoothness",
    "SmoothnessAbove",
    "Softmax",
    "SquaredError",
    "State",
    "SurvivalCounts",
    "SurvivalMoments",
    "TopK",
    "TopKGroups",
    "TopKPerClass",
    "TopKRows",
    "TorchEngine",
    "__version__",
    "converse",
    "datasets",
    "hard_threshold",
    "open_engine",
    "register_loss",
    "run",
    "run_together",
    "sparsity_path",
    "together",
]


def __getattr__(name: str) -> object:
    """Import the estimators when they are asked for: scikit-learn takes a second."""
    if name not in ("FedSparseClassifier", "FedSparseCox", "FedSparseRegressor"):
        raise AttributeError(f"module 'fedsparse' has no attribute {name!r}")
    from fedsparse import estimators

    return getattr(estimators, name)
