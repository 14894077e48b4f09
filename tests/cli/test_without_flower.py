"""The command line where the packages of a federation are not installed."""

import subprocess
import sys

import pytest

from tests.cli.commands import assert_one_line

BLOCKED = "import sys; sys.modules |= dict.fromkeys(('flwr', 'cryptography'))\n"
RUN = "from fedsparse.cli import main; sys.argv = ['fedsparse', *sys.argv[1:]]; main()"


def fedsparse_alone(*arguments):
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + RUN, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    "command", [["--help"], ["fit", "--help"], ["federation", "train", "--help"]]
)
def test_options_are_explained(command):
    done = fedsparse_alone(*command)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_a_federation_says_what_to_install(tmp_path):
    done = fedsparse_alone("federation", "join", "bari", "--keys", str(tmp_path / "bari"))
    assert done.returncode == 2
    assert_one_line(done.stderr, "Flower is not installed; run: pip install 'fedsparse[flower]'")


def test_a_strategy_says_what_to_install():
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + "import fedsparse.federation.strategies"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: fedsparse.federation.strategies needs Flower; "
        "install it with pip install 'fedsparse[flower]'"
    )
