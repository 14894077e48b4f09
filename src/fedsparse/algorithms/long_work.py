"""Word of long work at the server, of which nobody hears anything between two exchanges."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

EVERY = 5.0
"""Seconds between two lines."""

log = logging.getLogger("fedsparse.federation")


@contextmanager
def told_of(what: str) -> Iterator[None]:
    """Have the log say every few seconds that something is still being done.

    Examples
    --------
    >>> with told_of("choosing among 2,050 features"):
    ...     pass
    """
    is_over, began = Event(), time.monotonic()

    def tell() -> None:
        while not is_over.wait(EVERY):
            log.info("the server is %s, for %.0f s now", what, time.monotonic() - began)

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()
