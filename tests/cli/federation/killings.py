"""Killing the processes of a federation while it trains, and going on."""

import subprocess
import sys
import time
from dataclasses import dataclass

from fedsparse.federation.server.transcript import TRANSCRIPT


@dataclass(frozen=True)
class Kill:
    """Who is killed, and when.

    Attributes
    ----------
    victim
        A site, ``"train"`` (the command), ``"server"``, or ``"serverapp"`` (what trains there).
    answers
        Exchanges to wait for before.
    seconds
        To wait after them.
    """

    victim: str
    answers: int
    seconds: float = 0.0


def start_or_resume(federation, out, **options):
    """Begin a run, or go on with it if it got as far as a transcript."""
    more = {"resume": True} if (federation.root / out / TRANSCRIPT).exists() else {}
    waiting = {"sites": 5, "if_absent": "wait", "round_seconds": 10}
    return federation.train(out=out, **options, **waiting, **more)


def trained_through(kills, federation, tables, out, **options):
    """Train while processes are killed; gives the run that came to its end."""
    run = start_or_resume(federation, out, **options)
    for kill in kills:
        run.until_answers(kill.answers)
        time.sleep(kill.seconds)
        if kill.victim in tables:  # it comes back by itself, and is waited for
            federation.kill(kill.victim)
            federation.start_site(kill.victim, tables[kill.victim])
            continue
        if kill.victim == "train":
            run.kill()
        elif kill.victim == "server":
            federation.kill("server")
            assert run.finish() == 2, run.text
            federation.start_server()
        else:
            federation.kill_serverapp()
            if _is_following(run):  # the command goes on from the transcript by itself
                continue
            assert run.finish() == 2, run.text
        run = start_or_resume(federation, out, **options)
    assert run.finish() == 0, run.text
    return run


def _is_following(run):
    """Whether a command shows a run that another one began."""
    return "is still writing to" in run.text and "ended unfinished" not in run.text


def assert_replayed(run):
    """Replay needs no site, and agrees with the files of a run."""
    done = subprocess.run(
        [sys.executable, "-m", "fedsparse", "federation", "replay", run.out],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the same, bit for bit" in done.stdout.replace("\n", " ")
