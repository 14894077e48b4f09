"""Printing results."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table; the first column is text, the others numbers."""
    table = Table(title=escape(title), title_justify="left")
    for position, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if position else "left")
    for row in rows:
        table.add_row(*[escape(str(cell)) for cell in row])
    Console(width=120).print(table)
