"""How tests open pages in a real browser."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)

in_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium on PATH to open the page with"
)
