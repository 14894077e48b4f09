"""Files of rows of many clients, read where an engine's workers are."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsparse.arrays import AnyArray
from fedsparse.engines.ray_worker import Shard
from fedsparse.errors import DataError
from fedsparse.problem.federated import FederatedData
from fedsparse.tables.inputs import read_table, stem_of
from fedsparse.tables.numbered import query_numbers
from fedsparse.tables.svmlight import parse_svmlight
from fedsparse.tables.values import number_matrix, number_names


@dataclass(frozen=True)
class TableShards:
    r"""Reads shards that are tables of numbers: Parquet, Arrow or CSV.

    Parameters
    ----------
    target
        The column to be learnt.
    site
        The column that says whose a row is; None: a file is one client, named after it.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "north.csv"
    >>> _ = path.write_text("age,dose,clinic\n61,0.5,Bari\n47,1.5,Oslo\n")
    >>> shard = TableShards("dose", site="clinic")(path)
    >>> shard.data.names, shard.columns
    (('Bari', 'Oslo'), ('age',))
    """

    target: str
    site: str | None = None

    def __call__(self, path: Path) -> Shard:
        """Read one: every other column is a feature, what is missing is to be filled by a lens."""
        frame = read_table(path)
        roles = [name for name in (self.target, self.site) if name is not None]
        missing = [name for name in roles if name not in frame.columns]
        if missing:
            raise DataError(f"it has no column {missing[0]!r}; name one that all shards have")
        rest = frame.drop(roles)
        columns = tuple(rest.columns)
        words = sorted(set(columns) - set(number_names(rest)))
        if words:
            raise DataError(f"column {words[0]!r} is not of numbers; encode it, or leave it out")
        sites = _one(path, frame.height) if self.site is None else frame[self.site].to_numpy()
        data = FederatedData.from_table(
            number_matrix(rest, columns), frame[self.target].to_numpy(), sites, has_holes=True
        )
        return Shard(data, columns)


@dataclass(frozen=True)
class LibsvmShards:
    r"""Reads shards that are LIBSVM files, plain or compressed.

    Parameters
    ----------
    width
        Number of features d: a file does not tell.
    by_query
        Query numbers say whose a row is; else a file is one client, named after it.
    zero_based
        Whether the first feature has number 0 rather than 1.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "north.libsvm"
    >>> _ = path.write_text("+1 qid:7 1:0.5\n-1 qid:8 2:1\n")
    >>> LibsvmShards(width=3, by_query=True)(path).data
    FederatedData(2 clients, 2 rows, 3 features, CSR float64)
    """

    width: int
    by_query: bool = False
    zero_based: bool = False

    def __call__(self, path: Path) -> Shard:
        """Read one."""
        features, targets = parse_svmlight(path, self.width, self.zero_based)
        sites = query_numbers(path) if self.by_query else _one(path, targets.size)
        return Shard(FederatedData.from_table(features, targets, sites))


def _one(path: Path, rows: int) -> AnyArray:
    """All rows are of one client."""
    return np.full(rows, stem_of(path))
