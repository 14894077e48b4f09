"""What a figure is drawn from: problem, method, round, bytes, objective.

A pooled solver has one line, without round and bytes.
"""

from pathlib import Path

import polars as pl

from fedsparse.engines.history import Record

SCHEMA = {
    "problem": pl.String,
    "method": pl.String,
    "round": pl.Int64,
    "bytes": pl.Int64,
    "objective": pl.Float64,
}
WRITERS = {".parquet": pl.DataFrame.write_parquet, ".csv": pl.DataFrame.write_csv}


class HistoryFile:
    """Lines of all runs so far, written anew after each: a long benchmark may be interrupted."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[tuple[str, str, int | None, int | None, float]] = []

    def add_run(self, problem: str, method: str, records: tuple[Record, ...]) -> None:
        """A line per round."""
        for record in records:
            total = record.bytes_down + record.bytes_up
            self._lines.append((problem, method, record.round, total, record.objective))
        self._write()

    def add_pooled(self, problem: str, solver: str, objective: float) -> None:
        """The line of a pooled solver."""
        self._lines.append((problem, solver, None, None, objective))
        self._write()

    def _write(self) -> None:
        if self._path is not None:
            table = pl.DataFrame(self._lines, schema=SCHEMA, orient="row")
            WRITERS[self._path.suffix](table, self._path)
