"""With a steep x the row of the highest score at risk has every event for sure.

The gradient is then what rows with events have, less what these winners have, with whole numbers.
As x turns, one row takes the place of another, and the gradient changes by a whole number times the
difference of the two rows: that is told exactly.
"""

from itertools import pairwise

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.problem.losses import Cox
from tests.attacks.outcomes import survival_server, survivors
from tests.attacks.victims import NotToldError

ROWS, WIDTH, STEEP = 60, 5, 1e7
WITHIN = 1e-6
KINDS = {
    "gradient": lambda x: fs.Gradient(x),
    "diagonal": lambda x: fs.Slopes(x),
    "Hessian": lambda x: fs.Curvature(x, np.arange(2)),
}


def gradients(server, kind, steepness, turns=120):
    """At an x that turns; None where nothing is told."""
    found = []
    for angle in np.linspace(0.0, np.pi, turns):
        x = np.zeros(WIDTH)
        x[:2] = steepness * np.cos(angle), steepness * np.sin(angle)
        try:
            found.append(ROWS * server.ask(KINDS[kind](x))["gradient"])
        except NotToldError:
            found.append(None)
    return found


def pairs_found(Z, told):
    """Changes of the gradient that are a whole number times the difference of two rows."""
    differences = (Z[:, None] - Z[None]).reshape(-1, WIDTH)
    differences = differences[np.abs(differences).sum(axis=1) > 0]
    count = 0
    for one, other in pairwise(told):
        if one is None or other is None or np.abs(one - other).max() < WITHIN:
            continue
        ratios = (one - other)[0] / differences[:, 0]
        whole = np.rint(ratios)
        misses = np.abs(one - other - whole[:, None] * differences).max(axis=1)
        count += bool(((misses < WITHIN) & (np.abs(whole) >= 1)).any())
    return count


def test_it_tells_differences_of_rows_where_few_may_dominate():
    Z, signed = survivors(ROWS, WIDTH)
    server = survival_server(Z, signed, smallest_weight_of_others=0.0)
    assert pairs_found(Z, gradients(server, "gradient", STEEP)) >= 10


def test_it_told_them_while_sure_chances_counted_as_curvature(monkeypatch):
    monkeypatch.setattr(Cox, "own_curvatures", lambda self, s, t: self.at_scores(s, t).curvatures)
    found = 0
    for seed in range(2):
        Z, signed = survivors(ROWS, WIDTH, seed)
        server = survival_server(Z, signed)
        found += pairs_found(Z, gradients(server, "gradient", STEEP))
    assert found >= 10


@pytest.mark.parametrize("kind", KINDS)
def test_it_tells_nothing_by_default(kind):
    for seed in range(2):
        Z, signed = survivors(ROWS, WIDTH, seed)
        server = survival_server(Z, signed)
        assert not any(own is not None for own in gradients(server, kind, STEEP, turns=30))


@pytest.mark.parametrize("steepness", [2.0, 5.0, 10.0, 20.0, 40.0])
def test_what_is_told_at_less_steep_x_is_no_difference_of_rows(steepness):
    Z, signed = survivors(ROWS, WIDTH)
    server = survival_server(Z, signed)
    assert pairs_found(Z, gradients(server, "gradient", steepness)) == 0


@pytest.mark.parametrize(
    "kind", [fs.Evaluate, fs.JudgeSurvival, fs.SurvivalMoments], ids=lambda own: own.__name__
)
def test_nor_is_anything_else_told_there(kind):
    Z, signed = survivors(ROWS, WIDTH)
    with pytest.raises(NotToldError):
        survival_server(Z, signed).ask(kind(np.array([STEEP, *[0.0] * (WIDTH - 1)])))
