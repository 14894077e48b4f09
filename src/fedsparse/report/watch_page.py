"""The page on which a server's administrator watches a federation; a script keeps it up to date."""

from fedsparse.report.page import templates


def watch_page(nonce: str) -> str:
    """The page as it is before its script has asked for anything.

    Parameters
    ----------
    nonce
        By which the browser knows this page's own script and style.

    Examples
    --------
    >>> 'script nonce="4f2a"' in watch_page("4f2a")
    True
    """
    return templates().get_template("watch.html").render(nonce=nonce)
