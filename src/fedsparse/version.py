"""The version, alone in its module so that packaging reads it without importing the rest."""

__version__ = "0.1.0"
