"""A SuperLink, as a process, whose door refuses what says that it comes from elsewhere.

Arguments: port, folder for Flower's files.
"""

import os
import sys
from pathlib import Path

from starlette.responses import PlainTextResponse

from fedsparse.federation.flower_internals import run_superlink
from fedsparse.federation.server.superlink import flower_environment

ELSEWHERE = "x-elsewhere"


class Door:
    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        names = [name for name, _ in scope.get("headers", ())]
        is_refused = ELSEWHERE.encode() in names
        await (PlainTextResponse("no", 403) if is_refused else self._app)(scope, receive, send)


def main():
    port, home = sys.argv[1:]
    os.environ |= flower_environment(Path(home))
    arguments = ["--insecure", "--host", "127.0.0.1", "--port", port]
    run_superlink([*arguments, "--disable-runtime-dependency-installation"], Door)


if __name__ == "__main__":
    main()
