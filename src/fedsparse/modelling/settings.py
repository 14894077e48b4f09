"""Settings that are declared, explained and checked in one place.

A subclass of `Settings` lists its fields with types, bounds and descriptions. The command line
makes options of them (`fedsparse.cli.options`), Flower's run configuration holds them as a flat
mapping, and a wrong value is told in a sentence that is made of the declaration.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, Union, get_args, get_origin

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo

from fedsparse.errors import OptionError
from fedsparse.tables.sentences import nearest

Flat = str | int | float | bool
"""What a run configuration may hold."""


@dataclass(frozen=True)
class Shown:
    """How the command line offers a field, where that does not follow from its name.

    Attributes
    ----------
    also
        A second name of the option.
    panel
        Heading in the help under which it stands.
    """

    also: str | None = None
    panel: str | None = None


class SettingError(OptionError):
    """One setting is wrong.

    Attributes
    ----------
    name
        The field's.
    problem
        The rest of the sentence.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name
        self.problem = problem


class Settings(BaseModel):
    """Base of frozen settings; None is what was not given.

    Examples
    --------
    >>> from pydantic import Field
    >>> class Stay(Settings):
    ...     nights: Annotated[int, Field(ge=1, description="How long.")] = 1
    ...     meal: Literal["lunch", "dinner"] | None = None
    >>> Stay(nights=2).to_flat()
    {'nights': 2}
    >>> Stay(nights=0)
    Traceback (most recent call last):
        ...
    fedsparse.modelling.settings.SettingError: nights must be a whole number of at least 1, not 0
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    if not TYPE_CHECKING:  # which is to see the fields as arguments

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise _in_words(type(self), error, values) from None

    @model_validator(mode="before")
    @classmethod
    def _without_arrays(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _plain(value) for name, value in values.items()}

    @classmethod
    def checked(cls, values: Mapping[str, Any], spelled: Callable[[str], str]) -> Self:
        """Settings from a user, who is told of mistakes by the names that he or she used.

        Parameters
        ----------
        values
            By the fields' names.
        spelled
            Gives the user's name of a field.

        Examples
        --------
        >>> Settings.checked({"sise": 3}, spelled=as_option)
        Traceback (most recent call last):
            ...
        fedsparse.errors.OptionError: --sise is no setting; leave it out
        """
        try:
            return cls(**values)
        except SettingError as error:
            raise OptionError(f"{spelled(error.name)} {error.problem}") from None

    def to_flat(self) -> dict[str, Flat]:
        """The settings by hyphenated names; lists as JSON, and nothing of what was not given."""
        return {
            _hyphenated(name): json.dumps(value) if isinstance(value, tuple) else value
            for name, value in self
            if value is not None
        }

    @classmethod
    def from_flat(cls, flat: Mapping[str, Any]) -> Self:
        """Read what `to_flat` gives; an OptionError names what is wrong."""
        names = {name: name.replace("-", "_") for name in flat}
        values = {
            own: _listed(name, flat[name]) if _is_list(cls, own) else flat[name]
            for name, own in names.items()
        }
        return cls.checked(values, _hyphenated)


def as_option(name: str) -> str:
    """A field's name on the command line.

    Examples
    --------
    >>> as_option("minimum_rows")
    '--minimum-rows'
    """
    return f"--{_hyphenated(name)}"


def alternatives(field: FieldInfo) -> list[Any]:
    """The types that a field may have, None not among them, each with its bounds.

    Examples
    --------
    >>> alternatives(FieldInfo(annotation=int | Literal["cv"] | None, default=None))
    [<class 'int'>, typing.Literal['cv']]
    """
    bounds = tuple(each for each in field.metadata if not isinstance(each, Shown))
    kinds = [each for each in _parts(field.annotation) if each is not NoneType]
    return [Annotated[each, *bounds] for each in kinds] if bounds else kinds


def bound(kind: Any, name: Literal["ge", "gt", "le"]) -> float | None:
    """A bound of a type by pydantic's name, None if it has no such bound.

    Examples
    --------
    >>> from pydantic import Field
    >>> bound(Annotated[int, Field(ge=1)], "ge"), bound(int, "ge")
    (1, None)
    """
    return next((getattr(each, name) for each in _bounds(kind) if hasattr(each, name)), None)


def bare(kind: Any) -> Any:
    """A type without its bounds.

    Examples
    --------
    >>> bare(Annotated[int, "in days"])
    <class 'int'>
    """
    return bare(get_args(kind)[0]) if get_origin(kind) is Annotated else kind


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _bounds(kind: Any) -> list[Any]:
    if get_origin(kind) is not Annotated:
        return []
    inner, *metadata = get_args(kind)
    own = [each.metadata if isinstance(each, FieldInfo) else [each] for each in metadata]
    return [*_bounds(inner), *(bound for bounds in own for bound in bounds)]


def _plain(value: Any) -> Any:
    """Numbers and lists of NumPy as Python's own, which are the ones that strict models take."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return tuple(_plain(each) for each in value)
    return value


def _listed(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        raise OptionError(
            f"{name} must be a list in JSON, such as '[\"age\"]', not {value!r}"
        ) from None


def _is_list(model: type[Settings], name: str) -> bool:
    field = model.model_fields.get(name)
    return field is not None and any(
        get_origin(bare(kind)) is tuple for kind in alternatives(field)
    )


def _hyphenated(name: str) -> str:
    return name.replace("_", "-")


def _in_words(
    model: type[Settings], error: ValidationError, values: Mapping[str, Any]
) -> OptionError:
    """The first thing that is wrong, as a sentence."""
    first = error.errors()[0]
    if not first["loc"]:
        return OptionError(first["msg"].removeprefix("Value error, "))
    name = str(first["loc"][0])
    if name not in model.model_fields:
        near = nearest(name, model.model_fields)
        advice = "leave it out" if near is None else f"did you mean {near}?"
        return SettingError(name, f"is no setting; {advice}")
    wanted = [_words(kind) for kind in alternatives(model.model_fields[name])]
    needed = _either([word for words in wanted for word in words])
    if name not in values:
        return SettingError(name, f"is missing; it must be {needed}")
    return SettingError(name, f"must be {needed}, not {values[name]!r}")


def _words(kind: Any) -> list[str]:
    """What a value of a type is called."""
    base = bare(kind)
    if get_origin(base) is Literal:
        return [f'"{word}"' for word in get_args(base)]
    if get_origin(base) is tuple:
        return [f"a list, each {_either(_words(get_args(base)[0]))}"]
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return [f"{names[base]}{_range(kind)}"]


def _range(kind: Any) -> str:
    lowest, above, highest = (bound(kind, name) for name in ("ge", "gt", "le"))
    if above is not None:
        return f" above {above}"
    if highest is not None:
        return f" from {lowest} to {highest}"
    return "" if lowest is None else f" of at least {lowest}"


def _either(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
