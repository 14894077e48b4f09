"""A server, as a process, whose door asks for no secret: what the attacks were measured on.

Arguments: the server's folder, port.
"""

import sys
from pathlib import Path

from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.logs import show_log
from fedsparse.federation.server.superlink import Door, LocalControl, run_superlink


def main():
    folder, port = sys.argv[1:]
    LocalControl._shows_secret = lambda self, scope: True
    show_log()
    run_superlink(ServerFolder(Path(folder)), Door("127.0.0.1", int(port)))


if __name__ == "__main__":
    main()
