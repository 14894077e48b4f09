"""The installed command, as tests call it."""

import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).with_name("fedsparse")


def fedsparse(*arguments, **options):
    """Run the command to its end."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, **options
    )


def assert_one_line(text, part):
    """What went wrong is told in one line that names it."""
    assert text.count("\n") == 1
    assert text.startswith("fedsparse: ")
    assert part in text
