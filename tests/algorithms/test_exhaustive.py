"""FedSplice against the optimum, where problems are small enough to try every support.

Oracles share no code with the library: normal equations for all supports at once, and Newton's
method to the last digits. Signals are weak, so that supports are close to each other; sites count
the same, whatever their rows.
"""

from itertools import combinations, product

import numpy as np

import fedsparse as fs

SITES, CLASSES = 4, 3
L2 = 1e-3
NEAR = 1e-6
"""So much above the optimum, relatively, still counts as optimal."""


# ---------------------------------------------------------------- problems


def independent(random, rows, width):
    return random.standard_normal((rows, width))


def blocks(random, rows, width):
    """Blocks of four features with ρ = 0.9."""
    own, shared = random.standard_normal((rows, width)), random.standard_normal((rows, width))
    return np.sqrt(0.1) * own + np.sqrt(0.9) * shared[:, np.arange(width) // 4]


def autoregressive(random, rows, width):
    """Correlations of 0.8 to the power of the distance."""
    Z = random.standard_normal((rows, width))
    for feature in range(1, width):
        Z[:, feature] = 0.8 * Z[:, feature - 1] + 0.6 * Z[:, feature]
    return Z


DESIGNS = (independent, blocks, autoregressive)


def rows_of(seed, width=None):
    """A generator of random numbers, features, and the site of each row."""
    random = np.random.default_rng(seed)
    width = int(random.integers(10, 15)) if width is None else width
    Z = DESIGNS[seed % len(DESIGNS)](random, int(random.integers(60, 121)), width)
    sites = np.concatenate([np.arange(SITES), random.integers(SITES, size=len(Z) - SITES)])
    return random, Z, sites


def one_score(seed, *, strength, has_classes=False):
    """Z, y, sites and τ; one feature more matters than may be taken."""
    random, Z, sites = rows_of(seed)
    sparsity = int(random.integers(3, 5))
    truth = np.zeros(Z.shape[1])
    relevant = random.choice(truth.size, sparsity + 1, replace=False)
    truth[relevant] = strength * random.choice([-1, 1], relevant.size)
    truth[relevant] *= random.uniform(0.5, 1.5, relevant.size)
    if has_classes:
        y = (random.random(len(Z)) < 1 / (1 + np.exp(-Z @ truth))).astype(float)
    else:
        y = Z @ truth + random.standard_normal(len(Z))
    return Z, y, sites, sparsity


def three_classes(seed, width):
    """Z, y and sites; about half of the features matter."""
    random, Z, sites = rows_of(seed, width)
    truth = 0.5 * random.standard_normal((width, CLASSES)) * (random.random((width, 1)) < 0.6)
    y = np.argmax(Z @ truth + random.gumbel(size=(len(Z), CLASSES)), axis=1)
    y[:CLASSES] = np.arange(CLASSES)
    return Z, y, sites


def spliced(Z, y, sites, sparsity, loss):
    """f at what FedSplice finds."""
    data = fs.FederatedData.from_table(Z, y, sites)
    return fs.run(fs.FedSplice(sparsity), data, loss=loss, threads=1).objective


# ---------------------------------------------------------------- optima


def row_weights(sites):
    """Every site counts the same, and so does every row of a site."""
    return 1.0 / (SITES * np.bincount(sites)[sites])


def supports(width, sparsity):
    return np.array(list(combinations(range(width), sparsity)))


def lowest_squared(Z, y, sites, sparsity):
    """By the normal equations, for all supports at once."""
    w, every = row_weights(sites), supports(Z.shape[1], sparsity)
    hessian = 2.0 * (Z.T * w) @ Z + L2 * np.eye(Z.shape[1])
    linear = 2.0 * Z.T @ (w * y)
    parts = hessian[every[:, :, None], every[:, None, :]]
    solutions = np.linalg.solve(parts, linear[every][:, :, None])[:, :, 0]
    return w @ y**2 - 0.5 * np.max(np.sum(linear[every] * solutions, axis=1))


def lowest_logistic(Z, y, sites, sparsity):
    """By Newton's method from 0, for all supports at once."""
    w, every = row_weights(sites), supports(Z.shape[1], sparsity)
    rows = np.moveaxis(Z[:, every], 0, 1)  # support, row, feature
    x = np.zeros(every.shape)
    for _ in range(30):
        scores = np.einsum("srf,sf->sr", rows, x)
        chances = 1.0 / (1.0 + np.exp(-scores))
        gradient = np.einsum("srf,sr->sf", rows, w * (chances - y)) + L2 * x
        if np.abs(gradient).max() < 1e-10:
            losses = np.sum(w * (np.logaddexp(0.0, scores) - y * scores), axis=1)
            return np.min(losses + 0.5 * L2 * np.sum(x**2, axis=1))
        weighted = rows * (w * chances * (1.0 - chances))[:, :, None]
        hessian = np.swapaxes(weighted, 1, 2) @ rows + L2 * np.eye(sparsity)
        x = x - np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
    raise AssertionError("Newton's method of the oracle has not converged")


def lowest_softmax(Z, y, sites, mask):
    """With the entries of a mask, by Newton's method with halved steps."""
    w, truth, free = row_weights(sites), np.eye(CLASSES)[y], np.flatnonzero(mask.T)
    width = Z.shape[1]

    def value(x):
        scores = Z @ x
        highest = scores.max(axis=1)
        losses = np.log(np.exp(scores - highest[:, None]).sum(axis=1)) + highest
        return w @ (losses - np.sum(truth * scores, axis=1)) + 0.5 * L2 * np.sum(x**2)

    x = np.zeros(mask.shape)
    for _ in range(50):
        chances = np.exp(Z @ x)
        chances /= chances.sum(axis=1, keepdims=True)
        gradient = (Z.T @ (w[:, None] * (chances - truth)) + L2 * x).T.ravel()[free]
        if np.abs(gradient).max() < 1e-10:
            return value(x)
        seconds = np.einsum("rk,kl->rkl", chances, np.eye(CLASSES))
        seconds -= chances[:, :, None] * chances[:, None, :]
        hessian = np.einsum("r,rkl,ri,rj->kilj", w, seconds, Z, Z, optimize=True)
        hessian = hessian.reshape(CLASSES * width, -1)[np.ix_(free, free)] + L2 * np.eye(free.size)
        step = np.zeros(CLASSES * width)
        step[free] = np.linalg.solve(hessian, gradient)
        step = step.reshape(CLASSES, width).T
        while value(x - step) > value(x) and np.abs(step).max() > 1e-9:
            step /= 2.0
        x = x - step
    raise AssertionError("Newton's method of the oracle has not converged")


def masks_of_rows(width, sparsity):
    for chosen in supports(width, sparsity):
        yield np.repeat(np.isin(np.arange(width), chosen)[:, None], CLASSES, axis=1)


def masks_of_one_each(width):
    for chosen in product(range(width), repeat=CLASSES):
        yield np.arange(width)[:, None] == np.array(chosen)


# ---------------------------------------------------------------- how often it is found


def excesses(reached, optima):
    """How far f is above the optimum, relatively; never below, or the oracle is wrong."""
    excess = np.array(reached) / np.array(optima) - 1.0
    assert excess.min() > -1e-9
    return excess


def test_squared_loss_is_optimal_in_all_but_two_of_forty():
    problems = [one_score(seed, strength=0.3) for seed in range(40)]
    reached = [spliced(*problem, fs.SquaredError(l2=L2)) for problem in problems]
    excess = excesses(reached, [lowest_squared(*problem) for problem in problems])
    assert np.count_nonzero(excess < NEAR) >= 38
    assert excess.max() < 0.02


def test_logistic_loss_is_optimal_in_all_of_fifteen():
    problems = [one_score(seed, strength=0.6, has_classes=True) for seed in range(15)]
    reached = [spliced(*problem, fs.Logistic(l2=L2)) for problem in problems]
    excess = excesses(reached, [lowest_logistic(*problem) for problem in problems])
    assert np.count_nonzero(excess < NEAR) == 15


def test_softmax_loss_with_shared_features_is_optimal_in_all_of_eight():
    problems = [three_classes(1000 + seed, width=7) for seed in range(8)]
    reached = [spliced(*own, fs.TopKRows(2), fs.Softmax(l2=L2)) for own in problems]
    optima = [min(lowest_softmax(*own, mask) for mask in masks_of_rows(7, 2)) for own in problems]
    assert np.count_nonzero(excesses(reached, optima) < NEAR) == 8


def test_softmax_loss_with_features_of_each_class_is_optimal_in_two_of_three_and_close_in_all():
    """A feature of one class can do the work of another's: classes would be chosen jointly."""
    problems = [three_classes(1000 + seed, width=5) for seed in range(24)]
    reached = [spliced(*own, fs.TopKPerClass(1), fs.Softmax(l2=L2)) for own in problems]
    optima = [min(lowest_softmax(*own, mask) for mask in masks_of_one_each(5)) for own in problems]
    excess = excesses(reached, optima)
    assert np.count_nonzero(excess < NEAR) >= 16
    assert excess.max() < 0.05
