"""How sure coefficients are, for a terminal."""

from typing import TYPE_CHECKING

from fedsparse.cli.printing import print_table, say, shown
from fedsparse.modelling.unsure import sentences_on_certainty

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedsparse.modelling.certainty import Estimated, Interval
    from fedsparse.modelling.model import Feature, Model


def print_certainty(model: "Model", features: "Sequence[Feature]") -> None:
    """A table of intervals, and why some are missing; nothing if they were not worked out.

    Parameters
    ----------
    model
        Of the fit.
    features
        Those to show, in order.
    """
    sure = model.how_sure
    if sure is None or not features:
        return
    rows = []
    for feature in features:
        own = feature.certainty
        if own is None:
            continue
        p_value = None if own.after_choosing is None else own.after_choosing.p_value
        rows.append(
            [
                feature.name,
                _value(own.shrunk),
                _value(own.refitted),
                _bounds(own.refitted),
                *([_bounds(own.after_choosing), p_text(p_value)] if sure.splits else []),
            ]
        )
    what = "Coefficients" if sure.ratio is None else f"{sure.ratio.capitalize()}s"
    headings = [
        "feature", "shrunk", "refitted", "beforehand",
        *(["after choosing", "p"] if sure.splits else []),
    ]  # fmt: skip
    title = f"{what} per SD, {sure.level:.0%} intervals as if the features were chosen beforehand"
    after = " and valid after the choice" if sure.splits else ""
    print_table(f"{title}{after}", headings, rows)
    for sentence in sentences_on_certainty(model):
        say(sentence, is_note=True)


def p_text(p_value: float | None) -> str:
    """A p-value for a table.

    Examples
    --------
    >>> p_text(0.0321), p_text(0.00004), p_text(1.0), p_text(None)
    ('0.032', '<0.001', '1.000', '–')
    """
    if p_value is None:
        return "–"
    return "<0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _told(own: "Estimated") -> "Interval":
    return own.ratio_per_deviation or own.per_deviation


def _value(own: "Estimated | None") -> str:
    return shown(None if own is None else _told(own).value)


def _bounds(own: "Estimated | None") -> str:
    if own is None:
        return "–"
    told = _told(own)
    if told.low is None and told.high is None:
        return "–"
    return f"{_end(told.low, '−∞')} to {_end(told.high, '∞')}"


def _end(end: float | None, none: str) -> str:
    return none if end is None else shown(end)
