"""The model worked out again from a run's transcript, without a site."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from fedsparse.arrays import AnyArray
from fedsparse.engines.conversation import converse
from fedsparse.engines.engine import Ask
from fedsparse.engines.lens import Lens
from fedsparse.errors import CheckpointError
from fedsparse.federation.server.outcome import conversation_of
from fedsparse.federation.server.transcript import (
    TRANSCRIPT,
    SitesEngine,
    TranscribedEngine,
    Transcript,
)
from fedsparse.modelling.building import build_model
from fedsparse.modelling.fitting import loss_of
from fedsparse.modelling.model import Model
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import FitSummary
from fedsparse.tables import Encoding, NumberedEncoding


@dataclass(frozen=True)
class Replayed:
    """What came of a replay.

    Attributes
    ----------
    exchanges
        How many were replayed.
    differing
        What is not the same, bit for bit, in the files of the run; empty if all is.
    """

    exchanges: int
    differing: tuple[str, ...]


def replay(folder: Path) -> Replayed:
    """Work a finished run out again and compare it with its files.

    Parameters
    ----------
    folder
        Of the results.
    """
    with Transcript.open(folder / TRANSCRIPT) as transcript:
        sites = _RecordedSites(transcript)
        engine = TranscribedEngine(sites, transcript)
        specification = FitSpecification.from_flat(transcript.about["options"])
        found = converse(engine, conversation_of(engine, sites.encoding, specification))
        count = transcript.count
    kept = FitSummary.load(folder / "fit.json")
    again = build_model(
        sites.encoding,
        found.fitted,
        {},
        fingerprint="",
        sure=found.sure,
        ratio=found.options.loss.ratio,
        baseline=None if found.survival is None else found.survival.baseline,
    )
    compared = {
        **_of_model(again, Model.load(folder), "model.json"),
        **_of_model(again, kept.model, "fit.json"),
        "choice of the number of features": (found.selection, kept.selection),
        "held-out metrics": (found.evaluation, kept.evaluation),
        "stability": (found.stability, kept.stability),
    }
    return Replayed(count, tuple(name for name, (now, then) in compared.items() if now != then))


def _of_model(again: Model, kept: Model, file: str) -> dict[str, tuple[Any, Any]]:
    """What makes the predictions of a model, twice."""
    parts = {
        "coefficients": "features", "intercepts": "intercepts", "columns": "columns",
        "baseline hazard": "baseline",
    }  # fmt: skip
    return {
        f"{what} in {file}": (getattr(again, name), getattr(kept, name))
        for what, name in parts.items()
    }


class _RecordedSites(SitesEngine):
    """The sites of a transcript, which tell nothing that is not in it."""

    def __init__(self, transcript: Transcript) -> None:
        about = transcript.about
        kind = Encoding if "columns" in about["encoding"] else NumberedEncoding
        self.encoding = kind.model_validate(about["encoding"])
        self._transcript = transcript
        self.lens = Lens(loss_of(self.encoding))
        self.names = tuple(about["sites"])
        self.width = len(self.encoding.feature_names)
        self.is_sparse = not self.encoding.columns
        self.has_holes = bool(about["has_holes"])
        self.can_single_out = bool(about["can_single_out"])

    @property
    def classes(self) -> AnyArray | None:
        """Places of the classes in the encoding, None for regression."""
        classes = self.encoding.classes
        return None if classes is None else np.arange(len(classes))

    def exchange(self, asks: Sequence[Ask]) -> NoReturn:
        """The transcript has ended, and the run had not."""
        raise CheckpointError(
            f"{self._transcript.path} ends after exchange {self._transcript.count}, before the run "
            "did; go on with fedsparse federation train --resume"
        )

    def standing(self) -> Any:
        """Nothing is known of them now."""
        return None

    def recall(self, sites: Any) -> None:
        """How they stood does not matter to the model."""

    def fingerprint(self) -> str:
        """What they told of their tables then."""
        return str(self._transcript.about["tables"])

    def close(self) -> None:
        """There is no connection."""
