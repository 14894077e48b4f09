"""From a fit to the model that is saved."""

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import numpy as np

from fedsparse.arrays import FloatArray
from fedsparse.engines.history import Record
from fedsparse.modelling.analysis import Analysis
from fedsparse.modelling.endings import sentence_on_early_end
from fedsparse.modelling.estimates_by_site import told_at_sites
from fedsparse.modelling.failing import failure_of
from fedsparse.modelling.features_by_site import features_by_site
from fedsparse.modelling.fitting import Fitted
from fedsparse.modelling.found_sure import FoundSure
from fedsparse.modelling.model import Baseline, Feature, HeldOut, Model
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import Evaluation, FitSummary, RoundRecord, SiteCount
from fedsparse.tables import Encoding, NumberedEncoding, SiteDescription
from fedsparse.tables.counting import Counts
from fedsparse.tables.encoding import EncodedColumn
from fedsparse.tables.sentences import counted
from fedsparse.version import __version__

_ADVICE = "Leave the step size out, so that one is chosen that suits all sites."

DIVERGED = f"Training diverged, and the model is that of the last round before it did. {_ADVICE}"


def build_model(
    encoding: Encoding | NumberedEncoding,
    fitted: Fitted,
    settings: Mapping[str, str],
    *,
    fingerprint: str,
    files: Sequence[str] = (),
    sure: FoundSure | None = None,
    ratio: str | None = None,
    baseline: Baseline | None = None,
    held_out: HeldOut | None = None,
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
    sure, ratio
        How sure coefficients are, if that was worked out, and what e to their power is called.
    baseline
        Of survival, if it is known.
    held_out
        How good such models are.

    Examples
    --------
    >>> import fedsparse as fs
    >>> from fedsparse.modelling.fitting import FitOptions, fit
    >>> data = fs.datasets.simulation_1(clients=3, samples=20, width=9, relevant=2)
    >>> engine = fs.LocalEngine(data, "squared")
    >>> encoding = NumberedEncoding(first=1, width=9, task="regression")
    >>> fitted = fs.converse(engine, fit(engine, 2, FitOptions(fs.SquaredError())))
    >>> len(build_model(encoding, fitted, {}, fingerprint="").features)
    2
    """
    names = encoding.feature_names
    origins = _origins(encoding.columns) or [(name, None) for name in names]
    coefficients = fitted.coefficients.reshape(len(names), -1)
    used = np.flatnonzero(np.abs(coefficients).max(axis=1)).tolist()
    columns = {origins[place][0] for place in used}
    return Model(
        task=_task(encoding),
        target=encoding.target,
        event=encoding.event,
        exposure=encoding.exposure,
        baseline=baseline,
        link="log" if _task(encoding) == "regression" and fitted.link == "log" else "identity",
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
                certainty=None
                if sure is None
                else sure.certainty(
                    place, float(fitted.scaling.scale[place]), has_ratio=ratio is not None
                ),
            )
            for place in used
        ),
        columns=tuple(
            column
            for column in _filling(encoding.columns, fitted.scaling.fill)
            if column.name in columns
        ),
        settings=dict(settings),
        fingerprint=fingerprint,
        files=tuple(files),
        versions=_versions(),
        how_sure=None if sure is None else sure.how_sure(ratio),
        held_out=held_out,
    )


@dataclass(frozen=True)
class Provenance:
    """Where rows came from, for a summary.

    Attributes
    ----------
    source
        Files or sites, in words.
    sites
        Who took part.
    together
        Rows of all sites, where single ones do not tell theirs.
    is_networked
        Whether rows stayed at sites on a network.
    fingerprint, files
        Digests of what the model was learnt from.
    settings
        More to tell of how it was learnt, in words.
    notes
        What a reader should know of the tables, in sentences.
    descriptions, counts
        What sites told of their tables, or what was counted over all of them.
    """

    source: str
    sites: tuple[SiteCount, ...]
    together: SiteCount | None = None
    is_networked: bool = False
    fingerprint: str = ""
    files: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    descriptions: tuple[SiteDescription, ...] = ()
    counts: Counts | None = None


def summarize(
    found: Analysis,
    encoding: Encoding | NumberedEncoding,
    provenance: Provenance,
    specification: FitSpecification,
) -> FitSummary:
    """All that a report shows, wherever the rows lie.

    Parameters
    ----------
    found
        What the analysis found.
    encoding
        How tables became arrays.
    provenance
        Where rows came from.
    specification
        What was asked for.
    """
    failure = failure_of(found.fitted, found.sparsity)
    settings = {
        **({} if failure is None else {"failure": failure}),
        **specification.told(
            found.options.loss,
            found.options.algorithm,
            sparsity=found.sparsity,
            rounds=found.fitted.result.records[-1].round,
        ),
        **provenance.settings,
    }
    model = build_model(
        encoding,
        found.fitted,
        settings,
        fingerprint=provenance.fingerprint,
        files=provenance.files,
        sure=found.sure,
        ratio=found.options.loss.ratio,
        baseline=None if found.survival is None else found.survival.baseline,
        held_out=_held_out(found.evaluation),
    )
    result = found.fitted.result
    diverged = (DIVERGED,) if result.diverged else ()
    early = sentence_on_early_end(result, specification.rounds, has_end=found.options.splices)
    return FitSummary(
        title=specification.title or f"What predicts {model.predicted}",
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        model=model,
        source=provenance.source,
        is_networked=provenance.is_networked,
        sites=provenance.sites,
        together=provenance.together,
        columns=encoding.column_counts,
        candidates=len(encoding.feature_names),
        history=history_of(found.fitted.result.records),
        selection=found.selection,
        evaluation=found.evaluation,
        stability=found.stability,
        features_by_site=features_by_site(
            model.features, provenance.descriptions, provenance.counts
        ),
        estimates_at_sites=told_at_sites(
            found.estimates_at_sites,
            model.features,
            np.flatnonzero(found.fitted.coefficients).tolist(),
            found.options.loss.ratio,
        ),
        at_sites=found.at_sites,
        risk_groups=() if found.survival is None else found.survival.groups,
        exchanges=found.exchanges,
        failure=failure,
        settings=model.settings,
        notes=(*provenance.notes, *found.notes, *diverged, *filter(None, [early])),
    )


def notes_on_divergences(found: Analysis, fits: int) -> tuple[str, ...]:
    """What a reader should know if fits beside that of the model diverged.

    Parameters
    ----------
    found
        By all fits.
    fits
        How many diverged.
    """
    others = fits - int(found.fitted.result.diverged)
    if others < 1:
        return ()
    return (
        f"{counted(others, 'fit')} to parts of the rows diverged and ended early: what the choice "
        f"of the number of features, held-out rows and stability say rests on them. {_ADVICE}",
    )


def _held_out(evaluation: Evaluation | None) -> HeldOut | None:
    score = None if evaluation is None else evaluation.overall
    if score is None:
        return None
    return HeldOut(
        rows=score.rows,
        metrics=score.metrics,
        intervals=score.intervals,
        no_better_than_guessing=score.is_guessing,
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


def _task(
    encoding: Encoding | NumberedEncoding,
) -> Literal["regression", "binary", "multiclass", "counts", "survival"]:
    if encoding.task != "classification":
        return encoding.task
    return "binary" if len(encoding.classes or ()) == 2 else "multiclass"


def _origins(columns: Sequence[EncodedColumn]) -> list[tuple[str, str | None]]:
    """Column and level of every feature."""
    origins: list[tuple[str, str | None]] = []
    for column in columns:
        levels: Sequence[str | None] = column.levels if column.kind == "category" else (None,)
        origins += [(column.name, level) for level in levels]
    return origins


def _filling(columns: Sequence[EncodedColumn], fill: FloatArray | None) -> Iterator[EncodedColumn]:
    """Columns with what stands for their missing values."""
    begin = 0
    for column in columns:
        end = begin + len(column.feature_names)
        values = None if fill is None else tuple(fill[begin:end].tolist())
        yield column.model_copy(update={"fill": values})
        begin = end


def _versions() -> dict[str, str]:
    import scipy

    return {
        "fedsparse": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }
