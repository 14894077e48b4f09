"""Whether server and site have releases of fedsparse that understand each other."""

from fedsparse.version import __version__


def objection_to_release(theirs: str, whose: str, ours: str = __version__) -> str | None:
    """Why one does not talk to another release, or None.

    What is said may change with every release. That of another first number is refused; who tells
    none has one from before 1.0, whose messages are not read in any case.

    Parameters
    ----------
    theirs
        The release that the other side told; empty if it told none.
    whose
        Who the other side is.
    ours
        The release here.

    Examples
    --------
    >>> objection_to_release("2.1.0", "the server", ours="1.0.0")
    'the server has fedsparse 2.1.0, and this side has 1.0.0; install the same release on both'
    >>> objection_to_release("1.0.1", "the server", ours="1.0.0")
    """
    if not theirs or theirs.split(".")[0] == ours.split(".")[0]:
        return None
    told = f"{whose} has fedsparse {theirs}, and this side has {ours}"
    return f"{told}; install the same release on both"
