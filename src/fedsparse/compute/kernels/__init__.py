"""Compiled loops: everything that runs per entry of the data."""
