"""The two folders data sets are kept in: the user's own, and the cache."""

import os
from pathlib import Path

DATA_VARIABLE = "FEDSPARSE_DATA"
"""Names a folder with files of data sets, looked at before anything is downloaded."""

CACHE_VARIABLE = "FEDSPARSE_CACHE"
"""Names the folder for downloads and parsed files, in place of the system's cache folder."""


def data_folder() -> Path | None:
    """The folder of the user's own copies, if one is set.

    Examples
    --------
    >>> (data_folder() is not None) == bool(os.environ.get("FEDSPARSE_DATA"))
    True
    """
    named = os.environ.get(DATA_VARIABLE)
    return Path(named) if named else None


def cache_folder() -> Path:
    """Where downloads and parsed files are kept; it need not exist yet.

    Examples
    --------
    >>> cache_folder().is_absolute()
    True
    """
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).absolute()
    import pooch

    return Path(pooch.os_cache("fedsparse"))


def in_data_folder(*places: str) -> Path | None:
    """The first of these files that the user's folder holds.

    Parameters
    ----------
    places
        Paths such as "rcv1/rcv1_train.binary"; each is also looked for without its folder.

    Examples
    --------
    >>> in_data_folder("no such folder/no such file") is None
    True
    """
    folder = data_folder()
    if folder is None:
        return None
    candidates = [folder / form for place in places for form in (place, Path(place).name)]
    return next((candidate for candidate in candidates if candidate.is_file()), None)
