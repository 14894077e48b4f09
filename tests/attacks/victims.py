"""What attacks share: a site with secrets, and a server that may ask it anything."""

import numpy as np
import polars as pl

import fedsparse as fs
from fedsparse.engines.lens import Lens
from fedsparse.federation.payloads import (
    Answered,
    Asks,
    Refused,
    Setup,
    digest_of,
    from_bytes,
    lens_to_bytes,
    to_bytes,
)
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.problem.scaling import Scaling
from fedsparse.requests.wire.answer_bytes import decode_answer
from fedsparse.requests.wire.request_bytes import encode_request

TARGET = "outcome"


class NotToldError(Exception):
    """The site did not tell."""


def secrets(rows, width, seed=0):
    """Rows of a table and two classes that depend on them."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((rows, width))
    return Z, (Z[:, 0] + random.standard_normal(rows) > 0).astype(int)


def agreement(width, **changes):
    """Columns of numbers and a target of numbers, as a server says that all agreed on."""
    columns = [{"name": f"gene {place}", "kind": "number"} for place in range(width)]
    return {"columns": columns, "target": TARGET, "task": "regression"} | changes


def site_with(rows, targets, categories=(), **policy):
    columns = {f"gene {place}": own for place, own in enumerate(rows.T)}
    frame = pl.DataFrame({**columns, TARGET: targets})
    return Site(
        "bari", NamedTable(frame, TARGET, categories), Policy(open_sums=True, **policy), threads=1
    )


class Server:
    """A server that asks whatever it likes, and counts."""

    def __init__(self, site, width, loss, *, intercept=1.0):
        self._site, self.requests = site, 0
        is_numbers = isinstance(loss, fs.SquaredError)
        classes = {} if is_numbers else {"task": "classification", "classes": ["0", "1"]}
        self._agreed = agreement(width, **classes)
        self.lens = Lens(loss, scaling=Scaling(np.zeros(width), np.ones(width), intercept))
        self._shape = (width + (intercept != 0.0),)

    def agree(self, **changes):
        """Tell the site of another agreement."""
        self._agreed = self._agreed | changes

    def ask(self, request):
        """The parts of an answer by name; a `NotToldError` if there is none."""
        self.requests += 1
        setup = Setup(self._agreed, 0, ("bari",)).to_bytes()
        message = Asks(
            digest_of(setup),
            ((self.lens.digest, encode_request(request)),),
            setup,
            (lens_to_bytes(self.lens),),
        )
        said = from_bytes(self._site.reply(to_bytes(message), 1))
        if isinstance(said, Refused):
            raise NotToldError(said.reason)
        assert isinstance(said, Answered)
        if said.answers[0] is None:
            raise NotToldError
        fields = decode_answer(said.answers[0][0], request, self._shape)
        return {
            name: own.total(np.ones(1)) if hasattr(own, "total") else float(own[0])
            for name, own in fields.items()
        }


def rows_recovered(found, secret, within):
    """How many of the secret rows are among those found."""
    return sum(any(np.abs(own - row).max() < within for own in found) for row in secret)
