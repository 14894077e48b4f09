"""Tables for a terminal; in a pipe they are as wide as they need to be."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsparse.text import visible

if TYPE_CHECKING:
    from fedsparse.modelling.intervals import Interval

_WIDE = 160


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1
) -> None:
    """Print a table whose first columns are text and whose others are numbers.

    Parameters
    ----------
    title
        Above the table.
    headings
        One per column.
    rows
        Cells as text.
    text
        How many columns are text.
    """
    table = Table(box=SIMPLE_HEAD)
    for place, heading in enumerate(headings):
        is_text = place < text
        table.add_column(
            Text(visible(heading)), justify="left" if is_text else "right",
            overflow="fold" if is_text else "ellipsis", no_wrap=not is_text,
            min_width=12 if place == 0 else None,
        )  # fmt: skip
    for row in rows:
        # Plain text: a column may be called [red].
        table.add_row(*(Text(visible(cell)) for cell in row))
    console = _console()
    console.print(Text(visible(title), "bold"), soft_wrap=not console.is_terminal)
    console.print(table)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDE)


def say(text: str, *, is_note: bool = False) -> None:
    """Print a sentence, wrapped between words on a terminal; notes go where errors go."""
    console = Console(stderr=is_note, highlight=False, markup=False, emoji=False)
    sentence = visible(f"Note: {text}" if is_note else text)
    console.print(sentence, soft_wrap=not console.is_terminal)


def shown(number: float | None) -> str:
    """A number for a table; a dash for none.

    Examples
    --------
    >>> shown(0.5), shown(0.000123456), shown(1234.56), shown(1e9), shown(None)
    ('0.500', '0.000123', '1235', '1e+09', '–')
    """
    if number is None:
        return "–"
    text = f"{number:#.3g}" if abs(number) < 1000 else f"{number:.4g}"
    return text.removesuffix(".")


def with_interval(number: float | None, around: "Interval | None") -> str:
    """A number with its interval, for a table.

    Examples
    --------
    >>> with_interval(1.0, (0.571, 1.0)), with_interval(0.5, None)
    ('1.00 (0.571 to 1.00)', '0.500')
    """
    if number is None or around is None:
        return shown(number)
    return f"{shown(number)} ({shown(around[0])} to {shown(around[1])})"
