"""What a reader is told beside the model."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.fitting import loss_for
from fedsparse.modelling.specification import FitSpecification


def notes_on(counts, Z, **asked):
    data = fs.FederatedData.from_table(Z, counts, np.arange(len(Z)) % 3)
    engine = fs.LocalEngine(data, loss_for(None, 1.0, task="counts"), 1)
    specification = FitSpecification(**({"sparsity": 1, "stability": 0} | asked))
    names = [str(place) for place in range(Z.shape[1])]
    return fs.converse(engine, analysing(engine, specification, names)).notes


def rates_and_rows(rows=600):
    random = np.random.default_rng(0)
    Z = random.standard_normal((rows, 4))
    return np.exp(0.3 + 0.5 * Z[:, 1]), Z, random


def test_counts_that_vary_more_than_poissons_are_told():
    rates, Z, random = rates_and_rows()
    negative_binomial = random.poisson(rates * random.gamma(0.5, 2.0, len(rates)))
    (note,) = notes_on(negative_binomial.astype(float), Z)
    assert "Counts vary more than this model lets them" in note
    assert "too sure of themselves" in note


@pytest.mark.parametrize("mean", [0.1, 1.0, 10.0])
def test_poissons_own_counts_are_not_suspected(mean):
    rates, Z, random = rates_and_rows()
    assert notes_on(random.poisson(mean * rates).astype(float), Z) == ()


def test_more_features_than_there_are_is_told():
    rates, Z, random = rates_and_rows()
    counts = random.poisson(rates).astype(float)
    assert notes_on(counts, Z, sparsity=9) == ("9 features were asked for, and there are 4.",)
