"""How good a model is on rows it has not seen, beside each site alone and all rows in one place."""

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.data.federated import FederatedData
from fedsparse.data.folds import folds_within_sites
from fedsparse.evaluation.metrics import ClassificationSums, RegressionSums
from fedsparse.fitting import FitOptions, Progress, fit_model, no_progress, prepare
from fedsparse.losses import SquaredError
from fedsparse.models.summary import Confusion, Evaluation, Score

Sums = RegressionSums | ClassificationSums
Scorer = Callable[[FederatedData], FloatArray]
_METHODS = ("federated", "alone", "pooled")


def evaluate_held_out(
    data: FederatedData,
    choose_sparsity: Callable[[FederatedData], int],
    options: FitOptions,
    *,
    folds: int = 5,
    only_first: bool = False,
    labels: tuple[str, ...] = (),
    on_model: Progress = no_progress,
) -> Evaluation:
    """Metrics on held-out rows, site by site and together.

    Every site holds back a fold of its rows; τ is chosen and models are fitted on the others: one
    of all sites together, one of each site by itself, one of all rows pooled, all of the same τ.

    Parameters
    ----------
    data, options, on_model
        As in `fedsparse.selection.cross_validate`.
    choose_sparsity
        Gives τ for training rows, so that choosing is part of what is judged.
    folds
        How many parts every site's rows are cut into; each is held out once.
    only_first
        Hold out the first part only, for large data.
    labels
        Names of the classes.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=4, samples=40, width=20, relevant=3)
    >>> found = evaluate_held_out(data, lambda train: 3, FitOptions(fs.SquaredError()))
    >>> [(score.method, score.site) for score in found.scores][:3]
    [('federated', None), ('alone', None), ('pooled', None)]
    """
    by_class = not isinstance(options.loss, SquaredError)
    own_folds = folds_within_sites(data, folds, seed=options.seed, by_class=by_class)
    sums: dict[tuple[str, str], Sums] = {}
    for fold in range(1 if only_first else folds):
        is_held_out = own_folds == fold
        if is_held_out.any() and not is_held_out.all():
            train, unseen = data.where(~is_held_out), data.where(is_held_out)
            sparsity = choose_sparsity(train)
            for method, model in _models(train, sparsity, options, on_model):
                _add(sums, method, model, unseen, by_class)
    share = "a random fifth" if folds == 5 else f"one part in {folds}"
    held_out = f"{share} of every site's rows" if only_first else "every row once"
    return Evaluation(
        folds=1 if only_first else folds,
        held_out=held_out,
        scores=tuple(_scores(sums, data.names)),
        confusion=_confusion(sums, labels) if by_class else None,
    )


def _models(
    train: FederatedData, sparsity: int, options: FitOptions, on_model: Progress
) -> Iterator[tuple[str, dict[str, Scorer]]]:
    """For every method, what scores each site's held-out rows.

    A site whose rows are all held out has no model of its own.
    """
    together = _fitted(train, sparsity, options)
    on_model("all sites together")
    yield "federated", defaultdict(lambda: together)
    alone = {}
    for place, name in enumerate(train.names):
        own = train.client(place)
        fewest = max(len(set(options.keep)), 1)
        alone[name] = _fitted(own, max(min(sparsity, own.samples - 1), fewest), options)
        on_model(f"{name} alone")
    yield "alone", alone
    pooled = _fitted(train.pooled(), sparsity, options)
    on_model("all rows in one place")
    yield "pooled", defaultdict(lambda: pooled)


def _fitted(train: FederatedData, sparsity: int, options: FitOptions) -> Scorer:
    model = fit_model(prepare(train, options), sparsity, options.roughly)
    return lambda unseen: model.scores(unseen.features)


def _add(
    sums: dict[tuple[str, str], Sums],
    method: str,
    models: dict[str, Scorer],
    unseen: FederatedData,
    by_class: bool,
) -> None:
    """Add the held-out rows of every site that a method has a model for."""
    for place, name in enumerate(unseen.names):
        if method == "alone" and name not in models:
            continue
        site = unseen.client(place)
        scores = models[name](site)
        own = (ClassificationSums if by_class else RegressionSums).of(site.targets, scores)
        before = sums.get((method, name))
        sums[method, name] = own if before is None else before + own  # type: ignore[operator]


def _scores(sums: dict[tuple[str, str], Sums], names: tuple[str, ...]) -> Iterator[Score]:
    """All sites together first, then site by site."""
    for method in _METHODS:
        total = _total(sums, method)
        if total is not None:
            yield _score(method, None, total)
    for name in names:
        for method in _METHODS:
            if (method, name) in sums:
                yield _score(method, name, sums[method, name])


def _score(method: str, site: str | None, sums: Sums) -> Score:
    return Score.model_validate(
        {"method": method, "site": site, "rows": sums.rows, "metrics": sums.metrics()}
    )


def _total(sums: dict[tuple[str, str], Sums], method: str) -> Sums | None:
    total: Sums | None = None
    for (own, _), part in sums.items():
        if own == method:
            total = part if total is None else total + part  # type: ignore[operator]
    return total


def _confusion(sums: dict[tuple[str, str], Sums], labels: tuple[str, ...]) -> Confusion | None:
    total = _total(sums, "federated")
    if not isinstance(total, ClassificationSums):
        return None
    names = labels or tuple(str(code) for code in range(total.confusion.shape[0]))
    return Confusion(classes=names, counts=tuple(map(tuple, np.asarray(total.confusion).tolist())))
