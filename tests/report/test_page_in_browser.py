"""The page in a real browser: the charts are drawn, and nothing is fetched."""

import re
import shutil
import subprocess

import pytest

from fedsparse.report.page import Page
from fedsparse.report.summary import closing_table
from tests.report.runs import METHODS, made_up_history

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
    "--virtual-time-budget=10000",
    "--window-size=1280,1200",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH to open the page with"),
]

# Run after the page's own script; leaves what it saw in the document.
AFTERWARDS = """
<script>
Promise.all(views).then(async () => {
  choose(buttons[0]);
  await Promise.all(views.map((view) => view.then((v) => v.runAsync())));
  const fetched = performance.getEntriesByType("resource").map((entry) => entry.name);
  document.body.dataset.fetched = JSON.stringify(fetched);
});
</script>
"""


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The page's document after it was drawn and the first method was chosen."""
    folder = tmp_path_factory.mktemp("browser")
    history = made_up_history()
    closing = closing_table(history, reference=METHODS[0])
    html = Page("A run", "Three methods.", history, closing, "A note.", {"Seed": "0"}).html()
    path = folder / "page.html"
    path.write_text(html + AFTERWARDS, encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    shown = subprocess.run(
        [CHROMIUM, *FLAGS, profile, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return shown.stdout


def test_both_charts_are_drawn(document):
    assert len(re.findall(r'<svg[^>]*class="marks"', document)) == 2
    assert "Communication rounds" in document
    assert "Data sent, both ways (MB)" in document


def test_nothing_is_fetched(document):
    assert 'data-fetched="[]"' in document


def test_choosing_a_method_dims_the_others(document):
    assert len(re.findall(r'<button[^>]*aria-pressed="true"', document)) == 1
    lines = re.findall(r'<path[^>]*aria-roledescription="line mark"[^>]*>', document)
    dimmed = [line for line in lines if 'opacity="0.12"' in line]
    assert len(lines) == 2 * len(METHODS)
    assert len(dimmed) == 2 * (len(METHODS) - 1)
