"""Numbers as people read them."""

import math

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SPACE = "\N{NO-BREAK SPACE}"


def number(value: float) -> str:
    """Three significant digits, in powers of ten only where zeros could no longer be counted.

    Examples
    --------
    >>> number(-0.12345), number(7129.4), number(2.1e-7)
    ('−0.123', '7,129', '2.10 × 10⁻⁷')
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    mantissa, exponent = f"{abs(value):.2e}".split("e")
    power = int(exponent)
    if -4 <= power < 6:
        text = f"{abs(value):,.{max(0, 2 - power)}f}"
    else:
        text = f"{mantissa} × 10{str(power).translate(SUPERSCRIPTS)}"
    return f"−{text}" if value < 0 else text


def percent(share: float) -> str:
    r"""A share in percent, which is 0 or 100 only if the share is 0 or 1.

    Examples
    --------
    >>> percent(0.944), percent(1.0), percent(0.9996)
    ('94\xa0%', '100\xa0%', '99.96\xa0%')
    """
    texts = [f"{100 * share:.{digits}f}" for digits in range(4)]
    rounded = texts if share in (0, 1) else [text for text in texts if float(text) not in (0, 100)]
    return f"{(rounded or texts)[0]}{SPACE}%".replace("-", "−")


def size(count: float) -> str:
    r"""Bytes in a unit that suits them.

    Examples
    --------
    >>> size(830), size(41_200), size(6_600_000)
    ('830\xa0bytes', '41\xa0kB', '6.6\xa0MB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.{0 if count >= 10 * unit else 1}f}{SPACE}{name}"
    return f"{count:.0f}{SPACE}bytes"


def counted(count: int, noun: str) -> str:
    """A count and what is counted.

    Examples
    --------
    >>> counted(1, "site"), counted(7129, "feature")
    ('1 site', '7,129 features')
    """
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def quoted(name: str) -> str:
    """A name from the data, told from the words around it.

    Examples
    --------
    >>> quoted("relapse")
    '“relapse”'
    """
    return f"“{name}”"


def p_value_text(value: float | None) -> str:
    """A p-value for tables; those that are tiny are not told apart.

    Examples
    --------
    >>> p_value_text(0.0123), p_value_text(4e-7), p_value_text(None)
    ('0.012', '< 0.001', '–')
    """
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
