"""τ by the extended Bayesian information criterion: one path of models, no folds."""

from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from fedsparse.data.federated import FederatedData
from fedsparse.evaluation.metrics import mean_loss
from fedsparse.fitting import FitOptions, Fitted, Progress, fit_model, no_progress, prepare
from fedsparse.losses import SquaredError
from fedsparse.models.summary import Selection, SelectionPoint
from fedsparse.selection.cross_validation import fit_path, path_rounds

_GAMMA = 1.0
"""γ of EBIC: how much the number of possible supports counts; 0 is BIC, 1 the strictest."""


def choose_by_ebic(
    data: FederatedData,
    sparsities: Sequence[int],
    options: FitOptions,
    *,
    on_model: Progress = no_progress,
) -> tuple[Selection, Fitted]:
    """Choose τ by EBIC (Chen & Chen, Biometrika 2008) on all rows, and the model of that τ.

    EBIC = deviance + k log n + 2γ log C(d, k) with γ = 1 and k non-zero coefficients; the deviance
    is n log(RSS / n) for the squared loss and 2n times the log-loss otherwise.

    Parameters
    ----------
    data, sparsities, options, on_model
        As in `cross_validate`.

    Examples
    --------
    >>> import fedsparse as fs
    >>> Z = np.random.default_rng(0).standard_normal((60, 30))
    >>> y = Z[:, 3] - Z[:, 7]
    >>> data = FederatedData.from_table(Z, y, ["north", "south"] * 30)
    >>> selection, model = choose_by_ebic(data, [1, 2, 5], FitOptions(fs.SquaredError()))
    >>> selection.chosen, len(selection.points)
    (2, 3)
    """
    prepared = prepare(data, options)
    wanted = sorted(set(sparsities))
    models = fit_path(prepared, wanted, options.roughly, on_model)
    scores = [_ebic(model, data, options) for model in models]
    lowest = int(np.argmin(scores))
    selection = Selection(
        method="ebic",
        measure="EBIC",
        points=tuple(
            SelectionPoint(sparsity=sparsity, score=score)
            for sparsity, score in zip(wanted, scores, strict=True)
        ),
        best=wanted[lowest],
        chosen=wanted[lowest],
        rounds=path_rounds(models, prepared, options),
        bytes_down=sum(model.result.records[-1].bytes_down for model in models),
        bytes_up=sum(model.result.records[-1].bytes_up for model in models),
    )
    return selection, fit_model(prepared, wanted[lowest], options, start=models[lowest])


def _ebic(model: Fitted, data: FederatedData, options: FitOptions) -> float:
    rows = float(data.masses.sum())
    loss = max(mean_loss(options.loss, model, data), 1e-300)
    is_regression = isinstance(options.loss, SquaredError)
    deviance = rows * np.log(loss) if is_regression else 2.0 * rows * loss
    nonzeros, possible = int(np.count_nonzero(model.coefficients)), model.coefficients.size
    supports = _log_binomial(possible, nonzeros)
    return float(deviance + nonzeros * np.log(rows) + 2.0 * _GAMMA * supports)


def _log_binomial(of: int, chosen: int) -> float:
    return float(gammaln(of + 1) - gammaln(chosen + 1) - gammaln(of - chosen + 1))
