"""The paper's experiments: one TOML file each, and what runs them."""

from fedsparse.research.experiments.experiment_settings import NAMES, read_settings
from fedsparse.research.experiments.problems import Experiment, Problem, load_experiment

__all__ = ["NAMES", "Experiment", "Problem", "load_experiment", "read_settings"]
