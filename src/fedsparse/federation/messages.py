"""Our bytes inside Flower's messages."""

from flwr.app import ConfigRecord, Message, RecordDict

from fedsparse.requests.wire.vectors import WireError

MESSAGE_TYPE = "query.fedsparse"
"""By which a ClientApp tells our messages from others."""

_KEY = "fedsparse"


def content_of(payload: bytes) -> RecordDict:
    """A message's content that carries bytes.

    Examples
    --------
    >>> content_of(b"hello")["fedsparse"]["fedsparse"]
    b'hello'
    """
    return RecordDict({_KEY: ConfigRecord({_KEY: payload})})


def payload_of(message: Message) -> bytes:
    """The bytes that a message carries; a WireError if there are none."""
    record = message.content.get(_KEY)
    payload = record.get(_KEY) if isinstance(record, ConfigRecord) else None
    if not isinstance(payload, bytes):
        raise WireError("The message is not one of fedsparse.")
    return payload


def payload_in(stored: bytes) -> bytes | None:
    """The bytes in a record as Flower stores it, None if it is no record of ours.

    Examples
    --------
    >>> payload_in(content_of(b"hello")["fedsparse"].deflate())
    b'hello'
    """
    try:
        payload = ConfigRecord.inflate(stored).get(_KEY)
    except Exception:  # whatever was sent: Flower's parsers raise many kinds of errors
        return None
    return payload if isinstance(payload, bytes) else None
