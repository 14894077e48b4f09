"""The log of a federation: who did what, one line each."""

import logging
import re
import sys

_LINE = re.compile(r"\d\d:\d\d:\d\d \| .*")
"""How our lines begin, by which they are told from Flower's."""


def own_part(line: str) -> str | None:
    """What our log said in a line of Flower's, None if it is Flower that speaks.

    Examples
    --------
    >>> own_part("INFO :      14:02:11 | bari is here with 412 rows")
    '14:02:11 | bari is here with 412 rows'
    """
    ours = _LINE.search(line)
    return None if ours is None else ours[0].rstrip()


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
