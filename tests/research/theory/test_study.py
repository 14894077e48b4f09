"""All of it together on a small federation."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.research.theory import study
from tests.builders import LOSS_OBJECTS, LOSSES, clients_for, federate


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_can_be_studied(name):
    told = []
    found = study(
        federate(clients_for(name)), LOSS_OBJECTS[name], 6, true_sparsity=2, local_steps=3,
        tell=told.append,
    )  # fmt: skip
    assert [bound.version for bound in found.fed_ht] == ["as stated", "recomputed"]
    assert len(found.fed_iter_ht) == 3
    assert [(one.algorithm, one.step) for one in found.measurements] == [
        ("Fed-HT", "1/(6l)"), ("Fed-HT", "auto"), ("FedIter-HT", "1/(6l)"), ("FedIter-HT", "auto"),
    ]  # fmt: skip
    assert all(0 < one.contraction.factor < 1 for one in found.measurements)
    assert found.restricted.sparsity == 14
    assert found.squared_local_gradients >= found.squared_gradient
    assert told[0] == "looking for a reference solution"


def test_clients_that_disagree_have_no_dissimilarity_on_the_support_of_the_solution():
    found = study(federate(clients_for("squared")), fs.SquaredError(), 6, true_sparsity=2)
    at_start, at_reference = found.dissimilarities
    assert 1 < at_start.on_support < np.inf
    assert at_reference.on_support == np.inf
    assert 1 < at_reference.everywhere < np.inf


def test_the_target_has_half_as_many_entries_by_default():
    found = study(federate(clients_for("squared")), fs.SquaredError(), 6)
    assert found.true_sparsity == 3
    assert np.count_nonzero(found.reference.coef) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity": 25}, "sparsity is 25, but there are only 24 features"),
        ({"sparsity": 6, "true_sparsity": 6}, "true_sparsity is 6.*below the sparsity 6"),
        ({"sparsity": 1}, "true_sparsity must be"),
        ({"sparsity": 6, "precision": 0.0}, "precision must be a number > 0"),
        ({"sparsity": 6, "local_steps": 0}, "local_steps must be"),
    ],
)
def test_impossible_options_are_refused_before_any_work(options, message):
    data = federate(clients_for("squared"))
    with pytest.raises(fs.OptionError, match=message):
        study(data, fs.SquaredError(), tell=lambda what: pytest.fail(what), **options)
