"""The paper's experiments: one TOML file each, and what runs them."""

from fedsparse.experiments.problems import Experiment, Problem, load_experiment
from fedsparse.experiments.settings import NAMES, read_settings

__all__ = ["NAMES", "Experiment", "Problem", "load_experiment", "read_settings"]
