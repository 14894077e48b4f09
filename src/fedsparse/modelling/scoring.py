"""Rows of files as a saved model sees them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.arrays import AnyArray, FloatArray, Int64Array
from fedsparse.errors import OptionError
from fedsparse.files import PathLike
from fedsparse.modelling.metrics import Judged
from fedsparse.modelling.model import Model
from fedsparse.modelling.outcome_metrics import AnyJudged, JudgedCounts, JudgedSurvival
from fedsparse.problem.losses import as_loss
from fedsparse.requests.judged_outcomes import judged_counts, judged_survival
from fedsparse.tables.encoding import encode_labels, encode_numbers, encode_outcome
from fedsparse.tables.inputs import ALL_ROWS, Roles, are_libsvm, as_files, read_table, stem_of
from fedsparse.tables.sentences import counted
from fedsparse.tables.values import labels

if TYPE_CHECKING:
    import polars as pl

_TARGET = "target"
_NOBODY = 1e-9


@dataclass(frozen=True, eq=False)
class FileRows:
    """The rows of a file.

    Attributes
    ----------
    features
        The model's features, in its order.
    frame
        The table; of a LIBSVM file, its target alone.
    unused
        Columns that the model does not use.
    filled
        How many missing values of each row were filled with means.
    is_known
        Whether the model was learnt from this very file.
    """

    features: FloatArray
    frame: "pl.DataFrame"
    unused: tuple[str, ...]
    filled: Int64Array
    is_known: bool

    @property
    def filled_in_words(self) -> str | None:
        """That missing values were filled, and how many; None if there were none."""
        is_filled = self.filled > 0
        if not is_filled.any():
            return None
        return (
            f"{counted(int(self.filled.sum()), 'missing value')} in "
            f"{counted(int(is_filled.sum()), 'row')} filled with means, as the model learnt to"
        )


def read_rows(model: Model, path: Path) -> FileRows:
    """Read a file of the kind that the model was learnt from.

    Parameters
    ----------
    model
        Says which columns are needed.
    path
        A table, or a LIBSVM file.
    """
    if are_libsvm([path]):
        return _read_libsvm(model, path)
    frame = read_table(path)
    features = model.features_of(frame, path.name)
    used = {*model.outcome.outcome.values(), *(column.name for column in model.columns)}
    return FileRows(
        features,
        frame,
        tuple(name for name in frame.columns if name not in used),
        _filled(model, frame),
        file_digest(path) in model.files,
    )


def file_digest(path: PathLike) -> str:
    """SHA-256 of a file.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "empty.csv"
    >>> _ = path.write_bytes(b"")
    >>> file_digest(path)[:8]
    'e3b0c442'
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sums_by_site(
    model: Model, paths: Sequence[Path], site: str | None, on_note: Callable[[str], None]
) -> dict[str, AnyJudged]:
    """How predictions compare with the targets of files, site by site.

    Parameters
    ----------
    model
        That predicts.
    paths
        One file, or one per site.
    site
        Column of a single file that names the sites.
    on_note
        Called with what a reader should know.
    """
    files = as_files(paths, Roles(site=site))
    if site is not None and are_libsvm(files):
        raise OptionError(f'--site "{site}" is for tables; give one LIBSVM file per site')
    sums: dict[str, AnyJudged] = {}
    for path in files:
        rows = read_rows(model, path)
        if rows.is_known:
            on_note(f"the model was learnt from {path.name}: metrics on it flatter the model")
        filled = rows.filled_in_words
        if filled is not None:
            on_note(f"{path.name}: {filled}")
        targets = targets_of(model, rows.frame, path.name)
        weights = exposures_of(model, rows.frame, path.name)
        scores = model.scores(rows.features)
        whole = ALL_ROWS if len(files) == 1 else stem_of(path)
        for name, own in _sites(rows.frame, site, whole, path.name).items():
            own_weights = None if weights is None else weights[own]
            sums[name] = judged_scores(model, targets[own], scores[own], own_weights)
    if model.task == "survival" and not reduce(add, sums.values()).metrics()["events"]:
        on_note("no row has an event, so that nothing can be said of how good the model is")
    return sums


def _read_libsvm(model: Model, path: Path) -> FileRows:
    import polars as pl

    from fedsparse.tables.svmlight import load_svmlight

    # Counted from 0, a feature's column is its number in the file.
    features, targets = load_svmlight(path, zero_based=True)
    frame = pl.DataFrame({_TARGET: targets})
    own = model.features_of_numbered(features, path.name)
    nothing = np.zeros(own.shape[0], dtype=np.int64)
    return FileRows(own, frame, (), nothing, file_digest(path) in model.files)


def _filled(model: Model, frame: "pl.DataFrame") -> Int64Array:
    """Missing values of the model's columns, row by row."""
    counts = np.zeros(frame.height, dtype=np.int64)
    for column in model.columns:
        counts += labels(frame.get_column(column.name)).is_null().to_numpy()
    return counts


def targets_of(model: Model, frame: "pl.DataFrame", where: str) -> AnyArray:
    """What a model should predict of a table's rows: see `fedsparse.tables.Encoding.targets`."""
    if model.classes is not None:
        return encode_labels(frame, model.target, model.classes, where)
    return encode_outcome(frame, model.outcome, model.task, where)


def exposures_of(model: Model, frame: "pl.DataFrame", where: str) -> FloatArray | None:
    """For how long, or of how many, a table's rows were counted; None: of all the same."""
    return None if model.exposure is None else encode_numbers(frame, model.exposure, where)


def _sites(frame: "pl.DataFrame", site: str | None, whole: str, where: str) -> dict[str, AnyArray]:
    """Places of the rows of every site."""
    if site is None:
        return {whole: np.arange(frame.height)}
    names = []
    if site in frame:
        names = sorted(labels(frame.get_column(site)).drop_nulls().unique().to_list())
    codes = encode_labels(frame, site, tuple(names), where)
    return {name: np.flatnonzero(codes == place) for place, name in enumerate(names)}


def judged_scores(
    model: Model, targets: AnyArray, scores: FloatArray, exposures: FloatArray | None = None
) -> AnyJudged:
    """How `Model.scores` compare with targets."""
    own = scores if model.task == "multiclass" else scores[:, 0]
    if model.task == "counts":
        rate = max(float(np.average(targets, weights=exposures)), _NOBODY)
        return JudgedCounts(**judged_counts(targets, exposures, own, guess=rate))
    if model.task == "survival":
        return JudgedSurvival(**judged_survival(targets, own, as_loss("cox")))
    if model.task == "regression" and model.link == "log":
        own = np.exp(own)
    return Judged.of(targets, own, is_numbers=model.classes is None)


def null_scores(model: Model, targets: AnyArray, exposures: FloatArray | None = None) -> FloatArray:
    """Scores of the best model without features: a mean, a rate, shares of classes.

    Of survival all rows have the same score.

    Examples
    --------
    >>> model = Model(task="binary", target="relapse", classes=("no", "yes"), intercepts=(0.0,),
    ...               features=(), columns=(), settings={}, fingerprint="", versions={})
    >>> null_scores(model, np.array([0, 1, 1, 1])).round(3).ravel().tolist()
    [1.099, 1.099, 1.099, 1.099]
    """
    if model.task == "survival":
        return np.zeros((targets.size, 1))
    if model.task == "counts":
        rate = float(np.average(targets, weights=exposures))
        return np.full((targets.size, 1), np.log(max(rate, _NOBODY)))
    if model.classes is None:
        mean = float(targets.mean())
        score = np.log(max(mean, _NOBODY)) if model.link == "log" else mean
        return np.full((targets.size, 1), score)
    counts = np.bincount(targets, minlength=len(model.classes))
    # A class that nobody has is not predicted, and nobody asks how likely it is.
    shares = np.log(np.maximum(counts, _NOBODY) / targets.size)
    if model.task == "binary":
        shares = shares[1:] - shares[:1]
    return np.tile(shares, (targets.size, 1))
