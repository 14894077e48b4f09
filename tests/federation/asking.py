"""Asking a site directly, as a server would."""

from fedsparse.federation.payloads import Asks, digest_of, from_bytes, lens_to_bytes, to_bytes
from fedsparse.requests.wire.request_bytes import encode_request


def asked(site, request, setup, lens, run=1):
    """What a site says to one request, if it is told all that it must know."""
    return from_bytes(site.reply(message_with([request], setup, lens), run))


def message_with(requests, setup, lens):
    """A message that asks all at once."""
    written = tuple((lens.digest, encode_request(request)) for request in requests)
    return to_bytes(Asks(digest_of(setup), written, setup, (lens_to_bytes(lens),)))
