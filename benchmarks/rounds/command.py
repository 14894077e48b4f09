"""``python -m benchmarks rounds [--only NAME …] [--methods WORD …] [--seed 0] [--out FILE]``."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.rounds.cases import CASES
from benchmarks.rounds.comparison import Outcome, compare
from benchmarks.rounds.history import WRITERS, HistoryFile
from benchmarks.rounds.methods import SPLICING
from benchmarks.rounds.progress import tell
from benchmarks.tables import show
from fedsparse.errors import DataError

ENDINGS = " or ".join(WRITERS)


def main(*arguments: str) -> None:
    options = _parser().parse_args(arguments)
    history = HistoryFile(options.out)
    outcomes = []
    for name in options.only:
        tell(f"{name}: making the problem")
        try:
            for case in CASES[name](options.seed):
                chosen = case.only(options.methods) if options.methods else case
                outcomes.append(compare(chosen, options.limit, history))
        except DataError as error:
            print(f"\n{name}: left out. {error}", flush=True)
    _summarize([outcome for outcome in outcomes if outcome is not None])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rounds", description=__doc__)
    names = list(CASES)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument(
        "--methods", nargs="+", metavar="WORD", help="only those with it in a label"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a pooled solver")
    parser.add_argument(
        "--out", type=_history_path, help=f"history of all runs, a file in {ENDINGS}"
    )
    return parser


def _history_path(text: str) -> Path:
    path = Path(text)
    if path.suffix not in WRITERS:
        raise argparse.ArgumentTypeError(f"{text} must end in {ENDINGS}")
    return path


def _summarize(outcomes: Sequence[Outcome]) -> None:
    if outcomes:
        show(
            f"{SPLICING} against the best pooled solver",
            ["problem", f"f of {SPLICING}", "best pooled solver", "its f", "ratio"],
            [
                (
                    outcome.case,
                    f"{outcome.splicing:.8g}",
                    outcome.solver,
                    f"{outcome.pooled:.8g}",
                    f"{outcome.ratio:.6f}",
                )
                for outcome in outcomes
            ],
        )
