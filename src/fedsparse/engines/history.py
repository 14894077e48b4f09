"""What is recorded of a run, round by round."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars


@dataclass(frozen=True)
class Record:
    """The state of a run after a round. Counts, bytes and seconds run from the start.

    Attributes
    ----------
    round
        Communication rounds so far; 0 is the start, x_0.
    iterations
        Local steps of each client so far.
    objective
        f(x) = Σ p_i f_i(x) on all clients' data.
    nonzeros
        Non-zero coefficients of x.
    bytes_down, bytes_up
        Encoded vectors sent to and by all clients, asking for l_i included, telling f left out.
    seconds
        Time for requests and updates until x was known. f of earlier rounds is part of it, where
        clients told it with their answers.
    absent
        Answers that did not come, of clients on a network; those that came made up for them.
    """

    round: int
    iterations: int
    objective: float
    nonzeros: int
    bytes_down: int
    bytes_up: int
    seconds: float
    absent: int = 0


def as_table(records: Sequence[Record]) -> "polars.DataFrame":
    """Records as a polars table.

    Examples
    --------
    >>> as_table([Record(0, 0, 1.5, 0, 0, 0, 0.0)]).columns[:3]
    ['round', 'iterations', 'objective']
    """
    import polars  # takes longer to import than a small run takes

    return polars.DataFrame(
        {
            field.name: [getattr(record, field.name) for record in records]
            for field in fields(Record)
        }
    )
