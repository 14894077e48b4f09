"""Engines by name."""

import numpy as np
import pytest

import fedsparse as fs


def one_client():
    return fs.FederatedData.from_clients([(np.eye(2), np.array([1.0, 2.0]))])


def test_an_unknown_engine_is_refused_with_the_names_of_those_there_are():
    with pytest.raises(fs.OptionError, match=r"engine must be 'local'.*, not 'spark'"):
        fs.run(fs.FedAvg(), one_client(), engine="spark")


def test_the_local_engine_has_no_device_to_choose():
    with pytest.raises(fs.OptionError, match="engine='local' has no device to choose"):
        fs.run(fs.FedAvg(), one_client(), device="cuda")


def test_an_engine_that_is_given_is_not_chosen_again():
    with pytest.raises(fs.OptionError, match="an engine knows its loss"):
        fs.run(fs.FedAvg(), fs.open_engine(one_client()), engine="torch")
