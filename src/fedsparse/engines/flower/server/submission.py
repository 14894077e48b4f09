"""Handing a training run to the server, and following it to its end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsparse.engines.flower.folder import ServerFolder
from fedsparse.engines.flower.logs import LINE
from fedsparse.engines.flower.server.lock import LOCK, is_locked
from fedsparse.engines.flower.server.superlink import flower_environment
from fedsparse.engines.flower.server.training import Training
from fedsparse.errors import FederationError
from fedsparse.files import ready_folder, write_atomically
from fedsparse.version import __version__

FLOWER_LOG = "flower.log"
"""All that Flower said during the run, in the folder of the results."""

_CONNECTION = "fedsparse"
_STARTED = re.compile(r"started run (\d+)")
_STOP_SECONDS = 60.0
_STOP_PAUSE = 0.2


@dataclass(frozen=True)
class Address:
    """The server on this machine."""

    port: int
    is_insecure: bool = False


def submit(
    training: Training, folder: ServerFolder, address: Address, tell: Callable[[str], None]
) -> None:
    """Start a run, tell its progress line by line, and raise what went wrong.

    Interrupting it stops the run; its checkpoint stays.
    """
    results = training.folder()
    assert results is not None
    ready_folder(results)
    outcome = results / "outcome.json"
    outcome.unlink(missing_ok=True)
    environment = os.environ | flower_environment(folder.flower)
    _write_connection(folder, address)
    app = write_app(folder.flower / "app", training)
    command = [_program("flwr"), "run", str(app), _CONNECTION, "--stream"]
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # an interrupt is ours to deal with
    )
    try:
        run = _follow(process, results / FLOWER_LOG, tell)
    except _InterruptedError as interrupt:
        _stop(interrupt.run, environment, results / LOCK)
        tell("The run is stopped. What it had reached is kept: go on with --resume.")
        raise KeyboardInterrupt from None
    finally:
        process.kill()
        process.wait()
    _raise_error(outcome, results / FLOWER_LOG, run)


def write_app(folder: Path, training: Training) -> Path:
    """Write the Flower app of a run: what ``flwr run`` needs, and nothing to execute.

    Examples
    --------
    >>> import tempfile
    >>> training = Training(sparsity=3, sites=2, out="trained")
    >>> app = write_app(Path(tempfile.mkdtemp()) / "app", training)
    >>> print((app / "pyproject.toml").read_text().splitlines()[-1])
    resume = false
    """
    ready_folder(folder)
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
        'serverapp = "fedsparse.engines.flower.app:server"',
        'clientapp = "fedsparse.engines.flower.app:client"',
        "[tool.flwr.app.config]",
        *(f"{name} = {_toml(value)}" for name, value in training.to_run_config().items()),
    ]
    write_atomically(folder / "pyproject.toml", ("\n".join(lines) + "\n").encode())
    return folder


def _toml(value: Any) -> str:
    """A number, truth value or text as TOML writes it; JSON does the same."""
    return json.dumps(value, ensure_ascii=False)


def _write_connection(folder: ServerFolder, address: Address) -> None:
    lines = [f"[superlink.{_CONNECTION}]", f'address = "127.0.0.1:{address.port}"']
    if address.is_insecure:
        lines.append("insecure = true")
    else:
        lines.append(f"root-certificates = {_toml(str(folder.authority.absolute()))}")
    ready_folder(folder.flower)
    write_atomically(folder.flower / "config.toml", ("\n".join(lines) + "\n").encode())


def _follow(process: "subprocess.Popen[str]", log: Path, tell: Callable[[str], None]) -> str | None:
    """Tell our lines, keep all of them; gives the run's number."""
    run = None
    assert process.stdout is not None
    with open(log, "w", encoding="utf-8") as file, _ends_as_interrupts():
        try:
            for line in process.stdout:
                file.write(line)
                if (started := _STARTED.search(line)) is not None:
                    run = started[1]
                elif (ours := LINE.search(line)) is not None:
                    tell(line[ours.start() :].rstrip())
        except KeyboardInterrupt:
            raise _InterruptedError(run) from None
    return run


@contextmanager
def _ends_as_interrupts() -> Iterator[None]:
    """A closed terminal or a request to end must not leave a run behind that nobody follows."""
    numbers = (signal.SIGHUP, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class _InterruptedError(Exception):
    """A person stopped a run, which may have a number already."""

    def __init__(self, run: str | None) -> None:
        super().__init__(run)
        self.run = run


def _stop(run: str | None, environment: dict[str, str], lock: Path) -> None:
    """Have the server stop a run, and see it end; another interrupt must not leave it half done."""
    if run is None:
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command = [_program("flwr"), "stop", run, _CONNECTION]
        subprocess.run(
            command, env=environment, capture_output=True, timeout=_STOP_SECONDS, check=False
        )
        end = time.monotonic() + _STOP_SECONDS
        while is_locked(lock) and time.monotonic() < end:
            time.sleep(_STOP_PAUSE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        signal.signal(signal.SIGINT, before)


def _raise_error(outcome: Path, log: Path, run: str | None) -> None:
    if outcome.exists():
        told = json.loads(outcome.read_text(encoding="utf-8"))
        if "error" in told:
            raise FederationError(told["message"])
        return
    if run is None:
        raise FederationError(f"the run could not be started; is the server up? See {log}")
    raise FederationError(
        f"run {run} ended without a result; {log} says why. Go on from its checkpoint with --resume"
    )


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))
