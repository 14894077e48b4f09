"""Text from others, on its way to a terminal or a log."""

import unicodedata


def visible(text: str) -> str:
    r"""The same text with nothing in it that a terminal would obey or hide.

    Names of columns and sites and what sites say come from files and over networks. Control
    characters can repaint a screen or forge a line of a log, and marks of direction can turn a name
    around; they are shown as escapes.

    Examples
    --------
    >>> print(visible("age \x1b[31m(years)\nadmin: all is well"))
    age \x1b[31m(years)\nadmin: all is well
    >>> print(visible("gen\u202eeslaf, naïve, τ"))
    gen\u202eeslaf, naïve, τ
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(sign: str) -> str:
    is_harmless = sign.isprintable() or unicodedata.category(sign) == "Zs"
    return sign if is_harmless else sign.encode("unicode_escape").decode()
