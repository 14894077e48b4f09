"""Tables for a terminal; in a pipe they are as wide as they need to be."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedsparse.text import visible

if TYPE_CHECKING:
    from fedsparse.modelling.intervals import Interval

_ANY = 10**6
"""Columns: in a pipe nothing is folded."""
_FIRST = 12
"""Width from which text may be folded, and that of the first column at least."""


def print_table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], *, text: int = 1
) -> None:
    """Print a table whose first columns are text and whose others are numbers.

    Where a terminal is too narrow text is folded, and columns of numbers that have no place go into
    a table below, beside the same text: a number is shown whole.

    Parameters
    ----------
    title
        Above the table; "" for none.
    headings
        One per column.
    rows
        Cells as text.
    text
        How many columns are text.
    """
    headings = [visible(heading) for heading in headings]
    cells = [[visible(cell) for cell in row] for row in rows]
    console = _console()
    if title:
        console.print(Text(visible(title), "bold"), soft_wrap=not console.is_terminal)
    room = console.width if console.is_terminal else None
    for places in _side_by_side(headings, cells, text, room):
        columns = [*range(text), *places]
        table = _table(
            [headings[place] for place in columns],
            [[row[place] for place in columns] for row in cells],
            text,
            room,
        )
        console.print(table, soft_wrap=room is None)


def _table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], text: int, room: int | None
) -> Table:
    widths = _widths(headings, rows)
    is_tight = room is not None and _together(widths) > room
    narrow = _narrow_widths(headings, rows, text)
    # One cell of many words may be wider than the terminal.
    most = None if room is None else max(room - _together(narrow[:text]) - 3, _FIRST)
    table = Table(box=SIMPLE_HEAD)
    for place, heading in enumerate(headings):
        width = narrow[place] if is_tight else widths[place]
        if most is not None:
            width = min(width, most)
        if place < text:
            # Plain text: a column may be called [red].
            table.add_column(Text(heading), overflow="fold", min_width=width)
        else:
            table.add_column(Text(heading), justify="right", overflow="fold", width=width)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _side_by_side(
    headings: Sequence[str], rows: Sequence[Sequence[str]], text: int, room: int | None
) -> list[list[int]]:
    """Places of the columns of numbers, in as many groups as the terminal asks for."""
    numbers = range(text, len(headings))
    if room is None:
        return [list(numbers)]
    widths = _narrow_widths(headings, rows, text)
    groups: list[list[int]] = [[]]
    for place in numbers:
        together = [*widths[:text], *(widths[other] for other in groups[-1]), widths[place]]
        if groups[-1] and _together(together) > room:
            groups.append([])
        groups[-1].append(place)
    return groups


def _widths(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """As wide as their content."""
    columns = zip(headings, *rows, strict=True)
    own = [max(map(cell_len, column)) for column in columns]
    return [max(own[0], _FIRST), *own[1:]]


def _narrow_widths(headings: Sequence[str], rows: Sequence[Sequence[str]], text: int) -> list[int]:
    """As narrow as they can be: text and headings may be folded, a number must not be."""
    texts = [min(width, _FIRST) for width in _widths(headings, rows)[:text]]
    numbers = [
        max(map(cell_len, (*headings[place].split(), *(row[place] for row in rows))), default=0)
        for place in range(text, len(headings))
    ]
    return texts + numbers


def _together(widths: Sequence[int]) -> int:
    """Columns side by side, blanks between them and at both ends."""
    return sum(widths) + 3 * len(widths) + 1


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_ANY)


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


def with_interval(
    number: float | None, around: "Interval | None", *, is_count: bool = False
) -> str:
    """A number with its interval, for a table; what was counted is a whole number.

    Examples
    --------
    >>> with_interval(1.0, (0.571, 1.0)), with_interval(0.5, None)
    ('1.00 (0.571 to 1.00)', '0.500')
    >>> with_interval(53.0, None, is_count=True)
    '53'
    """
    if is_count and number is not None:
        return f"{number:.0f}"
    if number is None or around is None:
        return shown(number)
    return f"{shown(number)} ({shown(around[0])} to {shown(around[1])})"
