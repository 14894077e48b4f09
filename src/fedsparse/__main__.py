"""``python -m fedsparse`` is the ``fedsparse`` command."""

from fedsparse.cli import main

main()
