"""Algorithms and losses by name: those of fedsparse, or a class in a user's own file."""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from fedsparse.algorithms import Algorithm, DistributedIHT, FedHT, FedIterHT, FedSplice
from fedsparse.errors import OptionError
from fedsparse.files import check_ends
from fedsparse.modelling.settings import as_option
from fedsparse.problem.losses import LOSSES, Loss, register_loss
from fedsparse.problem.sparsity import TopK

_Base = TypeVar("_Base", Algorithm, Loss)

METHODS: dict[str, type[Algorithm]] = {
    kind.__name__: kind for kind in (FedSplice, FedIterHT, FedHT, DistributedIHT)
}
"""Methods that have a name of their own."""

METHOD_OPTIONS = ("local_steps", "step_size", "batch_size", "weights", "server_step")
"""Settings that are handed to a method, if it has a field of that name."""


def make_algorithm(method: str, options: Mapping[str, Any]) -> Algorithm:
    """An algorithm by its method's name; its sparsity is yet to be replaced.

    Parameters
    ----------
    method
        A name of `METHODS`, ``"module:Class"`` or ``"path/to/file.py:Class"``.
    options
        Values for fields of the class, by name. Those left out have the class's own defaults, only
        ``weights`` is ``"samples"``.

    Raises
    ------
    OptionError
        If there is no such class, it is no algorithm, or it cannot be made of these options.

    Examples
    --------
    >>> make_algorithm("FedIterHT", {"local_steps": 3}).local_steps
    3
    >>> make_algorithm("FedSplice", {"local_steps": 3})
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: --local-steps means nothing with --method FedSplice; leave it out
    """
    kind = method_class(method)
    own = arguments_of(kind)
    if "sparsity" not in own:
        raise OptionError(
            f"--method {method} has no field sparsity, which tells how many features to use; "
            f"make {kind.__name__} a dataclass with one"
        )
    for name in options:
        if name not in own:
            raise OptionError(
                f"{as_option(name)} means nothing with --method {method}; leave it out"
            )
    _check_complete(method, own, options)
    # Rows count the same wherever they lie, as they do if all are in one place.
    defaults = {"weights": "samples"} if "weights" in own else {}
    try:
        return kind(**{"sparsity": TopK(1), **defaults, **options})
    except OptionError:
        raise
    except Exception as error:  # a user's class may raise anything
        raise OptionError(
            f"--method {method} cannot be used, because making a {kind.__name__} fails: "
            f"{_told(error)}; mend the class"
        ) from error


def method_class(method: str) -> type[Algorithm]:
    """The class that a method's name stands for.

    Examples
    --------
    >>> method_class("fedsparse:FedProx").__name__
    'FedProx'
    >>> method_class("Lasso")
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: --method Lasso is unknown; name FedSplice, FedIterHT, FedHT,
    DistributedIHT, or a class of your own as module:Class or file.py:Class
    """
    if method in METHODS:
        return METHODS[method]
    return _class_at("--method", method, Algorithm, "algorithm", METHODS)  # type: ignore[type-abstract]


def loss_class(loss: str) -> type[Loss]:
    """The class that a loss's name stands for; one of one's own is registered.

    Examples
    --------
    >>> loss_class("fedsparse:Poisson").name
    'poisson'
    >>> loss_class("tweedie")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: --loss tweedie is unknown; name squared, logistic, ...
    """
    if loss in LOSSES:
        return LOSSES[loss]
    kind = _class_at("--loss", loss, Loss, "loss", LOSSES)
    if not isinstance(getattr(kind, "name", None), str):
        raise OptionError(f"--loss {loss}: the class has no name; give it one")
    return register_loss(kind)


def _class_at(
    option: str, given: str, base: type[_Base], what: str, known: Mapping[str, object]
) -> type[_Base]:
    """The class at a place, derived from another."""
    place, _, name = given.rpartition(":")
    if not place or not name:
        raise OptionError(
            f"{option} {given} is unknown; name {', '.join(known)}, or a class of your own as "
            "module:Class or file.py:Class"
        )
    found = getattr(_module(option, place), name, None)
    if found is None:
        raise OptionError(f"{option} {given}: {place} has no class {name}; correct its name")
    if not (isinstance(found, type) and issubclass(found, base)):
        raise OptionError(
            f"{option} {given}: {name} is no {what}; derive it from fedsparse.{base.__name__}"
        )
    return found


def arguments_of(kind: type[Algorithm]) -> dict[str, "Field[Any]"]:
    """The fields of an algorithm that can be given when it is made.

    Examples
    --------
    >>> "local_steps" in arguments_of(FedHT), "local_steps" in arguments_of(DistributedIHT)
    (True, False)
    """
    return {field.name: field for field in fields(kind) if field.init}


def located(method: str) -> str:
    """The same method for a process in another folder: paths are made absolute.

    Examples
    --------
    >>> located("FedHT"), located("mine.py:Own") == f"{Path('mine.py').absolute()}:Own"
    ('FedHT', True)
    """
    place, _, name = method.rpartition(":")
    file = _file(place)
    return method if file is None else f"{file.absolute()}:{name}"


def titled(method: str) -> str:
    """A method as a report calls it; in which folder its file lay is nobody's business.

    Examples
    --------
    >>> titled("FedHT"), titled("/home/anna/mine.py:Own")
    ('FedHT', 'Own of mine.py')
    """
    place, _, name = method.rpartition(":")
    return f"{name} of {Path(place).name}" if place else method


def _check_complete(
    method: str, own: Mapping[str, "Field[Any]"], options: Mapping[str, Any]
) -> None:
    """Refuse a class with fields that have neither a value nor a default."""
    for name, field in own.items():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if has_default or name == "sparsity" or name in options:
            continue
        option = as_option(name)
        advice = f"give {option}" if name in METHOD_OPTIONS else "give it a default in the class"
        raise OptionError(f"--method {method} needs a value of {name}; {advice}")


def _file(place: str) -> Path | None:
    """The file that a module is read from by its path; None: Python is to find it."""
    if place.endswith(".py"):
        return Path(place)
    beside = Path(*place.split(".")).with_suffix(".py") if place else Path()
    return beside if beside.is_file() and not _is_installed(place) else None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _module(option: str, place: str) -> ModuleType:
    file = _file(place)
    try:
        return importlib.import_module(place) if file is None else _read(file)
    except (Exception, SystemExit) as error:  # whatever a user's file does when it is run
        raise OptionError(
            f"{option}: {place} cannot be imported: {_told(error)}; mend it or correct its name"
        ) from error


def _read(file: Path) -> ModuleType:
    """A file as a module; the same content is the same module, whoever asks."""
    check_ends(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    name = f"fedsparse_own_{file.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # dataclasses look their module up
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
