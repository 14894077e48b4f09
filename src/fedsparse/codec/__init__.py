"""Requests and answers as bytes, so that they can travel to a site and back.

Vectors are encoded by `fedsparse.wire`, everything else in a small JSON header (see
`fedsparse.codec.frame`). Decoding runs no code that came with a message, checks everything against
what the receiver expects, and takes memory in proportion to the message and that expectation.
"""

from fedsparse.codec.answers import decode_answer, encode_answer, stack_answers
from fedsparse.codec.requests import decode_request, encode_request
from fedsparse.wire import WireError

__all__ = [
    "WireError",
    "decode_answer",
    "decode_request",
    "encode_answer",
    "encode_request",
    "stack_answers",
]
