"""Fed-HT and FedIter-HT as Flower strategies."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from fedsparse import OptionError, hard_threshold
from fedsparse.federation.strategies import FedHT, FedIterHT, hard_threshold_arrays
from tests.federation.grids import Nodes

EXAMPLE = Path(__file__).parents[2] / "examples" / "sparse_flower_app" / "sparse_app.py"
VECTORS = arrays_of.arrays(
    np.float64, st.integers(1, 20), elements=st.floats(-1e3, 1e3).filter(lambda v: v != 0)
)


@given(VECTORS, st.integers(1, 25))
def test_one_array_is_thresholded_like_a_vector(vector, sparsity):
    kept = hard_threshold_arrays({"weight": vector}, sparsity)["weight"]
    assert np.array_equal(kept, hard_threshold(vector, sparsity))


@given(VECTORS, VECTORS, st.integers(1, 45))
def test_several_arrays_share_the_entries_that_stay(one, other, sparsity):
    kept = hard_threshold_arrays({"one": one, "other": other}, sparsity)
    joined = hard_threshold(np.concatenate([one, other]), sparsity)
    assert np.array_equal(np.concatenate([kept["one"], kept["other"]]), joined)


def test_types_and_shapes_stay_and_what_is_no_float_is_left_alone():
    arrays = {
        "weight": np.array([[3, -1], [2, 5]], dtype=np.float32),
        "steps": np.array([1, 2, 3]),
        "bias": np.array([9.0]),
    }
    kept = hard_threshold_arrays(arrays, 2, dense=["bias"])
    assert kept["weight"].dtype == np.float32
    assert kept["weight"].tolist() == [[3, 0], [0, 5]]
    assert kept["steps"] is arrays["steps"]
    assert kept["bias"] is arrays["bias"]


def test_an_array_that_is_not_there_cannot_be_dense():
    with pytest.raises(OptionError, match="dense names 'biass'; the arrays are weight, bias"):
        hard_threshold_arrays({"weight": np.ones(2), "bias": np.ones(1)}, 1, dense=["biass"])


def replies_of(*weights):
    """Replies of clients, each with as many examples as its place, counted from 1."""
    replies = []
    for count, weight in enumerate(weights, start=1):
        question = Message(RecordDict(), count, "train")
        content = RecordDict(
            {
                "arrays": ArrayRecord({"weight": Array(np.array(weight))}),
                "metrics": MetricRecord({"num-examples": count}),
            }
        )
        replies.append(Message(content, reply_to=question))
    return replies


def test_the_average_is_thresholded_at_the_server():
    arrays, _ = FedHT(1).aggregate_train(1, replies_of([3.0, 0.0], [0.0, 3.0]))
    assert arrays["weight"].numpy().tolist() == [0.0, 2.0]


def test_without_replies_there_is_no_average():
    assert FedHT(1).aggregate_train(1, []) == (None, None)


def test_clients_of_fediterht_are_told_what_to_keep():
    grid = Nodes({5: lambda payload: None, 6: lambda payload: None})
    strategy = FedIterHT(7, dense=["bias"])
    record = ArrayRecord({"weight": Array(np.ones(3))})
    for message in strategy.configure_train(1, record, ConfigRecord(), grid):
        assert message.content["config"]["sparsity"] == 7
        assert message.content["config"]["dense"] == ["bias"]


def test_the_example_finds_the_features_that_matter(capsys):
    app = runpy.run_path(str(EXAMPLE))
    config = {"sparsity": 5, "rounds": 10, "local-steps": 5, "step-size": 0.1}

    class Clients(Nodes):
        """Clients that run the example's ClientApp in this process."""

        def send_and_receive(self, messages, *, timeout=None):
            return [
                app["client"](message, context_of(message.metadata.dst_node_id))
                for message in messages
            ]

    def context_of(node):
        return Context(1, node, {"partition-id": node}, RecordDict(), config)

    grid = Clients({1: None, 2: None, 3: None})
    app["server"](grid, context_of(0))
    assert "features used: [0, 1, 2, 3, 4]" in capsys.readouterr().out
