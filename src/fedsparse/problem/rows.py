"""Which rows a question is about: drawn by each client from the seed and its own rows.

Folds, halves and held-out rows are cuts. A cut needs nothing but a client's rows and the seed, so
that every client makes it by itself and no row number travels. Rows are drawn by what is in them:
who chooses the seed and does not know a row cannot tell which part it is in. If the draw were by
row numbers, sums over many parts would be equations that give every row away.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsparse.arrays import AnyArray, BoolArray, Int64Array, UInt64Array
from fedsparse.errors import DataError, OptionError
from fedsparse.problem.federated import FederatedData
from fedsparse.problem.row_keys import mixed


@dataclass(frozen=True)
class PartOfRows:
    """One of several equal parts of every client's rows, or all the others.

    Attributes
    ----------
    number, of
        Which part, from 0, of how many.
    seed
        Fixes the draw.
    by_class
        Spread the rows of every class evenly, too.
    by_event
        The same of rows with an event and without, by the signs of their targets.
    is_left_out
        All rows but those of the part.

    Examples
    --------
    >>> data = FederatedData.from_clients([([[3.0], [1.0], [4.0], [2.0]], [0, 0, 1, 1])])
    >>> is_meant = PartOfRows(0, of=2, by_class=True).mask(data.targets, data.row_keys)
    >>> data.targets[is_meant].tolist()
    [0, 1]
    """

    number: int
    of: int
    seed: int = 0
    by_class: bool = False
    is_left_out: bool = False
    by_event: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.number < self.of:
            raise OptionError(f"part {self.number} of {self.of} does not exist; parts count from 0")

    def mask(self, targets: AnyArray, keys: UInt64Array) -> BoolArray:
        """Which of a client's rows are meant.

        Parameters
        ----------
        targets
            Of the rows.
        keys
            What is in them, in short: `FederatedData.row_keys`.
        """
        rows = targets.size
        drawn = mixed(keys ^ mixed(np.uint64(self.seed)))
        order = np.argsort(drawn, kind="stable")
        # Clients begin at different parts: small ones would all miss the last otherwise.
        begin = int(mixed(drawn[order[0]])) % self.of if rows else 0
        if self.by_class or self.by_event:
            kinds = targets > 0 if self.by_event else targets
            order = order[np.argsort(kinds[order], kind="stable")]
        parts = np.empty(rows, dtype=np.int64)
        parts[order] = (np.arange(rows) + begin) % self.of
        return np.asarray((parts == self.number) != self.is_left_out)


@dataclass(frozen=True)
class Without:
    """All rows but those of one client.

    Examples
    --------
    >>> Without(2).client
    2
    """

    client: int


Cut = PartOfRows | Without


@dataclass(frozen=True)
class Rows:
    """Rows that are left after some cuts, each of what the one before left.

    Examples
    --------
    >>> Z = [[3.0], [1.0], [4.0], [2.0]]
    >>> data = FederatedData.from_clients([(Z, [0, 0, 1, 1]), (Z[:2], [0, 1])])
    >>> training = Rows().but_part(0, of=2, by_class=True)
    >>> len(training.of(data)[0]), training.of(data)[0].samples
    (2, 3)
    >>> training.without(1).of(data)[0].samples
    2
    """

    cuts: tuple[Cut, ...] = ()

    def part(
        self,
        number: int,
        *,
        of: int,
        seed: int = 0,
        by_class: bool = False,
        by_event: bool = False,
    ) -> "Rows":
        """One of several parts of these rows."""
        return Rows((*self.cuts, PartOfRows(number, of, seed, by_class, by_event=by_event)))

    def but_part(
        self,
        number: int,
        *,
        of: int,
        seed: int = 0,
        by_class: bool = False,
        by_event: bool = False,
    ) -> "Rows":
        """These rows without one of several parts."""
        left_out = PartOfRows(number, of, seed, by_class, is_left_out=True, by_event=by_event)
        return Rows((*self.cuts, left_out))

    def without(self, client: int) -> "Rows":
        """These rows without those of the client at a place in the federation."""
        return Rows((*self.cuts, Without(client)))

    def mask(self, data: FederatedData) -> BoolArray:
        """Which rows of some clients are meant."""
        has_parts = any(isinstance(cut, PartOfRows) for cut in self.cuts)
        keys = data.row_keys if has_parts else np.zeros(data.samples, dtype=np.uint64)
        masks = [
            self._mask(data.targets[begin:end], keys[begin:end], int(identity))
            for begin, end, identity in zip(
                data.pointer[:-1], data.pointer[1:], data.identities, strict=True
            )
        ]
        return np.concatenate(masks)

    def of(self, data: FederatedData) -> tuple[FederatedData, Int64Array]:
        """The rows, and the places of the clients that have some of them."""
        if not self.cuts:
            return data, np.arange(len(data))
        mask = self.mask(data)
        counts = np.add.reduceat(mask.astype(np.int64), data.pointer[:-1])
        return data.where(mask), np.flatnonzero(counts)

    def _mask(self, targets: AnyArray, keys: UInt64Array, identity: int) -> BoolArray:
        left = np.arange(targets.size)
        for cut in self.cuts:
            if isinstance(cut, PartOfRows):
                left = left[cut.mask(targets[left], keys[left])]
            elif cut.client == identity:
                left = left[:0]
        mask = np.zeros(targets.size, dtype=bool)
        mask[left] = True
        return mask

    def to_json(self) -> list[dict[str, Any]]:
        """The cuts as JSON holds them.

        Examples
        --------
        >>> Rows().without(3).to_json()
        [{'without': 3}]
        """
        return [
            {"without": cut.client}
            if isinstance(cut, Without)
            else {
                "part": [cut.number, cut.of, cut.seed],
                "by_class": cut.by_class,
                "by_event": cut.by_event,
                "is_left_out": cut.is_left_out,
            }
            for cut in self.cuts
        ]

    @classmethod
    def from_json(cls, written: object) -> "Rows":
        """What `to_json` wrote; a DataError if it is malformed.

        Examples
        --------
        >>> rows = Rows().but_part(1, of=5, seed=7).without(3)
        >>> Rows.from_json(rows.to_json()) == rows
        True
        """
        if not isinstance(written, list) or len(written) > _MOST_CUTS:
            raise DataError("it is not said which rows are meant")
        return cls(tuple(_cut(entry) for entry in written))


_MOST_CUTS = 16


def _cut(written: object) -> Cut:
    match written:
        case {"without": int(client), **rest} if not rest and not isinstance(client, bool):
            return Without(client)
        case {
            "part": [int(number), int(of), int(seed)],
            "by_class": bool(by_class),
            "by_event": bool(by_event),
            "is_left_out": bool(is_left_out),
            **rest,
        } if not rest and 0 <= number < of < 2**31 and 0 <= seed < 2**63:
            return PartOfRows(number, of, seed, by_class, is_left_out, by_event)
    raise DataError("it is not said which rows are meant")
