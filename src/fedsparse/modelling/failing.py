"""When a fit has found nothing: a model that is no better than none is not a result."""

from fedsparse.modelling.fitting import Fitted

_WHY = (
    "A site may be faulty, lie or use other units, or labels may be shuffled; --sparsity may be "
    "too small or --l2 too large."
)


def failure_of(fitted: Fitted, sparsity: int) -> str | None:
    """Why a model is worth nothing, in words; None if it is better than none.

    One that predicts unseen rows badly is a result all the same: only a model without features, or
    one no better than x = 0 on the very rows it was learnt from, is a failure. To choose τ = 0 is
    none: that no feature predicts is what was found out.

    Parameters
    ----------
    fitted
        The model and the run that found it.
    sparsity
        τ that it was to have.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.modelling.fitting import FitOptions, fit
    >>> data = fs.FederatedData.from_clients([([[1.0], [1.0]], [3.0, 1.0])])
    >>> engine = fs.LocalEngine(data, "squared")
    >>> model = fs.converse(engine, fit(engine, 1, FitOptions(fs.SquaredError())))
    >>> failure_of(model, sparsity=1)[:59]
    'The model is no better than none: it has no features. A sit'
    """
    if sparsity == 0:
        return None
    result = fitted.result
    first = result.records[0]
    if not fitted.coefficients.any():
        what = "it has no features"
    elif first.nonzeros == 0 and result.objective >= first.objective:
        what = f"f is {result.objective:.6g} and was {first.objective:.6g} at the start"
    else:
        return None
    return f"The model is no better than none: {what}. {_WHY}"
