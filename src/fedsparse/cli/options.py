"""Options that several commands share, and options made of a specification's fields."""

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import click
import typer
from pydantic.fields import FieldInfo

from fedsparse.modelling.settings import Settings, Shown, alternatives, as_option, bare, bound

TableFiles = Annotated[
    list[Path],
    typer.Argument(
        help="A table (CSV, TSV, Parquet, Arrow, LIBSVM), or one file per site.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(help="Column to predict; LIBSVM files name it themselves.", show_default=False),
]
SiteColumn = Annotated[
    str | None,
    typer.Option(
        help="Column that says which site a row belongs to; 'qid' for one LIBSVM file. "
        "Leave it out if every file is a site.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of tables.")]


class WithoutFields:
    """Fields of a specification that a command does not offer."""

    def __init__(self, *names: str) -> None:
        self.names = names


def offers_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the specifications that it takes.

    A parameter whose type is a `Settings` is replaced by an option for each of its fields; the
    command is called with the settings that these make. ``Annotated[Kind, WithoutFields("seed")]``
    leaves fields out. Values that are not given are left to the specification.

    Examples
    --------
    >>> from fedsparse.modelling.specification import TableSpecification
    >>> @offers_settings
    ... def show(table: TableSpecification, json: Json = False) -> None:
    ...     print(table.minimum_rows, table.drop)
    >>> list(inspect.signature(show).parameters)[:4]
    ['drop', 'category', 'keep', 'task']
    >>> show(drop=["name"], minimum_rows=3)
    3 ('name',)
    """
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    offered = {each.name: own for each in parameters if (own := _offer(each.annotation))}

    @functools.wraps(command)
    def with_settings(**values: Any) -> None:
        for name, (kind, fields) in offered.items():
            given = {field: values.pop(field, None) for field in fields}
            given = {field: value for field, value in given.items() if value is not None}
            values[name] = kind.checked(given, as_option)
        command(**values)

    expanded = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in parameters
        for option in (_options(offered[each.name][1]) if each.name in offered else [each])
    ]
    with_settings.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    with_settings.__annotations__ = {each.name: each.annotation for each in expanded}
    return with_settings


Offer = tuple[type[Settings], dict[str, FieldInfo]]
"""A specification, and which of its fields are offered."""


def _offer(annotation: Any) -> Offer | None:
    kind = bare(annotation)
    if not (isinstance(kind, type) and issubclass(kind, Settings)):
        return None
    metadata = getattr(annotation, "__metadata__", ())
    without = {name for each in metadata if isinstance(each, WithoutFields) for name in each.names}
    fields = kind.model_fields
    return kind, {name: fields[name] for name in fields if name not in without}


def _options(fields: dict[str, FieldInfo]) -> Iterator[inspect.Parameter]:
    """A parameter for each field, as typer reads them."""
    for name, field in fields.items():
        default = inspect.Parameter.empty if field.is_required() else field.default
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None if default == () else default,
            annotation=_annotation(name, field),
        )


def _annotation(name: str, field: FieldInfo) -> Any:
    kinds = alternatives(field)
    shown = next((each for each in field.metadata if isinstance(each, Shown)), Shown())
    names = [] if shown.also is None else [as_option(name), shown.also]
    told: dict[str, Any] = {"help": field.description, "rich_help_panel": shown.panel}
    if get_origin(bare(kinds[0])) is tuple:
        return Annotated[list[str] | None, typer.Option(*names, **told, show_default=False)]
    if bare(kinds[0]) is bool:
        return Annotated[bool, typer.Option(*names, **told)]
    click_type = _click_type(kinds)
    # click would write a type's name in capitals, and words are to be typed as they are
    metavar = click_type.name if isinstance(click_type, _NumberOrWord) else None
    return Annotated[
        str | None, typer.Option(*names, **told, click_type=click_type, metavar=metavar)
    ]


def _click_type(kinds: list[Any]) -> "click.ParamType[Any]":
    """How click reads a field and shows what it may be; upper bounds are told when passed."""
    if len(kinds) > 1:
        return _NumberOrWord([word for kind in kinds for word in get_args(bare(kind))])
    kind = kinds[0]
    lowest, above = bound(kind, "ge"), bound(kind, "gt")
    if bare(kind) is int:
        return click.IntRange(min=None if lowest is None else int(lowest))
    if bare(kind) is float:
        return click.FloatRange(min=lowest if above is None else above, min_open=above is not None)
    if get_origin(bare(kind)) is Literal:
        return click.Choice(get_args(bare(kind)))
    return click.STRING


class _NumberOrWord(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A whole number or one of a few words; the specification says which are right."""

    def __init__(self, words: list[str]) -> None:
        self.name = "|".join(["integer", *words])

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | str:
        """A number where the text is one."""
        try:
            return int(value)
        except ValueError:
            return str(value)
