"""Runs the tutorial and the how-to pages, and writes what their commands print into them.

    python docs/guides.py               # all of them
    python docs/guides.py tutorial.md   # one

A test runs them, too, and fails if a page would change. In a ``console`` block, ``$`` begins a
command and ``>`` continues it; a line ``…`` stands for lines left out. A command may fail only
where ``$ echo $?`` follows and shows its exit code.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
TUTORIAL = DOCS / "tutorial.md"
GUIDES = [TUTORIAL, *sorted((DOCS / "how-to").glob("*.md"))]
TABLES = "make_tables.py"
"""Script in the tutorial; other pages use what it writes."""

_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', flags=re.MULTILINE | re.DOTALL)
_LEFT_OUT = "…"
_PATIENCE = 600


@dataclass(frozen=True)
class Command:
    """A command of a ``console`` block, and what the page says that it prints."""

    text: str
    printed: str


def refreshed(page: Path, folder: Path) -> str:
    """The text of a page after all its code has run in a folder, with what commands print."""
    text = page.read_text("utf-8")
    names: dict[str, Any] = {}

    def run(block: re.Match[str]) -> str:
        language, file, code = block.groups()
        if language == "console":
            return f"```console\n{_run_console(code, folder)}```"
        if file:
            (folder / file).write_text(code, "utf-8")
        elif language == "python":
            exec(compile(code, str(page), "exec"), names)
        return block.group()

    with chdir(folder), _imports_from(folder):
        return _BLOCK.sub(run, text)


@contextmanager
def _imports_from(folder: Path) -> Iterator[None]:
    """Files that a page wrote are modules, as they are for a user beside them."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            if (folder / f"{name}.py").exists():
                del sys.modules[name]


def make_tables(folder: Path) -> None:
    """Write the tables of the tutorial into a folder."""
    (script,) = (
        code for _, file, code in _BLOCK.findall(TUTORIAL.read_text("utf-8")) if file == TABLES
    )
    (folder / TABLES).write_text(script, "utf-8")
    _in_shell(f"python {TABLES}", folder)


def _run_console(code: str, folder: Path) -> str:
    """The block again, each command with what it prints."""
    commands = _commands(code)
    status, lines = 0, []
    for command, after in zip(commands, [*commands[1:], None], strict=True):
        printed, status = _in_shell(command.text, folder, status)
        if status and (after is None or after.text != "echo $?"):
            raise RuntimeError(f"exit code {status}: $ {command.text}\n{printed}")
        lines += ["$ " + command.text.replace("\n", "\n> ")]
        is_right = _says(command.printed, printed)
        lines += [command.printed if is_right else _shortened(printed, command.printed)]
    return "".join(f"{part}\n" for part in lines if part)


def _commands(code: str) -> list[Command]:
    commands = []
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        typed, printed = re.fullmatch(r"(.*(?:\n> .*)*)\n?((?:.*\n?)*)", part).groups()
        commands.append(Command(typed.replace("\n> ", "\n"), printed.rstrip("\n")))
    return commands


def _in_shell(text: str, folder: Path, status_before: int = 0) -> tuple[str, int]:
    """What a reader sees, and the exit code."""
    here = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",  # notes come where a terminal shows them
    }
    done = subprocess.run(
        ["bash", "-c", f"(exit {status_before})\n{text}"],
        cwd=folder, env=environment, timeout=_PATIENCE, text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout, done.returncode


def _says(page: str, printed: str) -> bool:
    """Whether a page is right about what a command prints."""
    pattern = "".join(
        "(?:.*\n)*?" if line == _LEFT_OUT else f"{re.escape(line)}\n" for line in _compared(page)
    )
    return bool(re.fullmatch(pattern, "".join(f"{line}\n" for line in _compared(printed))))


def _compared(text: str) -> list[str]:
    """Lines that are not blank, numbers cut to four decimals: more are the machine's."""
    cut = re.sub(r"(\.\d{4})\d+", r"\1", text)
    return [line.rstrip() for line in cut.splitlines() if line.strip()]


def _shortened(printed: str, page: str) -> str:
    """What a command prints, with as many lines left out in one place as the page leaves out."""
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    shown = page.splitlines()
    if shown.count(_LEFT_OUT) == 1:
        before = shown.index(_LEFT_OUT)
        after = len(shown) - before - 1
        lines = [*lines[:before], _LEFT_OUT, *lines[len(lines) - after :]]
    return "\n".join(lines)


def _main() -> None:
    for page in [DOCS / name for name in sys.argv[1:]] or GUIDES:
        with tempfile.TemporaryDirectory() as folder:
            make_tables(Path(folder))
            page.write_text(refreshed(page, Path(folder)), "utf-8")


if __name__ == "__main__":
    _main()
