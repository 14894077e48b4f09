"""The log of a federation: who did what, one line each."""

import logging
import re
import sys

LINE = re.compile(r"\d\d:\d\d:\d\d \| ")
"""How our lines begin, by which they are told from Flower's."""


def show_log() -> None:
    """Have what our log says printed; inside an app that is where Flower picks it up.

    Examples
    --------
    >>> show_log()
    >>> logging.getLogger("fedsparse.federation").level == logging.INFO
    True
    """
    log = logging.getLogger("fedsparse.federation")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(asctime)s | %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
