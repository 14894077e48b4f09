"""``fedsparse federation site``, as a process, that forgets with every run what it answered before.

So that it can learn from the same rows with other sites, run by run. Arguments: the command's own.
"""

import sys

from fedsparse.cli import main
from fedsparse.federation.payloads import Hello, from_bytes
from fedsparse.federation.sites.questions import AnsweredQuestions
from fedsparse.federation.sites.site import Site


def forget():
    """Have the site of this process begin every run anew."""
    reply = Site.reply

    def forgetting(site, message, *arguments):
        if isinstance(from_bytes(message), Hello):
            site._questions = AnsweredQuestions(None)
        return reply(site, message, *arguments)

    Site.reply = forgetting


if __name__ == "__main__":
    forget()
    sys.argv = ["fedsparse", "federation", "site", *sys.argv[1:]]
    main()
