"""What a question is about: which rows, how they are scaled, which loss."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property

from fedsparse.problem.losses import Loss
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import Scaling


@dataclass(frozen=True, eq=False)
class Lens:
    """How clients look at their rows when they answer.

    A client is told a lens once and keeps what it made ready for it; afterwards the digest stands
    for it.

    Attributes
    ----------
    loss
        What is minimized.
    rows
        Which rows.
    scaling
        How features are filled and scaled; None: they are taken as they are.
    is_pooled
        All rows as those of one client, for comparison. Only rows in one place can be.

    Examples
    --------
    >>> from fedsparse.problem.losses import Logistic
    >>> Lens(Logistic()).digest == Lens(Logistic()).digest != Lens(Logistic(l2=1.0)).digest
    True
    """

    loss: Loss
    rows: Rows = field(default_factory=Rows)
    scaling: Scaling | None = None
    is_pooled: bool = False

    @cached_property
    def digest(self) -> str:
        """Stands for the lens: two with the same digest show the same."""
        told = [repr(self.loss), self.rows.to_json(), self.is_pooled]
        own = self.scaling
        if own is not None:
            told += [own.intercept.hex(), own.offset.hex(), own.fill is not None]
        digest = hashlib.blake2b(json.dumps(told).encode(), digest_size=16)
        if own is not None:
            for vector in (own.mean, own.scale, *(() if own.fill is None else (own.fill,))):
                digest.update((vector + 0.0).tobytes())  # −0.0 does not survive the wire
        return digest.hexdigest()
