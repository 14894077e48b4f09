"""What may be asked of clients, and what comes back."""

from fedsparse.requests.answers import Answers
from fedsparse.requests.column_sums import ColumnSquares, ColumnSums
from fedsparse.requests.corrected_steps import CorrectedSteps
from fedsparse.requests.derivatives import (
    ClassCurvature,
    Curvature,
    Evaluate,
    Gradient,
    SharedCurvature,
    Slopes,
)
from fedsparse.requests.judged import Judge, NoBetterThanNull
from fedsparse.requests.judged_outcomes import JudgeCounts, JudgeSurvival
from fedsparse.requests.local_steps import LocalSteps
from fedsparse.requests.request import Fields, Request, Shapes, Weights
from fedsparse.requests.score_counts import ScoreCounts
from fedsparse.requests.shifted_lasso import ShiftedLasso
from fedsparse.requests.smoothness import Smoothness, SmoothnessAbove
from fedsparse.requests.survival_curves import SurvivalCounts, SurvivalMoments

__all__ = [
    "Answers",
    "ClassCurvature",
    "ColumnSquares",
    "ColumnSums",
    "CorrectedSteps",
    "Curvature",
    "Evaluate",
    "Fields",
    "Gradient",
    "Judge",
    "JudgeCounts",
    "JudgeSurvival",
    "LocalSteps",
    "NoBetterThanNull",
    "Request",
    "ScoreCounts",
    "Shapes",
    "SharedCurvature",
    "ShiftedLasso",
    "Slopes",
    "Smoothness",
    "SmoothnessAbove",
    "SurvivalCounts",
    "SurvivalMoments",
    "Weights",
]
