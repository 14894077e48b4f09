"""An experiment as data: what a TOML file of this folder may say.

Every key is checked, and a mistake is told by file and key. The table ``[quick]`` holds what a
quick version changes; it may change any other key.
"""

import difflib
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, ValidationError

from fedsparse.errors import OptionError
from fedsparse.files import check_ends
from fedsparse.research.experiments.experiment_tables import EXPERIMENTS

NAMES = EXPERIMENTS
"""The paper's experiments, in its order."""

Seed = Annotated[int, Field(ge=0)]


class _Table(BaseModel):
    """A TOML table in which a misspelt key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(_Table):
    """Which rows, and which client holds them."""

    source: Literal["simulation_1", "simulation_2", "e2006", "rcv1", "mnist"]
    options: dict[str, int | float] = {}
    """Passed to a simulation."""
    rows: PositiveInt | None = None
    """Use only so many rows of a real set, drawn by the seed; all by default."""
    clients: PositiveInt = 100
    categories: PositiveInt = 10
    """Clusters of text; digits of MNIST."""
    parts: PositiveInt = 20
    """Parts each category is cut into; a client takes two."""


class GridSettings(_Table):
    """The search for each algorithm's best K and γ: on the first seed, every setting in full."""

    local_steps: Annotated[list[PositiveInt], Field(min_length=1)]
    step_sizes: Annotated[list[PositiveFloat], Field(min_length=1)]


class ClaimSettings(_Table):
    """What the paper says of this experiment."""

    rounds: dict[Literal["Fed-HT", "FedIter-HT"], PositiveInt] = {}
    """Rounds an algorithm needs for what Distributed-IHT reaches in ``baseline_rounds``."""
    baseline_rounds: PositiveInt = 100
    speedup: PositiveFloat | None = None
    """How many times sooner both are there in time, with a delay per round and a time per step."""
    fewer_rounds: bool = False
    """Fed-HT and FedIter-HT need fewer rounds for what Distributed-IHT reaches."""
    lowest: Literal["FedIter-HT"] | None = None
    """The algorithm that ends lowest."""
    samples_mean: float | None = None
    """Rows per client: mean."""
    samples_sd: float | None = None
    """Rows per client: standard deviation."""


class ExperimentSettings(_Table):
    """One experiment."""

    name: str
    title: str
    loss: Literal["squared", "logistic", "softmax"]
    l2: Annotated[float, Field(ge=0)] = 0.0
    sparsity: PositiveInt
    rounds: PositiveInt
    seeds: Annotated[list[Seed], Field(min_length=1)]
    adaptive_local_steps: PositiveInt = 10
    """K of Fed-HT and FedIter-HT with the adaptive server step and automatic γ."""
    data: DataSettings
    grid: GridSettings
    claims: ClaimSettings = ClaimSettings()


def read_settings(name: str, *, quick: bool = False) -> ExperimentSettings:
    """Settings of one of the paper's experiments, or of a TOML file of one's own.

    Parameters
    ----------
    name
        One of `NAMES`, or the path of a file that ends in ``.toml``.
    quick
        Apply the file's ``[quick]`` table.

    Examples
    --------
    >>> read_settings("rcv1").sparsity
    200
    >>> read_settings("rvc1")
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: there is no experiment "rvc1"; did you mean "rcv1"?
    """
    if name.endswith(".toml"):
        return parse_settings(_text_of(Path(name)), name, quick=quick)
    check_name(name, NAMES)
    file = resources.files("fedsparse.research.experiments").joinpath(f"{name}.toml")
    return parse_settings(file.read_text("utf-8"), f"{name}.toml", quick=quick)


def check_name(name: str, names: Sequence[str]) -> None:
    """Refuse an unknown name, and suggest the nearest.

    Examples
    --------
    >>> check_name("mnist", NAMES)
    """
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    advice = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(names)}"
    raise OptionError(f'there is no experiment "{name}"; {advice}')


def parse_settings(text: str, file: str, *, quick: bool = False) -> ExperimentSettings:
    """Settings from the text of a TOML file; a mistake names the file and the key.

    Examples
    --------
    >>> parse_settings("rounds = 0", "mine.toml")
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: mine.toml: key "name" is missing (and 7 more mistakes)
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"{file} is not TOML: {error}") from None
    changes = content.pop("quick", {})
    settings = _validated(content, file)
    return _validated(_merged(content, changes), f"{file}, [quick]") if quick else settings


def _text_of(path: Path) -> str:
    check_ends(path)
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not a text file in UTF-8") from None


def _validated(content: dict[str, Any], file: str) -> ExperimentSettings:
    try:
        return ExperimentSettings.model_validate(content)
    except ValidationError as error:
        first, *others = error.errors()
        key = ".".join(str(part) for part in first["loc"])
        more = f" (and {len(others)} more mistake{'s'[: len(others) > 1]})" if others else ""
        raise OptionError(f'{file}: key "{key}" {_complaint(first)}{more}') from None


def _complaint(error: Any) -> str:
    if error["type"] == "missing":
        return "is missing"
    if error["type"] == "extra_forbidden":
        return "is unknown; remove it or correct its spelling"
    wish = error["msg"].replace("Input should be", "must be")
    return f"is {error['input']!r}, but {wish[0].lower()}{wish[1:]}"


def _merged(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The content with changes, table by table."""
    result = dict(content)
    for key, value in changes.items():
        old = result.get(key)
        is_table = isinstance(old, dict) and isinstance(value, dict)
        result[key] = _merged(result[key], value) if is_table else value
    return result
