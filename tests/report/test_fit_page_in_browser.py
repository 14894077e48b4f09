"""The page of a fit in a real browser: drawn, offline, dark and light, on a phone and on paper."""

import re
import subprocess
import zlib

import pytest

from fedsparse.report.fit import fit_page
from tests.report import test_page_in_browser as browser
from tests.report.test_fit_page import HOSTILE, made_up_summary

pytestmark = browser.pytestmark

OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND"
DARK = "--blink-settings=preferredColorScheme=0"

MARKS = """
  seen.marks = [...document.querySelectorAll(".chart")].map((chart) =>
    chart.querySelectorAll(".role-mark > *").length);
  const drawn = [...document.querySelectorAll("[aria-roledescription=visualization]")];
  seen.labels = drawn.map((chart) => chart.getAttribute("aria-label") ?? "");
"""

# The mouse moves onto the first bar.
HOVER = """
  const bar = document.querySelector(".chart [aria-roledescription=bar]");
  const box = bar.getBoundingClientRect();
  const there = { bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
  bar.dispatchEvent(new PointerEvent("pointermove", there));
  await new Promise((resolve) => setTimeout(resolve, 100));
  const tooltip = document.querySelector("#vg-tooltip-element");
  seen.tooltip = { isVisible: tooltip.classList.contains("visible"), text: tooltip.textContent };
"""

# How light ink and paper are, from 0 to 255, in the text of the page and in its charts.
COLOURS = """
  const lightness = (colour) => Math.max(...colour.match(/[\\d.]+/g).slice(0, 3).map(Number));
  const label = document.querySelector(".chart text");
  seen.paper = lightness(getComputedStyle(document.body).backgroundColor);
  seen.ink = lightness(getComputedStyle(document.body).color);
  seen.label = lightness(getComputedStyle(label).fill);
"""

WIDTHS = """
  const widths = () => [...document.querySelectorAll("svg.marks")].map((svg) => svg.clientWidth);
  seen.window = window.innerWidth;
  seen.page = document.documentElement.scrollWidth;
  seen.charts = widths();
  window.dispatchEvent(new Event("beforeprint"));
  seen.printed = widths();
  window.dispatchEvent(new Event("afterprint"));
  seen.afterwards = widths();
"""


# A window cannot be as narrow as a phone, a frame can; it tells what was seen inside.
FRAME = """
<iframe src="framed.html" style="width: 420px; height: 900px; border: 0"></iframe>
<script>
const drawings = [];
const told = new Promise((resolve) => addEventListener("message", ({ data }) => resolve(data)));
</script>
"""
FRAMED = """
<script>
(async () => {
  await Promise.all(drawings.map(({ view }) => view));
  const seen = {};
  %s
  parent.postMessage(seen, "*");
})();
</script>
"""


def seen_in(summary, script, folder, *flags):
    """What a script saw on the page; the flags are added to the browser's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(browser, "FLAGS", (*browser.FLAGS, OFFLINE, *flags))
        return browser.seen_in(browser.shown(fit_page(summary).html(), script, folder))


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_all_charts_are_drawn_and_nothing_is_fetched(task, tmp_path):
    seen = seen_in(made_up_summary(task), MARKS, tmp_path)
    assert len(seen["marks"]) == (8 if task == "binary" else 7)
    assert min(seen["marks"]) >= 5
    assert len(seen["labels"]) == len(seen["marks"])
    assert all(len(label) > 30 for label in seen["labels"])
    assert seen["fetched"] == []


def test_pointing_at_a_bar_tells_its_numbers(tmp_path):
    seen = seen_in(made_up_summary(names=["a gene"]), HOVER, tmp_path)
    assert seen["tooltip"]["isVisible"]
    assert "a gene" in seen["tooltip"]["text"]
    assert "Per standard deviation" in seen["tooltip"]["text"]


def test_names_that_look_like_markup_are_only_names(tmp_path):
    summary = made_up_summary(names=[HOSTILE, "other"], title=HOSTILE)
    seen = seen_in(summary, MARKS + HOVER, tmp_path)
    assert len(seen["marks"]) == 8
    assert "<script>" in seen["tooltip"]["text"]


class TestColours:
    def test_light(self, tmp_path):
        seen = seen_in(made_up_summary(), COLOURS, tmp_path)
        assert seen["paper"] > 240
        assert max(seen["ink"], seen["label"]) < 80

    def test_dark(self, tmp_path):
        seen = seen_in(made_up_summary(), COLOURS, tmp_path, DARK)
        assert seen["paper"] < 40
        assert min(seen["ink"], seen["label"]) > 180


class TestPhone:
    @pytest.mark.parametrize("task", ["binary", "multiclass"])
    def test_the_page_does_not_scroll_sideways(self, task, tmp_path):
        summary = made_up_summary(task, names=[HOSTILE, *(f"gene {place}" for place in range(60))])
        framed = fit_page(summary).html() + FRAMED % WIDTHS
        (tmp_path / "framed.html").write_text(framed, encoding="utf-8")
        document = browser.shown(FRAME, "Object.assign(seen, await told);", tmp_path)
        seen = browser.seen_in(document)
        assert seen["window"] == 420
        assert seen["page"] <= 420
        assert max(seen["charts"]) <= 420


class TestPaper:
    def test_charts_are_drawn_anew_at_the_width_of_the_paper(self, tmp_path):
        seen = seen_in(made_up_summary(), WIDTHS, tmp_path)
        assert max(seen["printed"]) == 672
        assert max(seen["charts"]) > 900
        assert seen["afterwards"] == seen["charts"]

    def test_prints_light_whatever_the_screen_is(self, tmp_path):
        page, paper = tmp_path / "page.html", tmp_path / "page.pdf"
        fit_page(made_up_summary()).save(page)
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        printing = (OFFLINE, DARK, profile, f"--print-to-pdf={paper}", page.as_uri())
        subprocess.run(
            [browser.CHROMIUM, *browser.FLAGS, *printing],
            capture_output=True,
            timeout=120,
            check=True,
        )
        colours = fills_of(paper.read_bytes())
        assert paper.stat().st_size > 50_000
        assert (0.11, 0.11, 0.11) in colours  # the ink of light pages
        assert (0.9, 0.9, 0.9) not in colours  # and of dark ones


def fills_of(pdf):
    """Colours that a PDF fills shapes and letters with."""
    streams = re.findall(rb"stream\r?\n(.*?)endstream", pdf, flags=re.DOTALL)
    unpacked = b"\n".join(zlib.decompressobj().decompress(one) for one in streams if one[0] == 0x78)
    fills = re.findall(rb"([\d.]+) ([\d.]+) ([\d.]+) rg", unpacked)
    return {tuple(round(float(part), 2) for part in fill) for fill in fills}
