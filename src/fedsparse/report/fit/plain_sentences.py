"""Sentences of the command line for readers of a page, who have no command line."""

import re

_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z])")
_OPTION = re.compile(r"(?<![\w-])--[a-z]")


def without_options(text: str) -> str:
    """The text without the clauses that advise an option; "" if nothing is left.

    Examples
    --------
    >>> without_options("Stability was not worked out, to save time; --stability 25 does it.")
    'Stability was not worked out, to save time.'
    >>> without_options('left out (dates): "admitted"; to use one, turn it into a number')
    'left out (dates): "admitted"; to use one, turn it into a number'
    """
    kept = (_without_clauses(sentence) for sentence in _SENTENCE.split(text))
    return " ".join(filter(None, kept))


def _without_clauses(sentence: str) -> str:
    clauses = sentence.split("; ")
    kept = [clause for clause in clauses if not _OPTION.search(clause)]
    text = "; ".join(kept)
    is_cut = len(kept) < len(clauses) and text and not text.endswith((".", "?", "!"))
    return f"{text}." if is_cut and sentence.endswith(".") else text
