"""A Hessian on more features than there are rows spans the rows: whoever has one can be found."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.triangles import from_triangle
from tests.attacks.victims import NotToldError, Server, site_with

ROWS, WIDTH = 12, 20
RANDOM = np.random.default_rng(0)
PATIENTS, STRANGERS = RANDOM.standard_normal((2, ROWS, WIDTH))


def are_members(server, candidates):
    """Whose rows lie where those of the site do."""
    asked = fs.Curvature(np.zeros(WIDTH), np.arange(WIDTH))
    hessian = from_triangle(server.ask(asked)["hessian"], WIDTH)
    values, directions = np.linalg.eigh(hessian)
    empty = directions[:, values < 1e-9 * values.max()]
    return np.linalg.norm(candidates @ empty, axis=1) < 1e-6


def server_of(**policy):
    site = site_with(PATIENTS, PATIENTS[:, 0] + 0.5, **policy)
    return Server(site, WIDTH, fs.SquaredError(), intercept=0.0)


def test_it_tells_patients_from_strangers_where_any_ratio_will_do():
    server = server_of(most_features_per_row=np.inf)
    assert are_members(server, np.vstack([PATIENTS, STRANGERS])).tolist() == (
        [True] * ROWS + [False] * ROWS
    )


def test_it_is_not_answered_by_default():
    with pytest.raises(
        NotToldError, match="curvature on 20 features tells too much about so few rows"
    ):
        are_members(server_of(), PATIENTS)
