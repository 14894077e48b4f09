"""Choosing τ, and how far the choice of features can be trusted."""

from fedsparse.data.folds import folds_within_sites
from fedsparse.selection.criteria import choose_by_ebic
from fedsparse.selection.cross_validation import cross_validate
from fedsparse.selection.grid import default_sparsities
from fedsparse.selection.stability import select_stably

__all__ = [
    "choose_by_ebic",
    "cross_validate",
    "default_sparsities",
    "folds_within_sites",
    "select_stably",
]
