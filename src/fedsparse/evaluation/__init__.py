"""Metrics that sites work out on their own rows and a server adds up."""

from fedsparse.evaluation.comparison import evaluate_held_out
from fedsparse.evaluation.metrics import ClassificationSums, RegressionSums, mean_loss

__all__ = ["ClassificationSums", "RegressionSums", "evaluate_held_out", "mean_loss"]
