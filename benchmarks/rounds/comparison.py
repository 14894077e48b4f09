"""Run a case: every method and solver, one row each."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import fedsparse as fs
from benchmarks.rounds import methods
from benchmarks.rounds.cases import Case
from benchmarks.rounds.child import find_in_time
from benchmarks.rounds.history import HistoryFile
from benchmarks.rounds.methods import BASELINE, SPLICING, Entry
from benchmarks.rounds.objective import PooledObjective
from benchmarks.rounds.progress import LiveTable, tell
from benchmarks.rounds.solvers import SOLVERS
from fedsparse.arrays import FloatArray
from fedsparse.engines.history import Record

COLUMNS = ["method", "rounds to goal", "MB to goal", "final f", "rounds", "MB", "seconds"]
WARM_UP_ROUNDS = 2
SAME = 1e-9
NOTHING = "–"


@dataclass(frozen=True)
class Outcome:
    """FedSplice's f, and that of the best pooled solver."""

    case: str
    splicing: float
    solver: str
    pooled: float

    @property
    def ratio(self) -> float:
        """Below one where FedSplice is better."""
        return self.splicing / self.pooled


def compare(case: Case, limit: float, history: HistoryFile) -> Outcome | None:
    """Print a row for everyone; an outcome if FedSplice and a pooled solver came to an end."""
    return _Comparison(case, limit, history).finish()


class _Comparison:
    """A case in progress."""

    def __init__(self, case: Case, limit: float, history: HistoryFile) -> None:
        self._case, self._limit, self._history = case, limit, history
        self._goal: float | None = None
        self._pooled: PooledObjective | None = None
        if methods.has_curvature(case.problem):
            self._pooled = PooledObjective.of(case.problem.data, case.problem.loss)

    def finish(self) -> Outcome | None:
        first = [entry for entry in self._case.entries if entry.label.startswith(BASELINE)]
        results = {entry.label: self._run(entry) for entry in first}
        ends = [result.objective for result in results.values() if not result.diverged]
        self._goal = min(ends, default=None)
        self._table = LiveTable(self._title(), self._columns())
        for entry in first:
            self._show(entry, results[entry.label])
        for entry in self._case.entries[len(first) :]:
            results[entry.label] = self._run(entry)
            self._show(entry, results[entry.label])
        if self._case.note:
            self._table.note("", self._case.note)
        pooled = self._solve_pooled()
        if not (pooled and SPLICING in results):
            return None
        best = min(pooled, key=pooled.__getitem__)
        outcome = Outcome(self._case.name, results[SPLICING].objective, best, pooled[best])
        print(f"\nf of {SPLICING} / f of {best}: {outcome.ratio:.6f}", flush=True)
        return outcome

    def _run(self, entry: Entry) -> fs.Result:
        tell(f"{self._case.name}: {entry.label}")
        methods.run(entry, self._case.problem, WARM_UP_ROUNDS)  # compiles, which is not timed
        result = methods.run(entry, self._case.problem)
        if self._pooled:
            here = self._pooled.value(result.coef)
            assert abs(here - result.objective) <= SAME * max(1.0, abs(here)), "f is not the same"
        self._history.add_run(self._case.name, entry.label, result.records)
        return result

    def _show(self, entry: Entry, result: fs.Result) -> None:
        last = result.records[-1]
        there = None if self._goal is None else _first_at(result.records, self._goal)
        to_goal = (NOTHING, NOTHING) if there is None else (f"{there.round}", _megabytes(there))
        label = entry.label + (" (diverged)" if result.diverged else "")
        end = (f"{result.objective:.8g}", f"{last.round}", _megabytes(last), f"{last.seconds:.2f}")
        self._table.add([label, *to_goal, *end, *self._recovered(result.coef)])

    def _solve_pooled(self) -> dict[str, float]:
        """f of every solver that finished."""
        if not (self._case.solvers and self._pooled):
            return {}
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            self._pooled.save(Path(folder))
            for name in self._case.solvers:
                objective = self._solve(name, Path(folder))
                if objective is not None:
                    found[name] = objective
                    self._history.add_pooled(self._case.name, name, objective)
        return found

    def _solve(self, name: str, folder: Path) -> float | None:
        pooled = self._pooled
        assert pooled is not None
        label = f"pooled: {name}"
        obstacle = SOLVERS[name].obstacle(pooled)
        if obstacle:
            self._table.note(label, obstacle)
            return None
        tell(f"{self._case.name}: {name}")
        found = find_in_time(name, folder, self._case.problem.sparsity, self._limit)
        if isinstance(found, str):
            self._table.note(label, found)
            return None
        x = pooled.refit(found.support)
        objective = pooled.value(x)
        nothing = [NOTHING, NOTHING]
        numbers = [*nothing, f"{objective:.8g}", *nothing, f"{found.seconds:.2f}"]
        self._table.add([label, *numbers, *self._recovered(x)])
        return objective

    def _title(self) -> str:
        problem = self._case.problem
        data = problem.data
        shape = f"{len(data)} clients, {data.samples:,} × {data.width:,}, τ = {problem.sparsity}"
        goal = "" if self._goal is None else f"; goal: f ≤ {self._goal:.8g}"
        return f"{problem.title}: {shape}{goal}"

    def _columns(self) -> list[str]:
        return COLUMNS if self._case.truth is None else [*COLUMNS, "true features"]

    def _recovered(self, x: FloatArray) -> list[str]:
        """How many of the true features x uses."""
        truth = self._case.truth
        if truth is None:
            return []
        return [f"{np.count_nonzero(x[truth])} of {truth.size}"]


def _first_at(records: tuple[Record, ...], goal: float) -> Record | None:
    """The first record that is at the goal."""
    return next((record for record in records if record.objective <= goal), None)


def _megabytes(record: Record) -> str:
    """Bytes of all clients, both ways."""
    return f"{(record.bytes_down + record.bytes_up) / 1e6:,.2f}"
