"""Makes the pictures of pages and of the demo that README and guides show.

    python docs/page_pictures.py

Runs ``fedsparse demo`` and the fit of the tutorial in a folder of its own, and photographs their
pages with Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from guides import make_tables

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
FEDSPARSE = Path(sys.executable).with_name("fedsparse")
WIDTH = 1280
FIT = "fit hospitals.csv --target relapse --site hospital --impute mean"
"""As in the tutorial."""


def main() -> None:
    """Make all of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run(folder, "demo")
        shutil.copy(folder / "fedsparse-demo" / "methods.png", IMAGES / "methods.png")
        photograph(folder / "fedsparse-demo" / "fit" / "report.html", IMAGES / "report.png", 740)
        make_tables(folder)
        _run(folder, *FIT.split())
        photograph(folder / "fedsparse-fit" / "report.html", IMAGES / "tutorial-report.png", 1000)


def photograph(page: Path, picture: Path, height: int) -> None:
    """Save the upper part of a page as a picture."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Chromium is missing; install it, for example with apt-get install chromium")
    subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
            "--force-prefers-color-scheme=light", f"--window-size={WIDTH},{height}",
            f"--screenshot={picture}", page.as_uri(),
        ],
        check=True, capture_output=True, timeout=600,
    )  # fmt: skip


def _run(folder: Path, *arguments: str) -> None:
    subprocess.run([FEDSPARSE, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
