"""What the package says of itself: versions agree, and what is imported is declared."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedsparse as fs

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OPTIONAL = ("flower", "ray", "torch")
"""Extras for users; others are for developers."""

DISTRIBUTIONS = {
    "griffe": "griffelib",
    "sklearn": "scikit-learn",
    "sksurv": "scikit-survival",
    "vl_convert": "vl-convert-python",
}
"""Of modules that are called otherwise."""

OWN = {"benchmarks", "fedsparse", "guides", "tests"}


def declared(*extras):
    """Names of the distributions that the package and these extras ask for."""
    asked = [*PROJECT["dependencies"], *(one for extra in extras for one in EXTRAS[extra])]
    return {re.match(r"[\w.-]+", requirement)[0].lower() for requirement in asked}


def imported(folder):
    """Distributions by the files in a folder that import from them."""
    found = {}
    for file in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            else:
                continue
            for name in {name.partition(".")[0] for name in names}:
                if name not in sys.stdlib_module_names and name not in OWN:
                    found.setdefault(DISTRIBUTIONS.get(name, name), set()).add(file.name)
    return found


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("src", OPTIONAL),
        ("tests", (*OPTIONAL, "dev")),
        ("examples/sparse_flower_app", ("flower",)),
        ("examples", ("flower", "dev")),
        ("benchmarks", (*OPTIONAL, "bench")),
        ("docs", ("docs",)),
    ],
)
def test_what_is_imported_is_declared(folder, extras):
    files = imported(folder)
    assert len(files) > 1
    assert {name: files[name] for name in files.keys() - declared(*extras)} == {}


@pytest.mark.parametrize("extra", OPTIONAL)
def test_an_extra_asks_for_nothing_that_is_not_imported(extra):
    assert declared(extra) - declared() - imported("src").keys() == set()


NEED_AN_EXTRA = (
    "fedsparse.federation.",
    "fedsparse.compute.on_device.",
    "fedsparse.engines.batches",
)
WITHOUT = """
import pkgutil, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import fedsparse
for module in pkgutil.walk_packages(fedsparse.__path__, "fedsparse."):
    if not module.name.startswith({need}) and not module.name.endswith("__main__"):
        __import__(module.name)
        print(module.name)
"""


def test_modules_load_without_the_extras_unless_they_stand_for_one():
    absent = sorted(declared(*OPTIONAL) - declared())
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(absent=absent, need=NEED_AN_EXTRA)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {"fedsparse.cli", "fedsparse.engines.ray_engine"} <= set(done.stdout.split())


def test_changelog_and_citation_name_the_version():
    headings = re.findall(r"^## (\d\S*) – (\S+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    (version,) = re.findall(r"^version: (.+)$", citation, re.M)
    (date,) = re.findall(r'^date-released: "(.+)"$', citation, re.M)
    assert (version, date) == headings[0]
    assert fs.__version__ == version


def test_every_python_that_is_claimed_is_tested():
    claimed = [
        name.removeprefix("Programming Language :: Python :: ")
        for name in PROJECT["classifiers"]
        if re.search(r"Python :: 3\.\d", name)
    ]
    assert PROJECT["requires-python"] == f">={claimed[0]}"
    checks = ROOT / ".github" / "workflows" / "checks.yml"
    if not checks.exists():
        pytest.skip("a source distribution has no workflows")
    lists = re.findall(r"python: \[(.+)\]", checks.read_text("utf-8"))
    assert set(re.findall(r'"(\S+)"', " ".join(lists))) == set(claimed)
