"""Writes docs/reference/command-line.md: what ``fedsparse COMMAND --help`` says, as tables.

Run by ``make docs``; a test fails if the page is not what this script would write.
"""

import re
import typing
from collections.abc import Iterator
from pathlib import Path

import click
import typer

from fedsparse.cli import app

PAGE = Path(__file__).parent / "reference" / "command-line.md"
OPENING = """# Command line

Written by `docs/command_line.py` from the same texts as `fedsparse COMMAND --help`.

A command that cannot go on says why in one line and exits with code 2. Ctrl-C exits with 130.
Files are written whole or not at all.
"""


def page() -> str:
    """The whole page."""
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    return "\n".join([OPENING, *(_section(*named) for named in _commands(group))])


def _commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Names and commands, those of groups in the place of the group."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"fedsparse {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = [_row(command, parameter, context) for parameter in command.params]
    table = ["| | | values | default |", "| --- | --- | --- | --- |", *rows] if rows else []
    return "\n".join(
        [f"## fedsparse {name}\n", f"{_text(command)}\n", f"```text\n{usage}\n```\n", *table, ""]
    )


def _text(command: click.Command) -> str:
    return "\n\n".join(" ".join(part.split()) for part in (command.help or "").split("\n\n"))


def _row(command: click.Command, parameter: click.Parameter, context: click.Context) -> str:
    cells = [
        _names(parameter),
        _help(command, parameter),
        _values(parameter),
        _default(parameter, context),
    ]
    return f"| {' | '.join(cells)} |"


def _names(parameter: click.Parameter) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if isinstance(parameter, click.Argument):
        names = [parameter.make_metavar(click.Context(click.Command("")))]
    return ", ".join(f"`{name}`" for name in names)


def _values(parameter: click.Parameter) -> str:
    if isinstance(parameter.type, click.Choice):
        return ", ".join(f"`{choice}`" for choice in parameter.type.choices)
    if getattr(parameter, "is_flag", False):
        return ""
    kind = ", ".join(parameter.type.name.removesuffix(" range").split("|"))
    limit = getattr(parameter.type, "min", None)
    if limit is None:
        return kind
    return f"{kind}, {'above' if parameter.type.min_open else 'at least'} {limit:g}"


def _default(parameter: click.Parameter, context: click.Context) -> str:
    default = parameter.get_default(context)
    if parameter.required:
        return "required"
    if default in (None, "") or (default is False and not parameter.secondary_opts):
        return ""
    if isinstance(default, bool):
        return f"`{(parameter.opts if default else parameter.secondary_opts)[0]}`"
    return f"`{default}`"


def _help(command: click.Command, parameter: click.Parameter) -> str:
    """What the function that runs the command says of a parameter."""
    assert command.callback is not None
    hints = typing.get_type_hints(command.callback, include_extras=True)
    metadata = getattr(hints.get(str(parameter.name)), "__metadata__", ())
    text = next((str(each.help) for each in metadata if each.help), "")
    return re.sub(r"([*_|])", r"\\\1", text)  # as letters, not as marks


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
