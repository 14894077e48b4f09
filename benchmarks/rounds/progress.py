"""What is going on, told on the error stream; rows, shown as soon as they are known."""

import sys
from collections.abc import Sequence

FIRST_WIDTH = 42
WIDTH = 15


def tell(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


class LiveTable:
    """A table that grows: a problem takes minutes, so no row waits for the last one."""

    def __init__(self, title: str, columns: Sequence[str]) -> None:
        print(f"\n{title}\n")
        self.add(columns)
        print("─" * (FIRST_WIDTH + WIDTH * (len(columns) - 1)), flush=True)

    def add(self, row: Sequence[str]) -> None:
        """A row; the first cell is text, the others numbers."""
        first, *others = row
        print(f"{first:<{FIRST_WIDTH}}" + "".join(f"{cell:>{WIDTH}}" for cell in others))
        sys.stdout.flush()

    def note(self, label: str, text: str) -> None:
        """A row without numbers, and why."""
        print(f"{label:<{FIRST_WIDTH}}  {text}", flush=True)
