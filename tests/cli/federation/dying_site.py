"""``fedsparse federation site``, as a process, that kills itself at a message.

Arguments: the message's kind, the how-manieth of that kind, whether it dies ``before`` or ``after``
its reply to it has left, and the command's own.
"""

import os
import signal
import sys

from fedsparse.cli import main
from fedsparse.federation.payloads import from_bytes
from fedsparse.federation.sites.line import Line
from fedsparse.federation.sites.site import Site


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def doom(kind, count, when):
    """Have the site of this process die."""
    left = int(count)
    is_due = False
    reply, answer = Site.reply, Line.answer

    def counting(site, message, *arguments):
        nonlocal left, is_due
        left -= type(from_bytes(message)).__name__ == kind
        is_due = left == 0
        if is_due and when == "before":
            die()
        return reply(site, message, *arguments)

    def last(line, reply_to):
        is_busy = answer(line, reply_to)
        if is_due:
            die()
        return is_busy

    Site.reply, Line.answer = counting, last


if __name__ == "__main__":
    doom(*sys.argv[1:4])
    sys.argv = ["fedsparse", "federation", "site", *sys.argv[4:]]
    main()
