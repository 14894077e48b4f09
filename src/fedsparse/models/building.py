"""From a fit to the model that is saved."""

import platform
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from fedsparse.fitting import Fitted
from fedsparse.history import Record
from fedsparse.models.model import Feature, Model
from fedsparse.models.summary import RoundRecord
from fedsparse.tables import Encoding, NumberedEncoding
from fedsparse.tables.encoding import EncodedColumn
from fedsparse.version import __version__


def build_model(
    encoding: Encoding | NumberedEncoding,
    fitted: Fitted,
    settings: Mapping[str, str],
    *,
    fingerprint: str,
    files: Sequence[str] = (),
) -> Model:
    """The features that a fit chose, by name.

    Parameters
    ----------
    encoding
        How tables become arrays.
    fitted
        The fit.
    settings
        How it was made, in words.
    fingerprint, files
        Digests of what it was learnt from.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.fitting import FitOptions, fit_model, prepare
    >>> data = fs.datasets.simulation_1(clients=3, samples=20, width=9, relevant=2)
    >>> options = FitOptions(fs.SquaredError())
    >>> encoding = NumberedEncoding(first=1, width=9, task="regression")
    >>> fitted = fit_model(prepare(data, options), 2, options)
    >>> len(build_model(encoding, fitted, {}, fingerprint="").features)
    2
    """
    names = encoding.feature_names
    origins = _origins(encoding.columns) or [(name, None) for name in names]
    coefficients = fitted.coefficients.reshape(len(names), -1)
    used = np.flatnonzero(np.abs(coefficients).max(axis=1)).tolist()
    columns = {origins[place][0] for place in used}
    return Model(
        task=_task(encoding.classes),
        target=encoding.target,
        classes=encoding.classes,
        intercepts=tuple(fitted.intercept.tolist()),
        features=tuple(
            Feature(
                name=names[place],
                column=origins[place][0],
                level=origins[place][1],
                coefficients=tuple(coefficients[place].tolist()),
                mean=float(fitted.scaling.mean[place]),
                scale=float(fitted.scaling.scale[place]),
            )
            for place in used
        ),
        columns=tuple(column for column in encoding.columns if column.name in columns),
        settings=dict(settings),
        fingerprint=fingerprint,
        files=tuple(files),
        versions=_versions(),
    )


def history_of(records: Sequence[Record]) -> tuple[RoundRecord, ...]:
    """A run's history as a summary has it.

    Examples
    --------
    >>> history_of([])
    ()
    """
    return tuple(
        RoundRecord(**{name: getattr(record, name) for name in RoundRecord.model_fields})
        for record in records
    )


def per_class(classes: tuple[str, ...] | None) -> str:
    """What must be added to a number of features.

    Examples
    --------
    >>> per_class(("a", "b", "c")), per_class(None)
    (' for each class', '')
    """
    return " for each class" if classes is not None and len(classes) > 2 else ""


def _task(classes: tuple[str, ...] | None) -> Literal["regression", "binary", "multiclass"]:
    if classes is None:
        return "regression"
    return "binary" if len(classes) == 2 else "multiclass"


def _origins(columns: Sequence[EncodedColumn]) -> list[tuple[str, str | None]]:
    """Column and level of every feature."""
    origins: list[tuple[str, str | None]] = []
    for column in columns:
        levels: Sequence[str | None] = column.levels if column.kind == "category" else (None,)
        origins += [(column.name, level) for level in levels]
    return origins


def _versions() -> dict[str, str]:
    import scipy

    return {
        "fedsparse": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
