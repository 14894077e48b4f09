"""When no feature is worth having: the choice of τ = 0 in words."""

import numpy as np
from scipy.special import expit, softmax

from fedsparse.modelling.model import Model
from fedsparse.modelling.summary import FitSummary

GUESSING = "no better than guessing"
"""What is said of a model whose interval reaches what one guess for all rows does."""

_HOW = {"cv": "cross-validation", "ebic": "EBIC"}


def sentence_on_no_features(summary: FitSummary) -> str | None:
    """What it means that τ = 0 was chosen; None if it was not, whatever features a model has.

    Parameters
    ----------
    summary
        Of a fit.

    Examples
    --------
    >>> from fedsparse.modelling.summary import Selection
    >>> model = Model(task="binary", target="relapse", classes=("no", "yes"), intercepts=(-1.1,),
    ...               features=(), columns=(), settings={}, fingerprint="", versions={})
    >>> chosen = Selection(method="cv", measure="log-loss", points=(), best=0, chosen=0, rounds=1,
    ...                    bytes_down=0, bytes_up=0)
    >>> sentence_on_no_features(FitSummary(title="", created="", model=model, source="", sites=(),
    ...     columns={}, candidates=9, history=(), selection=chosen, settings={}))
    'By cross-validation, no feature predicts "relapse" better than the shares of its classes do: \
the model answers no 75%, yes 25% for every row.'
    """
    if summary.selection is None or summary.selection.chosen > 0:
        return None
    model = summary.model
    return (
        f'By {_HOW[summary.selection.method]}, no feature predicts "{model.predicted}" better than '
        f"{guess_of(model)}: the model answers {_answer(model)} for every row."
    )


def guess_of(model: Model) -> str:
    """What a model without features goes by, in words.

    Examples
    --------
    >>> guess_of(Model(task="regression", target="ldl", intercepts=(3.1,), features=(),
    ...                columns=(), settings={}, fingerprint="", versions={}))
    'its average does'
    """
    if model.task == "counts":
        return "one rate for all rows does"
    if model.task == "survival":
        return "the same risk for all rows does"
    return "its average does" if model.classes is None else "the shares of its classes do"


def _answer(model: Model) -> str:
    if model.task == "counts":
        return f"{np.exp(model.intercepts[0]):.4g}"
    if model.task == "survival":
        return "the same hazard"
    if model.classes is None:
        return f"{model.intercepts[0]:.4g}"
    shares = softmax(model.intercepts)
    if model.task == "binary":
        second = float(expit(model.intercepts[0]))
        shares = np.array([1.0 - second, second])
    pairs = zip(model.classes, shares, strict=True)
    return ", ".join(f"{label} {share:.0%}" for label, share in pairs)
