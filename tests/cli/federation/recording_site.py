"""``fedsparse federation site``, as a process, that keeps all it hands to Flower.

Arguments: a folder, and the command's own. Replies go to ``replies`` there, headers inflated. When
a run is over, the site says so with a file ``over`` and keeps the server waiting for its last reply
until there is a file ``go on``.
"""

import json
import sys
import time
from pathlib import Path

from fedsparse.cli import main
from fedsparse.federation.payloads import Finished, from_bytes
from fedsparse.federation.sites.site import Site
from fedsparse.requests.wire.frame import unpacked

LONGEST_PAUSE = 100.0


def record(folder):
    """Have the site of this process keep what it says."""
    reply = Site.reply

    def kept(site, message, *arguments):
        said = reply(site, message, *arguments)
        with open(folder / "replies", "ab") as file:
            file.write(said + json.dumps(unpacked(said)[0]).encode())
        if isinstance(from_bytes(message), Finished):
            _pause(folder)
        return said

    Site.reply = kept


def _pause(folder):
    (folder / "over").touch()
    end = time.monotonic() + LONGEST_PAUSE
    while not (folder / "go on").exists() and time.monotonic() < end:
        time.sleep(0.1)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
    sys.argv = ["fedsparse", "federation", "site", *sys.argv[2:]]
    main()
