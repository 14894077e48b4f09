"""The pages in a real browser: the charts are drawn, and nothing is fetched."""

import json
import re
import subprocess
from html import unescape

import pytest

from fedsparse.report.reproduction_page import reproduction_page
from tests import chromium
from tests.chromium import CHROMIUM
from tests.report.runs import METHODS, made_up_history
from tests.report.study import made_up_tables
from tests.report.test_report import page_of

FLAGS = (*chromium.FLAGS, "--virtual-time-budget=10000", "--window-size=1280,1200")

pytestmark = [pytest.mark.slow, chromium.in_browser]

# Run after the page's own script; what it saw is left in the document.
AFTERWARDS = """
<script>
(async () => {
  await Promise.all(drawings.map(({ view }) => view));
  const seen = {};
  %s
  const fetched = performance.getEntriesByType("resource").map((entry) => entry.name);
  seen.fetched = fetched.filter((name) => !name.startsWith("data:"));
  document.body.dataset.seen = JSON.stringify(seen);
})();
</script>
"""

# Times before and after the delay is doubled, once through the form and once for a wrong entry.
DOUBLE_THE_DELAY = """
  const cells = () => [...document.querySelectorAll("[data-rounds]")].map((c) => c.textContent);
  const chart = await drawings.at(-1).view;
  const longest = () => chart.scale("x").domain()[1];
  const type = async (name, value) => {
    form.elements[name].value = value;
    form.dispatchEvent(new Event("input"));
    await estimate();
  };
  seen.cells = [cells()];
  seen.longest = [longest()];
  await estimate();
  seen.cells.push(cells());
  await type("delay", "300");
  seen.cells.push(cells());
  seen.longest.push(longest());
  await type("bandwidth", "-1");
  seen.cells.push(cells());
  seen.width = document.documentElement.scrollWidth;
"""


def shown(html, afterwards, folder):
    """The page's document after it was drawn and used; its console has nothing to say."""
    path = folder / "page.html"
    path.write_text(html + AFTERWARDS % afterwards, encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [CHROMIUM, *FLAGS, profile, "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def seen_in(document):
    return json.loads(unescape(re.search(r'data-seen="(.*?)"', document)[1]))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """A page that compares methods, after the first of them was chosen."""
    folder = tmp_path_factory.mktemp("comparison")
    html = page_of(made_up_history()).html()
    return shown(html, "await choose(buttons[0]);", folder)


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    """The page of the reproduction, after the network was changed."""
    folder = tmp_path_factory.mktemp("reproduction")
    return shown(reproduction_page(made_up_tables()).html(), DOUBLE_THE_DELAY, folder)


class TestComparison:
    def test_both_charts_are_drawn(self, comparison):
        assert len(re.findall(r'<svg[^>]*class="marks"', comparison)) == 2
        assert "Communication rounds" in comparison
        assert "Data sent, both ways (MB)" in comparison

    def test_nothing_is_fetched(self, comparison):
        assert seen_in(comparison)["fetched"] == []

    def test_choosing_a_method_dims_the_others(self, comparison):
        assert len(re.findall(r'<button[^>]*aria-pressed="true"', comparison)) == 1
        lines = re.findall(r'<path[^>]*aria-roledescription="line mark"[^>]*>', comparison)
        dimmed = [line for line in lines if 'opacity="0.12"' in line]
        assert len(lines) == 2 * len(METHODS)
        assert len(dimmed) == 2 * (len(METHODS) - 1)


class TestReproduction:
    def test_three_charts_per_experiment_and_one_on_the_network(self, reproduction):
        assert len(re.findall(r'<svg[^>]*class="marks"', reproduction)) == 3 * 3 + 3

    def test_nothing_is_fetched(self, reproduction):
        assert seen_in(reproduction)["fetched"] == []

    def test_fits_the_window(self, reproduction):
        assert seen_in(reproduction)["width"] <= 1280

    def test_written_times_are_those_the_browser_works_out(self, reproduction):
        written, worked_out, *_ = seen_in(reproduction)["cells"]
        assert written == worked_out
        assert "2.0 s (1.0×)" in written

    def test_changing_the_delay_changes_chart_and_table(self, reproduction):
        seen = seen_in(reproduction)
        assert "3.8 s (1.0×)" in seen["cells"][2]
        assert seen["longest"][1] == pytest.approx(seen["longest"][0] + 12 * 0.15)

    def test_impossible_numbers_change_nothing(self, reproduction):
        *_, before, after = seen_in(reproduction)["cells"]
        assert before == after
