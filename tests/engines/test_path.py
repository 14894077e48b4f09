"""Models of several sparsities, each started from the one before."""

from itertools import pairwise

import numpy as np
import pytest

import fedsparse as fs
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate, heavy_tailed

SPARSITIES = [8, 1, 3, 5, 3, 24]


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
class TestPath:
    def path(self, loss, storage, **options):
        data = federate(clients_for(loss), storage)
        return fs.sparsity_path(data, SPARSITIES, loss=LOSS_OBJECTS[loss], **options)

    def test_has_each_sparsity_once_in_increasing_order(self, loss, storage):
        path = self.path(loss, storage)
        assert list(path) == [1, 3, 5, 8, 24]
        for sparsity, result in path.items():
            assert np.count_nonzero(result.coef) <= sparsity

    def test_more_features_never_fit_worse(self, loss, storage):
        objectives = [result.objective for result in self.path(loss, storage).values()]
        assert all(after <= before for before, after in pairwise(objectives))

    def test_each_model_is_a_run_from_the_one_before(self, loss, storage):
        data = federate(clients_for(loss), storage)
        before = None
        for sparsity, result in self.path(loss, storage, weights="samples").items():
            algorithm = fs.FedSplice(sparsity, start_at=before, weights="samples")
            alone = fs.run(algorithm, data, loss=LOSS_OBJECTS[loss])
            assert alone.coef.tobytes() == result.coef.tobytes()
            assert alone.history.drop("seconds").equals(result.history.drop("seconds"))
            before = alone.coef

    def test_rounds_are_those_of_one_model(self, loss, storage):
        for result in self.path(loss, storage, rounds=3).values():
            assert result.records[0].round == 0
            assert result.records[-1].round <= 3


def test_a_generator_of_sparsities_will_do():
    data = federate(clients_for("squared"))
    assert list(fs.sparsity_path(data, (2**power for power in range(3)))) == [1, 2, 4]


@pytest.mark.parametrize("sparsities", [[], [0, 3], [2.5], [-1]], ids=str)
def test_sparsities_that_make_no_sense_are_refused(sparsities):
    with pytest.raises(fs.OptionError, match="sparsities"):
        fs.sparsity_path(federate(clients_for("squared")), sparsities)


def test_a_model_that_is_hard_to_extend_is_extended_by_fewer_features():
    """Heavy-tailed features mislead the model, and the first extensions raise f."""
    data = federate(heavy_tailed(37))
    extended = fs.sparsity_path(data, [2, 4], loss="logistic")[4]
    alone = fs.run(fs.FedSplice(4), data, loss="logistic")
    assert extended.support.size == 4
    assert extended.objective <= 1.1 * alone.objective
