"""Tables of what is measured beside something else, with a ratio and a target in every row."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.rounds.progress import LiveTable

COLUMNS = ["", "FedSplice", "beside it", "ratio", "target", "met"]
WIDTHS = (92, 12, 12, 12, 16, 6)


@dataclass(frozen=True)
class Row:
    """One measure.

    Attributes
    ----------
    what
        What is measured, and beside what.
    ours, theirs
        FedSplice's number, and the other one; None for what never came.
    most, least
        The target for ours, if there is one; with ``of_ratio`` for the ratio.
    """

    what: str
    ours: float | None
    theirs: float | None
    most: float | None = None
    least: float | None = None
    of_ratio: bool = False

    @property
    def ratio(self) -> float | None:
        """Ours over theirs."""
        return None if self.ours is None or not self.theirs else self.ours / self.theirs

    @property
    def is_met(self) -> bool | None:
        """Whether the target is; None without one."""
        if self.most is None and self.least is None:
            return None
        judged = self.ratio if self.of_ratio else self.ours
        if judged is None:
            return False
        return (self.most is None or judged <= self.most) and (
            self.least is None or judged >= self.least
        )

    def cells(self) -> list[str]:
        """As text."""
        target = "" if self.most is None else f"≤ {self.most:g}"
        target = target if self.least is None else f"≥ {self.least:g}"
        if target and self.of_ratio:
            target = f"ratio {target}"
        met = {None: "", True: "yes", False: "NO"}[self.is_met]
        return [self.what, _text(self.ours), _text(self.theirs), _text(self.ratio), target, met]


def show_rows(title: str, rows: Iterable[Row]) -> None:
    """Print each as soon as it is known, then how many targets are met."""
    table = LiveTable(title, COLUMNS, WIDTHS)
    judged = []
    for row in rows:
        table.add(row.cells())
        if row.is_met is not None:
            judged.append(row.is_met)
    print(f"targets met: {sum(judged)} of {len(judged)}", flush=True)


def _text(number: float | None) -> str:
    return "–" if number is None else f"{number:.5g}"
