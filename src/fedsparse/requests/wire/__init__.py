"""Requests and answers as bytes, so that they can travel to a site and back.

Vectors are encoded by `vectors`, everything else in a small JSON header (see `frame`). Decoding
runs no code that came with a message, checks everything against what the receiver expects, and
takes memory in proportion to the message and that expectation.
"""
