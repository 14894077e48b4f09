"""A progress bar, shown on a terminal only."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

BAR_AND_NUMBERS = 36
"""Columns beside the text."""


class Bar:
    """One bar over all work of a command, with as much text beside it as fits."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._width = max(20, min(80, console.width - BAR_AND_NUMBERS))
        self._progress = Progress(
            TextColumn(f"{{task.description:<{self._width}}}"),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("preparing", total=None)

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def note(self, line: str) -> None:
        """Print a line where there is no bar, so that a log tells how far the work is."""
        if self._progress.disable:
            self._progress.console.print(line, highlight=False)

    def show(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Say what is being done and, if known, how much of it is."""
        self._progress.update(
            self._task, description=what[: self._width], completed=done, total=total
        )
