"""What there is to say about tables: errors that stop a fit, warnings and notes, as sentences."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict

from fedsparse.errors import DataError, OptionError

ROW_COUNT = "the header not counted"
"""How rows are counted in messages: as a person does, from 1."""

_LONGEST_VALUE = 40


class Finding(BaseModel):
    """One thing worth saying about a table.

    Examples
    --------
    >>> Finding(severity="note", sentence='"ward" is constant').severity
    'note'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    severity: Literal["error", "warning", "note"]
    """An error stops a fit."""
    sentence: str
    columns: tuple[str, ...] = ()
    """What cannot be described because of it."""


def error(sentence: str, *columns: str) -> Finding:
    """A finding that stops a fit.

    Examples
    --------
    >>> error("bari.csv has no rows").severity
    'error'
    """
    return Finding(severity="error", sentence=sentence, columns=columns)


def warning(sentence: str, *columns: str) -> Finding:
    """A finding that a fit goes on with, but that a person should look at.

    Examples
    --------
    >>> warning("Cork has only one class").severity
    'warning'
    """
    return Finding(severity="warning", sentence=sentence, columns=columns)


def note(sentence: str) -> Finding:
    """A finding about what was decided.

    Examples
    --------
    >>> note("one column is left out").severity
    'note'
    """
    return Finding(severity="note", sentence=sentence)


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raise the first error, and say how many more there are.

    Examples
    --------
    >>> raise_errors([note("all is well")])
    >>> raise_errors([error("bari.csv has no rows; leave it out"), error("Cork has one row")])
    Traceback (most recent call last):
        ...
    fedsparse.errors.DataError: bari.csv has no rows; leave it out (and 1 more problem; inspect the
    tables to see all)
    """
    errors = [finding.sentence for finding in findings if finding.severity == "error"]
    if not errors:
        return
    others = len(errors) - 1
    more = f" (and {counted(others, 'more problem')}; inspect the tables to see all)"
    raise DataError(errors[0] + (more if others else ""))


def check_choice(option: str, value: object, choices: Collection[object]) -> None:
    """Refuse a value of an option that is not one of its choices.

    Examples
    --------
    >>> check_choice("task", "auto", ("auto", "regression"))
    """
    if value not in choices:
        known = ", ".join(repr(choice) for choice in choices)
        raise OptionError(f"{option} must be one of {known}, not {value!r}")


def counted(number: int, thing: str) -> str:
    """A number of things, in words.

    Examples
    --------
    >>> counted(1, "row"), counted(12000, "row")
    ('1 row', '12,000 rows')
    """
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first few names in quotation marks, and how many more there are.

    Examples
    --------
    >>> listed(["age", "bmi"]), listed(["a", "b", "c", "d"], most=2)
    ('"age" and "bmi"', '"a", "b" and 2 more')
    """
    quoted = [f'"{name}"' for name in names[:most]]
    if len(names) > most:
        quoted.append(f"{len(names) - most:,} more")
    return joined(quoted)


def joined(parts: Sequence[str]) -> str:
    """Parts as a person lists them.

    Examples
    --------
    >>> joined(["Bari", "Cork", "Delft"])
    'Bari, Cork and Delft'
    """
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The name most like another, if any is.

    Examples
    --------
    >>> nearest("Relaps", ["age", "relapse"])
    'relapse'
    """
    by_lower = {other.lower(): other for other in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    if not found:
        return None
    is_other_number = _without_digits(found[0]) == _without_digits(name.lower())
    if is_other_number and found[0] != name.lower():
        return None  # gene_217 is not a misspelt gene_17
    return by_lower[found[0]]


def _without_digits(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())


def shown(value: object) -> str:
    """A value in quotation marks, cut if it is long.

    Examples
    --------
    >>> shown("12 mg")
    '"12 mg"'
    """
    text = str(value)
    return f'"{text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"}"'
