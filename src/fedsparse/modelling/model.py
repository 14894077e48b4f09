"""The model as a file that a person can read, loaded without executing anything.

``model.json`` says which columns of a table matter and by how much, on their own scale. Scoring
adds up the features one by one in the order of the file, so it gives the same numbers everywhere.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

import numpy as np
from pydantic import Field
from scipy import sparse
from scipy.special import softmax

from fedsparse.arrays import FloatArray
from fedsparse.errors import DataError
from fedsparse.files import PathLike
from fedsparse.modelling.certainty import Certainty, HowSure
from fedsparse.modelling.intervals import Interval
from fedsparse.modelling.stored import Stored, StoredPart
from fedsparse.problem.federated import Features
from fedsparse.tables.encoding import EncodedColumn, encode_features
from fedsparse.tables.inputs import Roles

if TYPE_CHECKING:
    import polars as pl


RATIOS = {"counts": "rate ratio", "survival": "hazard ratio"}
"""What exp(coefficient) is called, by task, where it is the usual way to tell an effect."""


class Feature(StoredPart):
    """A column of a table that the model uses, or one level of a column of categories."""

    name: str
    """Such as ``age`` or ``ward=surgery``."""
    column: str
    level: str | None = None
    """Category that counts as 1, all others as 0; None for a column of numbers."""
    coefficients: Annotated[tuple[float, ...], Field(min_length=1)]
    """On the column's own scale; one, or one per class if there are more than two."""
    mean: float
    scale: float
    """Standardization that the model was learnt with."""
    certainty: Certainty | None = None
    """How sure the coefficient is; None if that was not worked out."""


class Baseline(StoredPart):
    """Survival of a row of average features: its hazard is constant between two times.

    Examples
    --------
    >>> Baseline(times=(5.0, 10.0), cumulative_hazard=(0.1, 0.3)).at(7.5)
    0.2
    """

    times: tuple[float, ...]
    cumulative_hazard: tuple[float, ...]
    """One for each time."""

    def at(self, time: float) -> float:
        """Cumulative hazard; a DataError if nothing is known of such a time."""
        if not self.times or not 0 <= time <= self.times[-1]:
            last = self.times[-1] if self.times else 0.0
            raise DataError(
                f"nothing is known of survival at {time:g}; ask for times from 0 to {last:g}"
            )
        return float(np.interp(time, (0.0, *self.times), (0.0, *self.cumulative_hazard)))


class HeldOut(StoredPart):
    """How good models like this one are on rows that they had not seen."""

    rows: int
    metrics: dict[str, float | None]
    intervals: dict[str, Interval | None]
    """With 95 %; None of too few rows."""
    no_better_than_guessing: bool


class Model(Stored):
    """A sparse linear model of named columns.

    Examples
    --------
    >>> import polars as pl
    >>> age = Feature(name="age", column="age", coefficients=(0.5,), mean=50.0, scale=9.0)
    >>> model = Model(
    ...     task="regression", target="days", intercepts=(1.0,), features=(age,), settings={},
    ...     columns=(EncodedColumn(name="age", kind="number"),), fingerprint="", versions={})
    >>> model.predict(pl.DataFrame({"age": [60, 70]}), "bari.csv")["predicted days"].to_list()
    [31.0, 36.0]
    """

    format: Literal["fedsparse-model"] = "fedsparse-model"
    task: Literal["regression", "binary", "multiclass", "counts", "survival"]
    target: str
    """Of survival the time."""
    event: str | None = None
    """Of survival: the column that says whether something happened at that time."""
    exposure: str | None = None
    """Of counts: the column that says for how long, or of how many; None: of all rows the same."""
    baseline: Baseline | None = None
    """Of survival, where it is known."""
    link: Literal["identity", "log"] = "identity"
    """Of regression: whether scores are predictions, or their logarithms."""
    classes: tuple[str, ...] | None = None
    """Labels, as text; with two, the coefficients speak for the second."""
    intercepts: tuple[float, ...]
    features: tuple[Feature, ...]
    columns: tuple[EncodedColumn, ...]
    """How the columns of a table become features; none for files of numbered features."""
    settings: dict[str, str]
    fingerprint: str
    """SHA-256 of the data that the model was learnt from."""
    files: tuple[str, ...] = ()
    """SHA-256 of the files that held them."""
    versions: dict[str, str]
    how_sure: HowSure | None = None
    """What the features' certainties are about; None if they were not worked out."""
    held_out: HeldOut | None = None
    """None: that was not measured."""

    @property
    def outcome(self) -> Roles:
        """The columns of what is predicted."""
        return Roles(target=self.target, event=self.event, exposure=self.exposure)

    @property
    def predicted(self) -> str:
        """What is predicted, by the name of its column: of survival the event."""
        return self.target if self.event is None else self.event

    @property
    def most_of_a_class(self) -> int | None:
        """How many features a class has at most, where classes do not share all; else None."""
        used = [[value != 0 for value in feature.coefficients] for feature in self.features]
        if self.task != "multiclass" or all(map(all, used)):
            return None
        return max(map(sum, zip(*used, strict=True)))

    @property
    def predicted_in_words(self) -> str:
        """What is predicted, in words, such as ``relapse = yes``."""
        if self.task == "binary" and self.classes is not None:
            return f"{self.target} = {self.classes[1]}"
        if self.task == "survival":
            return f"{self.event} by {self.target}"
        return self.target if self.exposure is None else f"{self.target} per {self.exposure}"

    def features_of(self, frame: "pl.DataFrame", where: str) -> FloatArray:
        """The model's features, in its order, of the rows of a table.

        Parameters
        ----------
        frame
            A table with at least the model's columns.
        where
            The file, for messages.
        """
        if not self.columns and self.features:
            raise DataError(
                f"the model was learnt from numbered features, {where} is a table; give a LIBSVM "
                "file"
            )
        encoded = encode_features(frame, self.columns, where)
        names = [name for column in self.columns for name in column.feature_names]
        return encoded[:, [names.index(feature.name) for feature in self.features]]

    def features_of_numbered(self, rows: Features, where: str) -> FloatArray:
        """The model's features, in its order, of rows whose column j holds the feature named j."""
        if self.columns:
            raise DataError(
                f"the model was learnt from a table, {where} has numbered features; give a table "
                f"with the columns {', '.join(column.name for column in self.columns[:3])}, …"
            )
        chosen = np.array([int(feature.name) for feature in self.features], dtype=np.int64)
        present = chosen < rows.shape[1]  # a file is as wide as its last non-zero
        values = np.zeros((rows.shape[0], chosen.size))
        own = rows[:, chosen[present]]
        values[:, present] = own.toarray() if isinstance(own, sparse.csr_array) else own
        return values

    def scores(self, features: FloatArray) -> FloatArray:
        """Intercepts plus coefficients times features: a column per class, or one.

        Feature after feature in the model's order: the sum does not depend on any library.
        """
        scores = np.tile(np.array(self.intercepts), (features.shape[0], 1))
        for place, feature in enumerate(self.features):
            scores += features[:, place, None] * np.array(feature.coefficients)
        return scores

    def predict(self, frame: "pl.DataFrame", where: str) -> "pl.DataFrame":
        """Predictions for the rows of a table; see `predictions`."""
        return self.predictions(self.features_of(frame, where))

    def predictions(self, features: FloatArray, at: Sequence[float] = ()) -> "pl.DataFrame":
        """The target of rows given by `features_of`, with what is likely of it.

        Of classes these are probabilities. Of survival it is the hazard in proportion to that of a
        row of average features, and the probability of no event at some times.

        Parameters
        ----------
        features
            One row per row.
        at
            Times of survival; by default one or two in the middle of what is known.
        """
        import polars as pl

        scores = self.scores(features)
        if self.task == "counts":
            unit = "" if self.exposure is None else f" per {self.exposure}"
            return pl.DataFrame({f"predicted {self.target}{unit}": np.exp(scores[:, 0])})
        if self.task == "survival":
            return pl.DataFrame(
                {"relative hazard": np.exp(scores[:, 0]), **self._survival(scores, at)}
            )
        if self.classes is None:
            found = np.exp(scores[:, 0]) if self.link == "log" else scores[:, 0]
            return pl.DataFrame({f"predicted {self.target}": found})
        if self.task == "binary":
            scores = np.column_stack([np.zeros(scores.shape[0]), scores[:, 0]])
        probabilities = softmax(scores, axis=1)
        chosen = [self.classes[place] for place in scores.argmax(axis=1)]
        columns = {
            f"probability of {label}": probabilities[:, place]
            for place, label in enumerate(self.classes)
        }
        return pl.DataFrame({f"predicted {self.target}": chosen, **columns})

    def _survival(self, scores: FloatArray, at: Sequence[float]) -> dict[str, FloatArray]:
        """Probability of no event, by the column's name."""
        known = self.baseline
        if known is None:
            if at:
                raise DataError("the model knows no survival at a time; leave --at out")
            return {}
        count = len(known.times)
        usual = known.times[count // 3 :: max(count // 3, 1)][:2]
        return {
            f"survival at {time:g}": np.exp(-known.at(time) * np.exp(scores[:, 0]))
            for time in at or usual
        }

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Read a model file, or that of a fit's folder, checking that it is unchanged."""
        file = Path(path)
        file = file / "model.json" if file.is_dir() else file
        return cls.read(file, "a model; `fedsparse fit` writes them")
