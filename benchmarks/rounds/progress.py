"""What is going on, told on the error stream; rows, shown as soon as they are known."""

import sys
from collections.abc import Sequence

FIRST_WIDTH = 42
WIDTH = 15


def tell(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


class LiveTable:
    """A table that grows: a problem takes minutes, so no row waits for the last one.

    Parameters
    ----------
    title, columns
        What stands above it.
    widths
        Of the columns; by default all but the first are alike.
    """

    def __init__(
        self, title: str, columns: Sequence[str], widths: Sequence[int] | None = None
    ) -> None:
        self._widths = widths or [FIRST_WIDTH, *[WIDTH] * (len(columns) - 1)]
        print(f"\n{title}\n")
        self.add(columns)
        print("─" * sum(self._widths), flush=True)

    def add(self, row: Sequence[str]) -> None:
        """A row; the first cell is text, the others numbers."""
        first, *others = self._widths
        numbers = zip(row[1:], others, strict=False)
        print(f"{row[0]:<{first}}" + "".join(f"{cell:>{width}}" for cell, width in numbers))
        sys.stdout.flush()

    def note(self, label: str, text: str) -> None:
        """A row without numbers, and why."""
        print(f"{label:<{self._widths[0]}}  {text}", flush=True)
