"""The runs that a server on this machine knows: which are under way, and how one is ended."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from fedsparse.errors import FederationError, OptionError
from fedsparse.federation.flower_internals import Control, KnownRun, reason_of
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.logs import own_part
from fedsparse.federation.server.control_secret import secret_of
from fedsparse.federation.server.lock import LOCK, is_locked

OUT = "out"
"""The setting that says into which folder a run writes."""

_END_SECONDS = 60.0
_PAUSE = 0.2


@dataclass(frozen=True)
class Address:
    """The server on this machine."""

    port: int
    is_insecure: bool = False

    def __str__(self) -> str:
        return f"127.0.0.1:{self.port}"


def control_of(folder: ServerFolder, address: Address) -> Control:
    """A connection to the server that was started with a folder."""
    if address.is_insecure:
        return Control(str(address), None)
    return Control(str(address), folder.authority, secret_of(folder))


@contextmanager
def reached(folder: ServerFolder, address: Address) -> Iterator[Control]:
    """The same, and a FederationError if nobody answers there."""
    try:
        with control_of(folder, address) as control:
            yield control
    except httpx.HTTPStatusError as error:
        raise FederationError(
            f"the server at {address} refuses ({reason_of(error)}); restart it, so that it is of "
            "the release that is installed"
        ) from None
    except httpx.HTTPError as error:
        raise FederationError(
            f"no server answers at {address} ({reason_of(error)}); start it with 'fedsparse "
            "federation server', or name its --port, and --insecure if it was started so"
        ) from None


def under_way(control: Control) -> list[KnownRun]:
    """Runs that have not ended, the last first."""
    return [run for run in control.runs() if not run.is_finished]


def folder_of(run: KnownRun) -> Path | None:
    """Where a run writes; None if `fedsparse federation train` did not start it.

    Examples
    --------
    >>> import datetime
    >>> folder_of(KnownRun(7, datetime.datetime.now(), {"out": "trained"})).name
    'trained'
    """
    return Path(run.told[OUT]) if run.told.get(OUT) else None


def run_writing_to(control: Control, results: Path) -> KnownRun | None:
    """The run under way that writes into a folder, if there is one."""
    for run in under_way(control):
        folder = folder_of(run)
        if folder is not None and folder.resolve() == results.resolve():
            return run
    return None


def chosen_run(control: Control, number: int | None) -> KnownRun:
    """The run under way that has a number, or the only one."""
    runs = under_way(control)
    if number is not None:
        for run in runs:
            if run.number == number:
                return run
        raise OptionError(
            f"run {number} is not under way; 'fedsparse federation status' names those that are"
        )
    if not runs:
        raise OptionError("no run is under way; there is nothing to stop")
    if len(runs) > 1:
        numbers = ", ".join(str(run.number) for run in runs)
        raise OptionError(f"{len(runs)} runs are under way; name one of them: {numbers}")
    return runs[0]


def stop(control: Control, run: KnownRun) -> None:
    """Have the server end a run, and see its process end; what it had reached is kept."""
    with suppress(httpx.HTTPStatusError):  # it may have ended by itself a moment ago
        control.stop(run.number)
    folder = folder_of(run)
    if folder is not None:
        wait_until_free(folder)
    is_writing = folder is not None and is_locked(folder / LOCK)
    if is_writing or run.number in [own.number for own in under_way(control)]:
        raise FederationError(
            f"run {run.number} was told to stop and has not ended after {_END_SECONDS:.0f} s; "
            "restart the server"
        )


def wait_until_free(results: Path) -> None:
    """Wait a while until no process writes into a folder any more."""
    end = time.monotonic() + _END_SECONDS
    while is_locked(results / LOCK) and time.monotonic() < end:
        time.sleep(_PAUSE)


def last_line(control: Control, run: KnownRun) -> str | None:
    """What a run said last; None if it has said nothing yet."""
    said = [own_part(line) for line in control.log_so_far(run.number)]
    return next((line for line in reversed(said) if line is not None), None)
