"""Handing a run to the server, and following it to its end."""

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from fedsparse.errors import FederationError, OptionError
from fedsparse.federation.flower_internals import Control, reason_of
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.logs import own_part, plain
from fedsparse.federation.server.lock import LOCK, is_locked
from fedsparse.federation.server.outcome import OUTCOME
from fedsparse.federation.server.runs import (
    OUT,
    Address,
    control_of,
    run_writing_to,
    stop,
    wait_until_free,
)
from fedsparse.federation.server.training import SitesRun
from fedsparse.files import ready_results_folder
from fedsparse.version import __version__

FLOWER_LOG = "flower.log"
"""All that Flower said during the run, in the folder of the results."""

_LATE = 60.0
"""Seconds without a word after which a run is late; Flower gives its program about as long."""

_IS_LATE = (
    "Note: the server has not begun the run yet. If its machine is overloaded, Flower starts the "
    "program anew again and again; see what the server says and what else runs there."
)


def submit(
    task: SitesRun,
    folder: ServerFolder,
    address: Address,
    tell: Callable[[str], None],
    *,
    resume: bool = False,
) -> None:
    """Start a run, tell its progress line by line, and raise what went wrong.

    One that resumes first waits for the run that is still writing into its folder, if there is one,
    and begins only if that ended unfinished. Interrupting it stops the run; its transcript stays.
    """
    if not task.open_sums:
        if address.is_insecure:
            raise OptionError(
                "with --insecure sites have no keys to hide their answers by; say --open-sums, "
                "too, or do without --insecure"
            )
        task = task.model_copy(update={"roster": str(folder.roster.absolute())})
    results = task.folder()
    assert results is not None
    if ready_results_folder(results):
        tell(f"Note: others may look into {results}; keep them out with 'chmod 700'.")
    # A closed terminal or a request to end must not leave a run behind that nobody follows.
    with control_of(folder, address) as control, _on_ends(signal.default_int_handler):
        try:
            if resume and _has_followed_another(control, results, tell):
                return
            run = _start(control, task, results, resume=resume)
            _follow(control, run, results, tell)
        except KeyboardInterrupt:
            _stop(control, results)
            tell(f"The run is stopped. {task.once_more}.")
            raise
        if not _is_finished(results):
            reason = _why_unfinished(control, run, results / FLOWER_LOG)
            raise FederationError(f"{reason}. {task.once_more}")


def project_of(task: SitesRun) -> str:
    """The Flower app of a run as ``pyproject.toml``: its settings, and nothing to execute.

    It goes to the server as it is and is never written to a file, so that runs started at the same
    time cannot mix their settings.

    Examples
    --------
    >>> from fedsparse.federation.server.training import DryRun
    >>> print(project_of(DryRun(sites=2, out="inspected")).splitlines()[-1])
    dry-run = true
    """
    lines = [
        "[project]",
        'name = "fedsparse-federation"',
        f'version = "{__version__}"',
        'description = "Learn a sparse model from sites that keep their rows"',
        'license = "Apache-2.0"',
        "dependencies = []",
        "[tool.flwr.app]",
        'publisher = "fedsparse"',
        "[tool.flwr.app.components]",
        'serverapp = "fedsparse.federation.app:server"',
        'clientapp = "fedsparse.federation.app:client"',
        "[tool.flwr.app.config]",
        *(f"{name} = {_toml(value)}" for name, value in task.to_run_config().items()),
    ]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A number, truth value or text as TOML writes it; JSON does the same."""
    return json.dumps(value, ensure_ascii=False)


def _has_followed_another(control: Control, results: Path, tell: Callable[[str], None]) -> bool:
    """Follow the run that already writes into a folder; whether it is finished now."""
    with _named_as_start():
        run = run_writing_to(control, results)
    if run is None:
        return False
    tell(f"Run {run.number} is still writing to {results}, with the options it was given.")
    _follow(control, run.number, results, tell)
    if _is_finished(results):
        return True
    tell(f"Run {run.number} ended unfinished; going on from its transcript.")
    return False


def _start(control: Control, task: SitesRun, results: Path, *, resume: bool) -> int:
    with _named_as_start():
        if resume:  # a run that has just ended may take a little longer to let go
            wait_until_free(results)
        if is_locked(results / LOCK) or run_writing_to(control, results) is not None:
            raise FederationError(
                f"another run is still writing to {results}; follow it with --resume, end it with "
                "'fedsparse federation stop', or choose another folder with --out"
            )
        (results / OUTCOME).unlink(missing_ok=True)
        return control.start(project_of(task), {OUT: str(results)})


@contextmanager
def _named_as_start() -> Iterator[None]:
    """Say what could not be done when the server cannot be reached."""
    try:
        yield
    except httpx.HTTPError as error:
        asked = "is the server up?"
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            asked = "another server listens there; give this one's --port, or start it with another"
        raise FederationError(
            f"the run could not be started; {asked} ({reason_of(error)})"
        ) from None


def _follow(control: Control, run: int, results: Path, tell: Callable[[str], None]) -> None:
    """Tell our lines and keep all of them, until the run or its server ends."""
    with open(results / FLOWER_LOG, "w", encoding="utf-8") as file, _noted_if_late(tell) as begun:
        try:
            for line in control.log(run):
                begun()
                print(plain(line), file=file, flush=True)
                if (ours := own_part(line)) is not None:
                    tell(ours)
        except httpx.HTTPError as error:
            print(f"the server is gone: {reason_of(error)}", file=file)


@contextmanager
def _noted_if_late(tell: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Say so if a run is silent for long; what is given is to be called once it is not."""
    late = threading.Timer(_LATE, tell, [_IS_LATE])
    late.daemon = True
    late.start()
    try:
        yield late.cancel
    finally:
        late.cancel()


@contextmanager
def _on_ends(handler: Any) -> Iterator[None]:
    """Deal with whatever asks this process to end in one way, for a while."""
    numbers = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
    before = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, own in zip(numbers, before, strict=True):
            signal.signal(number, own)


def _stop(control: Control, results: Path) -> None:
    """Stop what writes into a folder; another interrupt must not leave it half done."""
    with _on_ends(signal.SIG_IGN):
        try:
            run = run_writing_to(control, results)
            if run is not None:
                stop(control, run)
        except httpx.HTTPError as error:
            raise FederationError(
                f"the run could not be stopped ({reason_of(error)}); restart the server"
            ) from None


def _is_finished(results: Path) -> bool:
    """Whether a run that has ended left a result; raises the error that it left instead."""
    outcome = results / OUTCOME
    if not outcome.exists():
        return False
    told = json.loads(outcome.read_text(encoding="utf-8"))
    if "error" in told:
        raise FederationError(told["message"])
    return True


def _why_unfinished(control: Control, number: int, log: Path) -> str:
    """Why there is no result, in a sentence."""
    is_stopped = False
    try:
        is_stopped = any(run.is_stopped for run in control.runs() if run.number == number)
    except httpx.HTTPError:
        pass
    if is_stopped:
        return f"run {number} was stopped"
    return f"run {number} ended without a result; {log} says why"
