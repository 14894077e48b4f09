"""The version, alone in its module so that packaging reads it without importing the rest."""

__version__ = "1.0.0"
