"""What a fit leaves behind: the model, and a summary of how it came about, as files to read."""

from fedsparse.models.model import Feature, Model
from fedsparse.models.summary import FitSummary

__all__ = ["Feature", "FitSummary", "Model"]
