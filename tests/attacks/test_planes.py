"""Models as planes: to judge one is to count rows on either side of it.

At an x near 0 all rows weigh the same, and the sign of the score says on which side of a threshold
a value lies: halving intervals reads a column with its labels. And whether a steep model is better
than a guess compares the loss of the one row on the wrong side with a number of the server's.
"""

import numpy as np
import pytest

import fedsparse as fs
from tests.attacks.victims import NotToldError, Server, secrets, site_with

ROWS, WITHIN, TINY = 40, 1e-6, 1e-6


def values_between(server, low, high, at_low, at_high):
    """Every value between two thresholds, with its label."""
    if (at_low == at_high).all():
        return []
    if high - low < WITHIN:
        counts = at_low - at_high
        return [(low, label) for label in (0, 1) for _ in range(int(counts[label]))]
    middle = (low + high) / 2
    at_middle = rows_above(server, middle)
    return [
        *values_between(server, low, middle, at_low, at_middle),
        *values_between(server, middle, high, at_middle, at_high),
    ]


def rows_above(server, threshold):
    """Of each class."""
    x = TINY * np.array([1.0, -threshold])
    return server.ask(fs.Judge(x))["counts"].reshape(2, 2)[:, 1]


def column(**policy):
    Z, labels = secrets(ROWS, 1)
    server = Server(site_with(Z, labels, **policy), 1, fs.Logistic(l2=0.1))
    ends = (-6.0, 6.0)
    found = values_between(server, *ends, *(rows_above(server, own) for own in ends))
    return sorted(found), sorted(zip(Z[:, 0], labels, strict=True)), server.requests


def test_it_reads_a_column_with_labels_where_any_number_of_models_is_judged():
    found, secret, requests = column(most_judged=10_000)
    assert np.abs(np.subtract(found, secret)).max() < WITHIN
    assert requests > 200


def test_judging_ends_by_default():
    with pytest.raises(NotToldError, match="its policy lets 200 models be judged"):
        column()


def outlier(**policy):
    """Its value, by the steepness at which a model is no better than a guess; and the secret."""
    random = np.random.default_rng(2)
    z = random.uniform(1.0, 3.0, 60) * np.resize([-1, 1], 60)
    labels = (z > 0).astype(int)
    labels[7] = 1 - labels[7]
    server = Server(site_with(z[:, None], labels, **policy), 1, fs.Logistic(l2=0.1))
    share = labels.mean()
    entropy = -(share * np.log(share) + (1 - share) * np.log(1 - share))
    low, high = 1.0, 1e6
    while high / low > 1 + 1e-9:
        middle = np.sqrt(low * high)
        told = server.ask(fs.requests.NoBetterThanNull(np.array([middle, 0.0])))["no_better"]
        low, high = (low, middle) if told > 0.5 else (middle, high)
    return 60 * entropy / low, abs(z[7])


def test_a_guess_tells_the_row_on_the_wrong_side_where_few_may_dominate():
    found, secret = outlier(smallest_weight_of_others=0.0)
    assert found == pytest.approx(secret, abs=1e-4)


def test_it_is_not_told_by_default():
    with pytest.raises(NotToldError):
        outlier()
