"""Which classes are taken for which."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from fedsparse.modelling.summary import Confusion
from fedsparse.report.fit.readable_numbers import percent, quoted


@dataclass(frozen=True)
class ConfusionCell:
    """How many rows of a class got one prediction, and which share of the class they are."""

    text: str
    share: float


@dataclass(frozen=True)
class ConfusionRow:
    """What became of the rows of a class, and how many of them were recognized."""

    name: str
    cells: Sequence[ConfusionCell]
    recognized: str


@dataclass(frozen=True)
class ConfusionTable:
    """Held-out rows by true and predicted class, darker where more of a class end."""

    macro: ClassVar[str] = "confusion_table"
    columns: Sequence[str]
    rows: Sequence[ConfusionRow]


def confusion_table(confusion: Confusion) -> ConfusionTable:
    r"""Lay counts out; the last column says how much of a class was recognized.

    Examples
    --------
    >>> table = confusion_table(Confusion(classes=("no", "yes"), counts=((40, 2), (1, 29))))
    >>> [row.recognized for row in table.rows]
    ['95\xa0%', '97\xa0%']
    """
    predicted = [f"predicted {quoted(name)}" for name in confusion.classes]
    rows = [
        _row(name, counts, counts[place])
        for place, (name, counts) in enumerate(
            zip(confusion.classes, confusion.counts, strict=True)
        )
    ]
    return ConfusionTable(["True class", *predicted, "recognized"], rows)


def _row(name: str, counts: Sequence[int], right: int) -> ConfusionRow:
    total = sum(counts)
    cells = [ConfusionCell(f"{count:,}", count / max(1, total)) for count in counts]
    return ConfusionRow(name, cells, percent(right / total) if total else "–")
