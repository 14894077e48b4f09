"""Stability selection: which features are found again on half of the rows."""

from collections.abc import Sequence

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count
from fedsparse.data.federated import FederatedData
from fedsparse.data.folds import half_of_every_site
from fedsparse.errors import OptionError
from fedsparse.fitting import FitOptions, Progress, fit_model, no_progress, prepare
from fedsparse.losses import SquaredError
from fedsparse.models.summary import FeatureStability, Stability


def select_stably(
    data: FederatedData,
    sparsity: int,
    options: FitOptions,
    names: Sequence[str],
    *,
    pairs: int = 25,
    threshold: float = 0.75,
    on_model: Progress = no_progress,
) -> Stability:
    """How often each feature is chosen on random halves of every site's rows, and without a site.

    Halves come in complementary pairs (Shah & Samworth, J. R. Stat. Soc. B 2013). Calling features
    stable that are chosen in a share of at least π halves, the expected number of stable features
    that one half chooses no more often than a random draw would (with probability at most q/d) is
    at most q² / ((2π − 1) d), q being how many features a half chooses on average. No fit waits
    for another, so that all can share their messages: the rounds told are those of the slowest.

    Parameters
    ----------
    data, options, on_model
        As in `cross_validate`.
    sparsity
        τ of the models.
    names
        Of the features.
    pairs
        How many times the rows are halved.
    threshold
        π, above ½.

    Examples
    --------
    >>> import fedsparse as fs
    >>> Z = np.random.default_rng(0).standard_normal((60, 30))
    >>> y = Z[:, 3] - Z[:, 7]
    >>> data = FederatedData.from_table(Z, y, ["north", "south"] * 30)
    >>> names = [f"gene {number}" for number in range(30)]
    >>> found = select_stably(data, 2, FitOptions(fs.SquaredError()), names, pairs=5)
    >>> found.features[0].frequency, found.features[0].without_a_site
    (1.0, 1.0)
    """
    check_count("pairs", pairs)
    if not 0.5 < threshold <= 1.0:
        raise OptionError(f"threshold must be above 0.5 and at most 1, not {threshold!r}")
    halves, without = [], []
    by_class = not isinstance(options.loss, SquaredError)
    for pair in range(pairs):
        half = half_of_every_site(data, seed=options.seed + pair, by_class=by_class)
        for part in (half, ~half):
            halves.append(_support(data.where(part), sparsity, options))
            on_model("half of the rows")
    for site in range(len(data) if len(data) > 1 else 0):
        others = np.repeat(np.arange(len(data)) != site, data.counts)
        without.append(_support(data.where(others), sparsity, options))
        on_model(f"without {data.names[site]}")
    supports = [found for found, _ in halves], [found for found, _ in without]
    average = float(np.mean([support.size for support in supports[0]]))
    return Stability(
        subsamples=len(halves),
        sparsity=sparsity,
        threshold=threshold,
        expected_false=average**2 / ((2.0 * threshold - 1.0) * data.width),
        features=_frequencies(*supports, names),
        rounds=max(rounds for _, rounds in halves + without),
    )


def _support(data: FederatedData, sparsity: int, options: FitOptions) -> tuple[Int64Array, int]:
    """Features chosen on some rows, and the rounds that took."""
    prepared = prepare(data, options)
    model = fit_model(prepared, sparsity, options.roughly)
    used = np.abs(model.coefficients.reshape(data.width, -1)).max(axis=1)
    return np.flatnonzero(used), prepared.rounds + model.result.records[-1].round


def _frequencies(
    halves: Sequence[Int64Array], without: Sequence[Int64Array], names: Sequence[str]
) -> tuple[FeatureStability, ...]:
    """Shares of every feature chosen at all, the most frequent first."""
    chosen, counts = np.unique(np.concatenate([*halves, *without]), return_counts=True)
    of_halves = _shares(halves, len(names))
    of_sites = _shares(without, len(names)) if without else None
    order = chosen[np.lexsort((chosen, -counts, -of_halves[chosen]))]
    return tuple(
        FeatureStability(
            feature=names[feature],
            frequency=of_halves[feature],
            without_a_site=None if of_sites is None else of_sites[feature],
        )
        for feature in order
    )


def _shares(supports: Sequence[Int64Array], width: int) -> FloatArray:
    return np.asarray(np.bincount(np.concatenate(supports), minlength=width) / len(supports))
