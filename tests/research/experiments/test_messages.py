"""The message study: bytes are those of the encodings, and what is sparse is short."""

import pytest

from fedsparse.research.experiments.message_study import SIZES, SPARSITY, measure_messages


@pytest.fixture(scope="module")
def messages():
    return measure_messages(quick=True)


def load(messages, kind, algorithm):
    return messages.filter(rows=kind, algorithm=algorithm).row(0, named=True)


@pytest.mark.slow
class TestQuickStudy:
    def test_dense_vectors_have_eight_bytes_a_feature_and_sparse_ones_a_fifth(self, messages):
        width = SIZES["dense"][1]
        for algorithm in ("Fed-HT", "Distributed-IHT"):
            found = load(messages, "dense", algorithm)
            assert found["down"] == pytest.approx(8 * SPARSITY, rel=0.1)
            assert found["up"] == pytest.approx(8 * width, rel=0.01)
        assert load(messages, "dense", "FedAvg")["down"] == pytest.approx(8 * width, rel=0.01)

    @pytest.mark.parametrize("kind", SIZES)
    def test_fed_iter_ht_sends_at_most_tau_numbers_either_way(self, messages, kind):
        found = load(messages, kind, "FedIter-HT")
        assert max(found["down"], found["up"]) < 10 * SPARSITY + 100

    @pytest.mark.parametrize("kind", SIZES)
    def test_the_baseline_gets_where_it_ends_in_all_rounds(self, messages, kind):
        found = load(messages, kind, "Distributed-IHT")
        assert found["rounds"] == 20
        # The first round may be shorter, and asking for the smoothness is part of the total.
        assert found["total"] == pytest.approx(20 * (found["down"] + found["up"]), rel=0.2)
