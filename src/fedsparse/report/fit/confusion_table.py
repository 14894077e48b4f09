"""Which classes are taken for which."""

from dataclasses import dataclass
from html import escape

from fedsparse.models.summary import Confusion
from fedsparse.report.fit.readable_numbers import percent, quoted


@dataclass(frozen=True)
class ConfusionTable:
    r"""Held-out rows by true and predicted class, darker where more of a class end.

    Examples
    --------
    >>> table = ConfusionTable(Confusion(classes=("no", "yes"), counts=((40, 2), (1, 29))))
    >>> "<td>97\xa0%</td>" in table.html()
    True
    """

    confusion: Confusion

    def html(self) -> str:
        """Its markup; the last column says how much of a class was recognized."""
        names = self.confusion.classes
        head = "".join(f'<th scope="col">predicted {escape(quoted(name))}</th>' for name in names)
        rows = "".join(
            self._row(place, name, counts)
            for place, (name, counts) in enumerate(zip(names, self.confusion.counts, strict=True))
        )
        return (
            '<div class="scroll whole" tabindex="0">\n<table>\n'
            "<caption>True classes, and what the model predicted</caption>\n"
            f'<thead><tr><th scope="col">True class</th>{head}<th scope="col">recognized</th></tr>'
            f"</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>"
        )

    def _row(self, place: int, name: str, counts: tuple[int, ...]) -> str:
        total = sum(counts)
        cells = "".join(
            f'<td class="shaded" style="--share: {count / max(1, total):.3f}">{count:,}</td>'
            for count in counts
        )
        recognized = percent(counts[place] / total) if total else "–"
        return f'<tr><th scope="row">{escape(name)}</th>{cells}<td>{recognized}</td></tr>\n'
