"""Requests and answers as bytes: they arrive as they were sent, or are refused."""

import dataclasses
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import fedsparse as fs
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack
from fedsparse.requests import ShiftedLasso
from fedsparse.requests.wire.answer_bytes import decode_answer, encode_answer, stack_answers
from fedsparse.requests.wire.frame import packed, unpacked
from fedsparse.requests.wire.request_bytes import decode_request, encode_request
from fedsparse.requests.wire.stack_sizes import stack_bytes
from fedsparse.requests.wire.vectors import WireError
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate, fields_of

WIDTH = 24
X = np.where(np.arange(WIDTH) % 5 == 0, np.linspace(-1, 1, WIDTH), 0.0)
SUPPORT = np.array([0, 3, 5, 11])
REQUESTS = {
    "smoothness": fs.Smoothness(),
    "thresholds": fs.SmoothnessAbove(0.5, 80.0),
    "column sums": fs.ColumnSums(with_target=True),
    "column sums with holes": fs.ColumnSums(with_holes=True),
    "column squares": fs.ColumnSquares(X),
    "evaluate": fs.Evaluate(X),
    "evaluate the loss alone": fs.Evaluate(X, is_penalized=False),
    "judge": fs.Judge(X),
    "score counts": fs.ScoreCounts(X, 0.3),
    "gradient": fs.Gradient(X),
    "slopes": fs.Slopes(X),
    "curvature": fs.Curvature(X, SUPPORT),
    "curvature nowhere": fs.Curvature(X, np.empty(0, dtype=np.int64)),
    "shifted lasso": ShiftedLasso(X, X[::-1].copy(), sparsity=3, solver=0),
    "local steps": fs.LocalSteps(X, steps=3, step_size=0.1),
    "thresholded steps": fs.LocalSteps(
        X, steps=3, step_size=0.1, sparsity=fs.TopK(4, keep=[1]), batch_size=2, seed=2**63 - 1
    ),
    "steps onto groups": fs.LocalSteps(
        X, steps=2, step_size=0.1, sparsity=fs.TopKGroups(list("abcdef") * 4, 2, keep=["c"])
    ),
    "corrected steps": fs.LocalSteps(
        X, steps=2, step_size=0.1, batch_size=2, snapshot=X, proximal=0.5, with_objective=True
    ),
    "steps that tell how far": fs.LocalSteps(X, steps=2, step_size=0.1, with_distance=True),
    "steps from an old snapshot": fs.LocalSteps(
        X, steps=2, step_size=0.1, batch_size=2, snapshot=X + 1.0, round=7
    ),
    "steps led by all clients": fs.CorrectedSteps(
        X, steps=2, step_size=0.1, snapshot=X + 1.0, gradient=X / 3, with_gradient=True
    ),
    "batches led by all clients": fs.CorrectedSteps(
        X, steps=2, step_size=0.1, batch_size=2, snapshot=X, gradient=X / 3, seed=4
    ),
}


def each_request():
    return pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)


def assert_same(one, other):
    assert type(one) is type(other)
    for field in dataclasses.fields(one):
        before, after = getattr(one, field.name), getattr(other, field.name)
        if isinstance(before, np.ndarray):
            assert before.dtype == after.dtype
            assert before.tobytes() == after.tobytes()
        elif isinstance(before, fs.TopKGroups):
            assert np.array_equal(before._members, after._members)
            assert np.array_equal(before._always, after._always)
        elif isinstance(before, fs.TopK):
            assert (before.sparsity, tuple(before.keep)) == (after.sparsity, tuple(after.keep))
        else:
            assert before == after
            assert type(before) is type(after)


@each_request()
def test_a_request_arrives_as_it_was_sent(request_):
    assert_same(request_, decode_request(encode_request(request_), (WIDTH,)))


def test_a_matrix_of_coefficients_arrives_as_it_was_sent():
    x = np.asfortranarray(np.arange(12.0).reshape(4, 3))
    request = fs.LocalSteps(x, steps=1, step_size=1.0, sparsity=fs.LowRank(2))
    assert_same(request, decode_request(encode_request(request), (4, 3)))


def test_a_snapshot_that_is_x_travels_once():
    once = encode_request(REQUESTS["corrected steps"])
    twice = encode_request(dataclasses.replace(REQUESTS["corrected steps"], snapshot=X.copy()))
    assert len(twice) - len(once) > len(X[X != 0]) * 8
    received = decode_request(once, (WIDTH,))
    assert received.snapshot is received.x


@given(
    st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(0, 2**63 - 1),
)
def test_any_numbers_arrive_bit_for_bit(values, step_size, seed):
    x = np.array(values) + 0.0  # without negative zeros, which lose their sign on the wire
    request = fs.LocalSteps(x, steps=1, step_size=step_size, seed=seed)
    assert_same(request, decode_request(encode_request(request), x.shape))


def encoded_answers(request, loss, storage):
    """The answer of all clients at once, and the clients' own answers, encoded."""
    data, own = federate(clients_for(loss), storage), LOSS_OBJECTS[loss]
    which = [0] if isinstance(request, ShiftedLasso) else range(len(data))
    whole = fields_of(request, data, own, which=which)
    return whole, [encode_answer(fields_of(request, data.client(place), own)) for place in which]


@pytest.mark.parametrize("storage", STORAGES)
@each_request()
def test_answers_put_together_give_the_bits_of_one_process(request_, storage):
    whole, messages = encoded_answers(request_, "squared", storage)
    stacked = stack_answers([decode_answer(one, request_, (WIDTH,)) for one in messages])
    assert whole.keys() == stacked.keys()
    weights = np.full(len(messages), 1 / len(messages))
    for name, field in whole.items():
        if not isinstance(field, Stack):
            assert field.tobytes() == stacked[name].tobytes()
            continue
        assert field.total(weights).tobytes() == stacked[name].total(weights).tobytes()
        at = np.ones(field.shape)
        assert np.array_equal(field.squared_distances(at), stacked[name].squared_distances(at))
        assert stack_bytes(field) == stack_bytes(stacked[name])


@pytest.mark.parametrize("storage", STORAGES)
def test_the_bytes_counted_are_the_bytes_of_the_vectors_sent(storage):
    request = REQUESTS["local steps"]
    whole, messages = encoded_answers(request, "logistic", storage)
    sent = sum(len(part) for message in messages for part in unpacked(message)[1])
    assert sent == stack_bytes(whole["x"])
    assert sum(map(len, unpacked(encode_request(request))[1])) == request.encoded_bytes()


def test_sites_with_dense_and_with_csr_rows_can_be_averaged():
    request = REQUESTS["local steps"]
    clients = clients_for("squared")
    answers = []
    for place, (Z, y) in enumerate(clients):
        rows = sparse.csr_array(Z) if place % 2 else Z
        own = fs.FederatedData.from_clients([(rows, y)])
        answer = encode_answer(fields_of(request, own, fs.SquaredError()))
        answers.append(decode_answer(answer, request, (WIDTH,)))
    dense = fields_of(request, federate(clients), fs.SquaredError())
    quarter = np.full(4, 0.25)
    assert np.allclose(stack_answers(answers)["x"].total(quarter), dense["x"].total(quarter))


@given(st.floats())
def test_numbers_of_an_answer_arrive_bit_for_bit_even_if_they_are_not_numbers(number):
    answer = {"smoothness": np.array([number])}
    received = decode_answer(encode_answer(answer), fs.Smoothness(), (WIDTH,))
    assert np.array_equal(received["smoothness"], answer["smoothness"], equal_nan=True)


MISFITS = {
    "another field": {"loss": np.array([1.0])},
    "a field too many": {"objective": np.array([1.0]), "samples": np.array([1.0])},
    "no field": {},
    "a vector for a number": {"objective": DenseStack(np.ones((1, 1)), (1,))},
}


@pytest.mark.parametrize("answer", MISFITS.values(), ids=MISFITS)
def test_an_answer_to_something_else_is_refused(answer):
    with pytest.raises(WireError, match=r"instead of objective|unknown"):
        decode_answer(encode_answer(answer), fs.Evaluate(X), (WIDTH,))


def test_a_vector_of_another_length_is_refused():
    answer = {"gradient": DenseStack(np.ones((1, WIDTH + 1)), (WIDTH + 1,))}
    with pytest.raises(WireError, match="length 25, but length 24"):
        decode_answer(encode_answer(answer), fs.Gradient(X), (WIDTH,))
    with pytest.raises(WireError, match="length 24, but length 30"):
        decode_request(encode_request(fs.Gradient(X)), (30,))


def test_a_change_of_what_was_never_sent_is_refused():
    change = SparseStack(np.array([0, 0]), np.empty(0, np.int64), np.empty(0), (10,), X, 1.0)
    answer = {"objective": np.ones(1), "gradient": change, "hessian": change}
    with pytest.raises(WireError, match="unknown form"):
        decode_answer(encode_answer(answer), fs.Curvature(X, np.arange(10)), (WIDTH,))


def test_requests_of_ones_own_stay_in_this_process():
    class Peek(fs.Evaluate):
        pass

    class Half(fs.TopK):
        pass

    with pytest.raises(fs.OptionError, match="Peek cannot be sent"):
        encode_request(Peek(X))
    with pytest.raises(fs.OptionError, match=r"Half.* cannot be sent"):
        encode_request(fs.LocalSteps(X, steps=1, step_size=1.0, sparsity=Half(2)))


GOOD = encode_request(REQUESTS["thresholded steps"])
HEADER, PARTS = unpacked(GOOD)
NUMBERS = HEADER["numbers"]


def with_numbers(**changed):
    return packed(HEADER | {"numbers": NUMBERS | changed}, PARTS)


MALFORMED = {
    "nothing": b"",
    "text": "request",
    "no JSON": packed({}, [])[:5] + b"{" * 40,
    "another version": b"\x02" + GOOD[1:],
    "a damaged byte": GOOD[:30] + b"#" + GOOD[31:],
    "a byte too many": GOOD + b"\x00",
    "a part too few": packed(HEADER, PARTS[:-1]),
    "a part too many": packed(HEADER, [*PARTS, b""]),
    "another request": packed(HEADER | {"request": "Steal"}, PARTS),
    "a class of ours": packed(HEADER | {"request": "__class__"}, PARTS),
    "a request that is a list": packed(HEADER | {"request": ["LocalSteps"]}, PARTS),
    "no numbers": packed({"request": "LocalSteps", "vectors": ["x"]}, PARTS),
    "a field missing": packed(HEADER | {"numbers": {}}, PARTS),
    "a strange field": with_numbers(evil=1),
    "a field twice": packed(HEADER | {"same": {"x": "x"}}, PARTS),
    "a twin of nothing": packed(
        HEADER
        | {
            "same": {"snapshot": "y"},
            "numbers": {k: NUMBERS[k] for k in NUMBERS if k != "snapshot"},
        },
        PARTS,
    ),
    "text for a number": with_numbers(steps="3"),
    "a fraction for a count": with_numbers(steps=1.5),
    "a negative count": with_numbers(steps=-1),
    "a huge count": with_numbers(steps=2**63),
    "a float beyond floats": with_numbers(step_size=10**400),
    "truth for a number": with_numbers(steps=True),
    "a number for truth": with_numbers(with_objective=1),
    "no step size": with_numbers(step_size=None),
    "a strange constraint": with_numbers(sparsity={"kind": "Sparsity"}),
    "a constraint of nothing": with_numbers(sparsity={"kind": "TopK", "sparsity": 0, "keep": []}),
    "a constraint of text": with_numbers(sparsity={"kind": "TopK", "sparsity": 1, "keep": ["a"]}),
    "a constraint with extras": with_numbers(sparsity={"kind": "TopK", "sparsity": 1, "evil": [1]}),
    "a number as a vector": packed(
        {"request": "Evaluate", "numbers": {"x": 1.0}, "vectors": []}, []
    ),
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_request_is_refused(message):
    with pytest.raises(WireError):
        decode_request(message, (WIDTH,))


@settings(max_examples=300)
@given(st.data())
def test_any_damage_is_noticed(data):
    place = data.draw(st.integers(0, len(GOOD) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != GOOD[place]))
    with pytest.raises(WireError):
        decode_request(GOOD[:place] + bytes([byte]) + GOOD[place + 1 :], (WIDTH,))
    with pytest.raises(WireError):
        decode_request(GOOD[:place], (WIDTH,))


@settings(max_examples=300)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
        ),
        max_leaves=12,
    ),
    st.sampled_from(["request", "numbers", "vectors", "same"]),
    st.lists(st.binary(max_size=20), max_size=3),
)
def test_whatever_a_header_says_only_a_wire_error_comes_of_it(value, key, parts):
    message = packed(HEADER | {key: value}, parts or PARTS)
    for decode in (
        lambda: decode_request(message, (WIDTH,)),
        lambda: decode_answer(message, REQUESTS["slopes"], (WIDTH,)),
    ):
        try:
            decode()
        except WireError:
            pass


def test_a_claim_of_great_length_takes_no_memory():
    from fedsparse.requests.wire import vectors as wire

    huge = wire.encode_sparse([5], [1.0], 2**40)
    message = packed({"request": "Evaluate", "numbers": {}, "vectors": ["x"]}, [huge])
    nested = packed({"request": "Evaluate"}, [])[:1] + (5 * 10**5).to_bytes(4, "little")
    tracemalloc.start()
    for attempt in (message, nested + b"[" * 5 * 10**5):
        with pytest.raises(WireError):
            decode_request(attempt, (WIDTH,))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 10**6


class TestCompressedHeaders:
    def test_a_long_header_travels_compressed(self):
        header = {"columns": [f"gene {place}" for place in range(1000)]}
        message = packed(header, [b"part"])
        assert len(message) < 4000
        assert unpacked(message) == (header, [b"part"])

    def test_a_header_that_would_shrink_to_nothing_travels_as_it_is(self):
        header = {"name": "a" * 100_000}
        assert len(packed(header, [])) > 100_000
        assert unpacked(packed(header, [])) == (header, [])

    @pytest.mark.parametrize(
        "written",
        [zlib.compress(b'{"sizes":[]}' + b" " * 10**8), zlib.compress(b'{"sizes":[]}')[:-3], b"}"],
        ids=["bomb", "cut off", "neither"],
    )
    def test_what_is_no_header_is_refused_in_bounded_memory(self, written):
        content = b"\x01" + len(written).to_bytes(4, "little") + written
        tracemalloc.start()
        with pytest.raises(WireError, match="header"):
            unpacked(content + zlib.crc32(content).to_bytes(4, "little"))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2 * 10**7
