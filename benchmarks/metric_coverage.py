"""How often 95 % intervals of metrics hold what they are about, for few and for many rows.

Rows are drawn at four sites, of a model's predictions and what was true. Of *one model* the figure
that intervals are about is that of the model on endless rows. Of a *cross-validation* it is the
average over the five models that were judged. An AUC compares rows of the same site and the same
fold, as everywhere. Intervals that lie above are told apart from those that lie below.
"""

from functools import reduce
from operator import add

import numpy as np

import fedsparse as fs
from benchmarks.tables import show
from fedsparse.modelling.fitting import FitOptions, Fitted, fit_model, loss_for, prepare
from fedsparse.modelling.judging import evaluate_held_out, given
from fedsparse.modelling.metrics import Judged

REPEATS = 2000
FITTED = 100
ROWS = (6, 60, 600)
ENDLESS = 400_000
SITES = 4
FOLDS = 5


def two_classes(random, rows, share, noise):
    """Log-odds that are right up to noise."""
    truth = random.standard_normal(rows) * 1.5 + share
    targets = (random.random(rows) < 1 / (1 + np.exp(-truth))).astype(int)
    return targets, truth + noise * random.standard_normal(rows)


def numbers(random, rows, draw):
    signal = random.standard_normal(rows)
    return signal + draw(random, rows), 0.9 * signal


DRAWS = {
    "balanced classes": (False, lambda random, rows: two_classes(random, rows, 0.0, 0.5)),
    "one in seven": (False, lambda random, rows: two_classes(random, rows, -2.3, 0.5)),
    "classes, useless": (False, lambda random, rows: (random.integers(0, 2, rows),
                                                      0.3 * random.standard_normal(rows))),
    "numbers, normal": (True, lambda random, rows: numbers(
        random, rows, lambda draw, size: draw.standard_normal(size))),
    "numbers, long tails": (True, lambda random, rows: numbers(
        random, rows, lambda draw, size: draw.standard_t(5, size))),
    "numbers, skewed": (True, lambda random, rows: numbers(
        random, rows, lambda draw, size: draw.exponential(size=size) - 1.0)),
}  # fmt: skip


def judged(targets, scores, is_numbers):
    """Sums over parts: each fold of each site, as a cross-validation adds them up."""
    parts = np.arange(targets.size) % (SITES * FOLDS)
    if targets.size < 4 * SITES * FOLDS:  # a site by itself
        parts = np.arange(targets.size) % FOLDS if targets.size >= 60 else np.zeros(targets.size)
    own = [
        Judged.of(targets[parts == part], scores[parts == part], is_numbers=is_numbers)
        for part in np.unique(parts)
    ]
    return reduce(add, own)


def coverage(found, truth):
    """Shares of intervals that hold the truth, and that lie below and above it."""
    limits = np.array([around for around in found if around is not None])
    if not limits.size:
        return None
    below, above = np.mean(limits[:, 1] < truth), np.mean(limits[:, 0] > truth)
    width = np.median(limits[:, 1] - limits[:, 0])
    return 1.0 - below - above, below, above, width, limits.shape[0] / len(found)


def of_one_model():
    rows = []
    for name, (is_numbers, draw) in DRAWS.items():
        random = np.random.default_rng(1)
        truth = Judged.of(*draw(random, ENDLESS), is_numbers=is_numbers).metrics()
        for size in ROWS:
            told = [judged(*draw(random, size), is_numbers).intervals() for _ in range(REPEATS)]
            for metric, value in truth.items():
                rows.append(line(name, size, metric, [own[metric] for own in told], value))
    return rows


def line(name, size, metric, found, value):
    shares = coverage(found, value)
    if shares is None:
        return (name, size, metric, f"{value:.3f}", "–", "–", "–", "–", "0 %")
    inside, below, above, width, told = shares
    return (
        name, size, metric, f"{value:.3f}", f"{inside:.1%}", f"{below:.1%}", f"{above:.1%}",
        f"{width:.3f}", f"{told:.0%}",
    )  # fmt: skip


WIDTH = 20
COEFFICIENTS = np.concatenate([[1.0, -1.0, 0.5], np.zeros(WIDTH - 3)])


def drawn(random, rows, is_numbers):
    Z = random.standard_normal((rows, WIDTH))
    scores = Z @ COEFFICIENTS
    if is_numbers:
        return Z, scores + 1.5 * random.standard_normal(rows)
    return Z, (random.random(rows) < 1 / (1 + np.exp(-scores))).astype(int)


def of_cross_validation():
    """Fitted anew each time; what is true of the five models is worked out on endless rows."""
    rows = []
    for is_numbers in (False, True):
        unseen = drawn(np.random.default_rng(99), 20_000, is_numbers)
        for size in (60, 600):
            found, off = {}, {}
            for seed in range(FITTED):
                random = np.random.default_rng(seed)
                Z, y = drawn(random, size, is_numbers)
                data = fs.FederatedData.from_table(Z, y, np.arange(size) % SITES)
                score, truth = cross_validated(data, is_numbers, unseen)
                for metric, value in truth.items():
                    low, high = score.intervals[metric]
                    found.setdefault(metric, []).append((low - value, high - value))
                    off.setdefault(metric, []).append(value)
            for metric, limits in found.items():
                inside, below, above, width, _ = coverage(limits, 0.0)
                rows.append(
                    ("numbers" if is_numbers else "classes", size, metric,
                     f"{np.mean(off[metric]):.3f}", f"{inside:.1%}", f"{below:.1%}", f"{above:.1%}",
                     f"{width:.3f}")
                )  # fmt: skip
    return rows


def cross_validated(data, is_numbers, unseen):
    loss = loss_for(None if is_numbers else 2, data.samples)
    options, engine = FitOptions(loss), fs.LocalEngine(data, loss)
    score = fs.converse(engine, evaluate_held_out(engine, given(3), options)).scores[0]
    totals = []
    for fold in range(FOLDS):
        rows, how = engine.lens.rows, options.how_to_part(FOLDS)
        model = fs.converse(engine, fitted(engine.where(rows.but_part(fold, **how)), options))
        scores = unseen[0] @ model.coefficients + model.intercept
        totals.append(Judged.of(unseen[1], scores, is_numbers=is_numbers))
    return score, reduce(add, totals).metrics()


def fitted(engine, options) -> "fs.Conversation[Fitted]":
    prepared = yield from prepare(engine, options)
    return (yield from fit_model(prepared, 3, options.nearly))


def main(*options):
    """Of a fixed model by default, ``--fitted`` of a cross-validation."""
    headings = ["drawn", "rows", "metric", "truth", "inside", "below", "above", "median width"]
    if "--fitted" in options:
        show(
            f"95 % intervals of a cross-validation, {FITTED} times: how often they hold what is "
            "true of the five models",
            headings, of_cross_validation(),
        )  # fmt: skip
        return
    show(
        f"95 % intervals of a model's metrics, {REPEATS} times: how often they hold what is true",
        [*headings, "told"], of_one_model(),
    )  # fmt: skip


if __name__ == "__main__":
    main()
