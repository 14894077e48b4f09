"""What tests of the command line share."""

import sys

import pytest

from fedsparse.cli import main


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command in this process; gives exit code, output and messages."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedsparse", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call
