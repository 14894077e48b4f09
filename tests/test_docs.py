"""The documentation does what it says: commands print it, code runs, pages are up to date."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fedsparse as fs
from fedsparse.problem.losses.named import LOSSES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FETCHED = re.compile(r'<(?:script|img|iframe|link)\b[^>]*(?:src|href)="?(?:https?:)?//')


def script(name):
    """A script of the documentation, as a module."""
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(sys.modules[name])
    return sys.modules[name]


guides = script("guides")


@pytest.fixture
def losses_as_before():
    """A guide registers a loss of its own."""
    before = dict(LOSSES)
    yield
    LOSSES.clear()
    LOSSES.update(before)


@pytest.mark.slow
@pytest.mark.parametrize("page", guides.GUIDES, ids=lambda page: page.stem)
def test_what_a_guide_shows_is_what_happens(page, tmp_path, losses_as_before):
    guides.make_tables(tmp_path)
    shown = page.read_text("utf-8").splitlines()
    assert guides.refreshed(page, tmp_path).splitlines() == shown, "run docs/guides.py"


@pytest.mark.parametrize(
    ("page", "printed", "is_right"),
    [
        ("a\nb", "a  \n\nb\n", True),
        ("a\n…\nd", "a\nb\nc\nd", True),
        ("a\n…", "b\nc", False),
        ("p = 0.123412", "p = 0.123498", True),
        ("p = 0.12", "p = 0.13", False),
        ("", "Warning: odd", False),
    ],
)
def test_a_page_is_compared_with_what_is_printed(page, printed, is_right):
    assert guides._says(page, printed) is is_right


def test_lines_left_out_of_a_page_stay_out_when_others_change():
    assert guides._shortened("a\nb\nc\nd\n", "A\n…\nD") == "a\n…\nd"
    assert guides._shortened("a\nb\nc\n", "…\nC") == "…\nc"
    assert guides._shortened("a\nb\n", "") == "a\nb"


def test_a_command_that_fails_must_be_shown_to_fail(tmp_path):
    guides._run_console("$ (exit 2)\n$ echo $?\n2\n", tmp_path)
    with pytest.raises(RuntimeError, match="exit code 2"):
        guides._run_console("$ (exit 2)\n", tmp_path)


@pytest.mark.parametrize(
    ("page", "printed"), [("index.md", "[  3  14 159]"), ("methods.md", "rounds")]
)
def test_python_on_other_pages_runs(page, printed, tmp_path, capsys):
    guides.refreshed(DOCS / page, tmp_path)
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize("name", ["command_line", "code_map"])
def test_a_page_written_by_a_script_is_what_it_would_write_now(name):
    written = script(name)
    assert written.PAGE.read_text("utf-8") == written.page(), "run `make docs`"


def test_the_map_of_the_code_has_a_row_for_every_module_of_a_layer():
    """Rows of a layer's section name modules by their path in the layer, packages by a slash."""
    sections = script("code_map").page().split("\n## ")
    shown = {
        f"{section.partition(chr(10))[0]}/{row}"
        for section in sections[2:]
        for row in re.findall(r"^\| `([^`]+)` \|", section, flags=re.MULTILINE)
    }
    source = ROOT / "src" / "fedsparse"
    paths = {path.relative_to(source).as_posix() for path in source.glob("*/**/*.py")}
    layers = {path for path in paths if re.fullmatch(r"\w+/__init__.py", path)}
    assert shown == {path.removesuffix("__init__.py") for path in paths - layers}


def test_the_map_of_the_code_tells_who_imports_whom():
    told = script("code_map").page()
    (row,) = re.findall(r"^\| \[`algorithms/`\].*$", told, flags=re.MULTILINE)
    assert "`requests`" in row
    assert "`engines`" not in row


def test_every_public_name_is_in_the_reference():
    reference = "".join(page.read_text("utf-8") for page in (DOCS / "reference").glob("*.md"))
    names = set(fs.__all__) - {"__version__", "datasets"}
    assert {name for name in names if not re.search(rf"\b{name}\b", reference)} == set()


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_asks_the_network_for_nothing(tmp_path):
    for needed in ("mkdocs", "material", "mkdocstrings_handlers"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"needs {needed}: pip install '.[docs]'")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT, check=True, timeout=300,
    )  # fmt: skip
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 25
    assert [page.name for page in pages if FETCHED.search(page.read_text("utf-8"))] == []
