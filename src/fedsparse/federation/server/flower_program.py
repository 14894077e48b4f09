"""Starts one of Flower's programs with the secret of the server's owner; run with ``python -m``.

Arguments: the program's name, and its own.
"""

import os
import sys
from pathlib import Path

from fedsparse.federation.flower_internals import run_program

SECRET_FILE = "FEDSPARSE_SECRET_FILE"
"""Variable of the environment that says where the secret is."""


def main() -> None:
    """Run the program that the command line names."""
    sys.argv = sys.argv[1:]
    run_program(sys.argv[0], Path(os.environ[SECRET_FILE]).read_text())


if __name__ == "__main__":
    main()
