"""What a site's administrator allows, enforced on the site."""

import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedsparse.codec.requests import REQUESTS
from fedsparse.errors import OptionError
from fedsparse.requests import Curvature, Describe, Evaluate, LocalSteps, Request

Count = Annotated[int, Field(ge=1)]


class Policy(BaseModel):
    """What a site answers; everything has a safe default.

    Examples
    --------
    >>> policy = Policy(smallest_samples=10)
    >>> import numpy as np
    >>> policy.objection(LocalSteps(np.zeros(3), steps=1, step_size=1.0, batch_size=2), rows=50)
    'mini-batches of 2 rows reveal fewer than the 10 its policy allows; use batches of at least 10'
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: tuple[str, ...] = tuple(REQUESTS)
    """Names of the requests that are answered."""
    smallest_samples: Count = 5
    """Fewest rows that an answer may speak of: with fewer the site stays away."""
    smallest_support: Count = 1
    """Fewest features that curvature may be asked on."""
    most_rounds: Count | None = None
    """Requests answered in one run, those for a description or the objective not counted."""

    def objection(self, request: Request, rows: int) -> str | None:
        """Why a request is not answered on so many rows, or None."""
        name = type(request).__name__
        if name not in self.requests:
            return f"its policy does not allow {name}; use a method that does without"
        if rows < self.smallest_samples:
            return (
                f"it has fewer rows than the {self.smallest_samples} its policy asks for; "
                "train without it"
            )
        return self._objection_to_detail(request)

    def is_round(self, request: Request) -> bool:
        """Whether a request counts towards ``most_rounds``."""
        return not isinstance(request, (Describe, Evaluate))

    def _objection_to_detail(self, request: Request) -> str | None:
        fewest = self.smallest_samples
        if isinstance(request, LocalSteps) and 0 < (request.batch_size or 0) < fewest:
            return (
                f"mini-batches of {request.batch_size} rows reveal fewer than the {fewest} its "
                f"policy allows; use batches of at least {fewest}"
            )
        if isinstance(request, Curvature) and request.support.size < self.smallest_support:
            return (
                f"curvature on {request.support.size} features reveals more than its policy "
                f"allows; ask on at least {self.smallest_support}"
            )
        return None


def read_policy(path: Path) -> Policy:
    r"""Read a policy file in TOML.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "policy.toml"
    >>> _ = path.write_text("smallest_samples = 20\nmost_rounds = 100")
    >>> read_policy(path).most_rounds
    100
    """
    try:
        policy = Policy.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} is not a TOML file ({error}); mend it") from None
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        problem = first["msg"].lower()
        raise OptionError(f"{path}: {name}: {problem}; see the example of a policy") from None
    unknown = sorted(set(policy.requests) - set(REQUESTS))
    if unknown:
        raise OptionError(
            f"{path}: requests names {unknown[0]!r}; the requests are {', '.join(REQUESTS)}"
        )
    return policy
