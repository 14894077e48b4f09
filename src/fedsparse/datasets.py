"""Data sets by name: simulated federations, and later the real ones."""

from fedsparse.data.simulations import simulation_1

__all__ = ["simulation_1"]
