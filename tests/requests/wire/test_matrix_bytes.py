"""Rounded matrices as bytes: they arrive bit for bit, or are refused with a WireError."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.compute.asked_entries import AskedEntries
from fedsparse.compute.matrices import RoundedStack
from fedsparse.requests import ClassCurvature, SharedCurvature
from fedsparse.requests.wire.answer_bytes import decode_answer, encode_answer, stack_answers
from fedsparse.requests.wire.matrix_bytes import matrices_from_bytes, matrices_to_bytes
from fedsparse.requests.wire.stack_sizes import stack_bytes
from fedsparse.requests.wire.vectors import WireError
from tests.builders import CLASSES, LOSS_OBJECTS, STORAGES, clients_for, federate, fields_of

WIDTH = 24
X = np.where(np.arange(WIDTH) % 5 == 0, np.linspace(-1, 1, WIDTH), 0.0)
SUPPORT, KNOWN = np.array([0, 3, 5, 11, 17]), np.array([3, 11])
UNITS = np.exp2(np.arange(WIDTH) % 3 - 1.0)
BY_CLASS = np.asfortranarray(np.outer(X, [1.0, -1.0, 0.5]))
OF_CLASSES = np.asfortranarray(np.outer(UNITS, np.ones(CLASSES)))
ENTRIES = np.array([0, 3, 24, 30, 50])

ASKED = {
    "all": ("logistic", fs.Curvature(X, SUPPORT, units=UNITS)),
    "in sixteen bits": ("squared", fs.Curvature(X, SUPPORT, units=UNITS, bits=16)),
    "some known": ("squared", fs.Curvature(X, SUPPORT, KNOWN, UNITS)),
    "all known": ("squared", fs.Curvature(X, SUPPORT, SUPPORT, UNITS)),
    "second derivatives alone": (
        "logistic", fs.Curvature(X, SUPPORT, KNOWN, UNITS, only_second=True),
    ),
    "one feature": ("logistic", fs.Curvature(X, SUPPORT[:1], units=UNITS)),
    "many features": ("logistic", fs.Curvature(X, np.arange(WIDTH), units=UNITS)),
    "with slopes": ("logistic", fs.Slopes(X, SUPPORT, UNITS, with_diagonal=False)),
    "class by class": ("softmax", ClassCurvature(BY_CLASS, ENTRIES, units=OF_CLASSES)),
    "joint": ("softmax", fs.Slopes(BY_CLASS, ENTRIES, OF_CLASSES)),
    "shared": ("softmax", SharedCurvature(BY_CLASS, SUPPORT, KNOWN, units=UNITS)),
}  # fmt: skip


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("loss", "request_"), ASKED.values(), ids=ASKED)
def test_answers_put_together_give_the_bits_of_one_process(loss, request_, storage):
    data, own = federate(clients_for(loss), storage), LOSS_OBJECTS[loss]
    shape = (WIDTH, CLASSES) if loss == "softmax" else (WIDTH,)
    whole = fields_of(request_, data, own)["hessian"]
    messages = [encode_answer(fields_of(request_, data, own, which=[i])) for i in range(len(data))]
    stacked = stack_answers([decode_answer(one, request_, shape) for one in messages])["hessian"]
    assert isinstance(whole, RoundedStack)
    weights = np.array([1.0, 0.25, 3.0, 0.5])
    assert stacked.total(weights).tobytes() == whole.total(weights).tobytes()
    assert stacked.variances(weights).tobytes() == whole.variances(weights).tobytes()
    assert stack_bytes(stacked) == stack_bytes(whole)
    blocks = request_.matrices().blocks
    assert stack_bytes(whole) == sum(len(matrices_to_bytes(own, blocks)) for own in whole.written)


def test_a_wide_matrix_takes_a_byte_an_entry():
    draw = np.random.default_rng(0)
    data = fs.FederatedData.from_clients(
        [(draw.standard_normal((300, 200)), draw.normal(size=300))]
    )
    request = fs.Curvature(np.zeros(200), np.arange(200), units=np.ones(200))
    told = fields_of(request, data, fs.SquaredError())
    assert stack_bytes(told["hessian"]) < 199 * 100 + 200 * 8 + 100


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_not_finite_arrives_as_such(number):
    """A run that diverges is told apart from a message that is damaged."""
    Z = np.ones((6, WIDTH))
    Z[0, 3] = 1e200
    data = fs.FederatedData.from_clients([(Z, np.arange(6.0))])
    request = fs.Curvature(X, SUPPORT, units=UNITS)
    with np.errstate(all="ignore"):
        own = fields_of(request, data, fs.SquaredError())
        told = decode_answer(encode_answer(own), request, (WIDTH,))
    assert not told["hessian"].is_finite()


REQUEST = ASKED["some known"][1]
BLOCKS = REQUEST.matrices().blocks
GOOD = matrices_to_bytes(
    fields_of(REQUEST, federate(clients_for("squared")), fs.SquaredError())["hessian"].written[2],
    BLOCKS,
)


def with_bytes(place, written):
    return GOOD[:place] + written + GOOD[place + len(written) :]


HELD = 4 + int.from_bytes(GOOD[:4], "little")
MINUS = np.array([-1.0], dtype="<f4").tobytes()
MALFORMED = {
    "nothing": b"",
    "cut in half": GOOD[: len(GOOD) // 2],
    "a byte too few": GOOD[:-1],
    "a byte too many": GOOD + b"\x00",
    "no features": bytes(4) + GOOD[4:],
    "a damaged set of features": with_bytes(8, bytes([GOOD[8] ^ 1])),
    "a set longer than the message": b"\xff\xff\xff\xff" + GOOD[4:],
    "a negative mass": with_bytes(HELD, MINUS),
    "a negative step": with_bytes(HELD + 4, MINUS),
    "a negative spread": with_bytes(HELD + 8 + 4 * SUPPORT.size, MINUS),
    "a code that stands for nothing": GOOD[:-1] + b"\x80",
}


@pytest.mark.parametrize("message", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_message_is_refused(message):
    with pytest.raises(WireError):
        matrices_from_bytes(message, BLOCKS)


def test_other_entries_than_asked_for_are_refused():
    every = (AskedEntries(np.zeros(5, dtype=np.bool_), np.ones(5)),)
    with pytest.raises(WireError):
        matrices_from_bytes(GOOD, every)
    with pytest.raises(WireError):
        matrices_from_bytes(GOOD, (*BLOCKS, *BLOCKS))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_whatever_a_message_says_only_a_wire_error_comes_of_it(data):
    message = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(GOOD) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(message[: data.draw(st.integers(0, len(GOOD)))])
    for attempt in (bytes(message), cut, data.draw(st.binary(max_size=60))):
        try:
            told = matrices_from_bytes(attempt, BLOCKS)
        except WireError:
            continue
        total = np.zeros((SUPPORT.size, SUPPORT.size))
        with np.errstate(all="ignore"):
            told[0].add_to(total, 1.0, BLOCKS[0])
        assert not total[np.ix_([1, 3], [1, 3])].any()  # what is known is not told
