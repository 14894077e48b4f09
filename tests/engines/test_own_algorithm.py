"""What an algorithm of one's own may get wrong is told in a sentence."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import fedsparse as fs
from tests.builders import STORAGES, clients_for, federate


@dataclass(frozen=True)
class Descent(fs.Algorithm):
    """Gradient descent with a mistake, if there is one."""

    mistake: str = ""

    def start(self, shape, seed, loss):
        state = super().start(shape, seed, loss)
        return None if self.mistake == "starts with nothing" else state

    def request(self, state):
        return {
            "asks nothing": None,
            "asks with an array": state.x,
            "asks with a part of x": fs.Gradient(state.x[:2]),
            "asks with part of a snapshot": fs.LocalSteps(
                state.x, steps=2, step_size=0.1, snapshot=state.x[:2]
            ),
        }.get(self.mistake, fs.Gradient(state.x))

    def update(self, state, answers):
        if self.mistake == "forgets to return":
            return None
        if self.mistake == "returns x":
            return state.x
        if self.mistake == "makes x shorter":
            return state.step(state.x[:2], iterations=1)
        name = "slope" if self.mistake == "calls it otherwise" else "gradient"
        return state.step(state.x - 0.05 * answers.mean(name), iterations=1)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(
    ("mistake", "told"),
    {
        "starts with nothing": "Descent.start must return a State, .* not a NoneType",
        "asks nothing": r"Descent.request must return a request, such as fs.Gradient\(state.x\)",
        "asks with an array": "Descent.request must return a request, .* not a ndarray",
        "asks with a part of x": r"Descent.request asks with x of the shape \(2,\)",
        "asks with part of a snapshot": r"asks with snapshot of the shape \(2,\)",
        "forgets to return": "Descent.update must return a State, .* not a NoneType",
        "returns x": "Descent.update must return a State, .* not a ndarray",
        "makes x shorter": r"Descent.update must return a State with an x of the shape \(\d+,\)",
        "calls it otherwise": 'the answers tell "gradient".*, and no "slope"',
    }.items(),
)
def test_a_mistake_is_named(mistake, told, storage):
    data = federate(clients_for("squared"), storage)
    assert not fs.run(Descent(), data, rounds=2).diverged
    with pytest.raises(fs.OptionError, match=told):
        fs.run(replace(Descent(), mistake=mistake), data, rounds=2)


def test_coefficients_of_classes_have_a_column_each():
    data = fs.FederatedData.from_clients([(np.eye(3), ["a", "b", "c"])] * 2)
    told = r"x of the shape \(3,\), and coefficients have the shape \(3, 3\)"

    class Flat(Descent):
        def request(self, state):
            return fs.Gradient(state.x[:, 0])

    assert not fs.run(Descent(), data, loss="softmax", rounds=2).diverged
    with pytest.raises(fs.OptionError, match=told):
        fs.run(Flat(), data, loss="softmax", rounds=2)
