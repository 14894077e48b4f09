"""The log of a federation: who did what, one line each."""

import logging
import re
import sys

from fedsparse.text import visible

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_LINE = re.compile(r"(?:[A-Z]+ *: *)?(\d\d:\d\d:\d\d \| .*)")
"""How our lines begin, by which they are told from Flower's; a word of Flower's may come before."""


def own_part(line: str) -> str | None:
    """What our log said in a line of Flower's, None if it is Flower that speaks.

    Examples
    --------
    >>> own_part("INFO :      14:02:11 | bari is here with 412 rows")
    '14:02:11 | bari is here with 412 rows'
    """
    ours = _LINE.match(plain(line))
    return None if ours is None else ours[1].rstrip()


def plain(line: str) -> str:
    r"""A line of Flower's without its colours, and with nothing else that a terminal would obey.

    Examples
    --------
    >>> print(plain("\x1b[92mINFO \x1b[0m: bari says \x1b]0;x\x07"))
    INFO : bari says \x1b]0;x\x07
    """
    return visible(_COLOUR.sub("", line))


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
        handler.setFormatter(_Visible("%(asctime)s | %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False


class _Visible(logging.Formatter):
    """Keeps what sites and tables are called from forging lines or steering a terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        record.message = visible(record.message)
        return super().formatMessage(record)
