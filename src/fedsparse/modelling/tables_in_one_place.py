"""From tables in one place to a model and everything that its report shows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from fedsparse.engines.conversation import converse
from fedsparse.engines.local import LocalEngine, Sums
from fedsparse.modelling.analysis import OnProgress, analysing
from fedsparse.modelling.building import Provenance, notes_on_divergences, summarize
from fedsparse.modelling.endings import divergences
from fedsparse.modelling.fitting import loss_of
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import FitSummary, SiteCount
from fedsparse.problem.federated import FederatedData

if TYPE_CHECKING:
    from fedsparse.tables import Loaded


def analyse(
    loaded: "Loaded",
    specification: FitSpecification,
    *,
    files: Sequence[str] = (),
    on_progress: OnProgress = lambda what, done, total: None,
    sums: Sums = "float",
) -> FitSummary:
    """Fit a model, and judge it.

    Parameters
    ----------
    loaded
        The sites' rows, from `fedsparse.tables.load_tables`.
    specification
        What to work out; the rows were loaded by it, too.
    files
        SHA-256 of the files that held the rows.
    on_progress
        Called after each model.
    sums
        ``"fixed"`` adds up as sites on a network do under masks, to the same bits.
    """
    has_holes = loaded.encoding.impute is not None
    data = FederatedData.from_table(
        loaded.features, loaded.targets, loaded.sites, loaded.row_weights, has_holes=has_holes
    )
    engine = LocalEngine(data, loss_of(loaded.encoding), sums=sums)
    engine.has_holes = has_holes  # the model can fill what is missing elsewhere, too
    try:
        conversation = analysing(
            engine,
            specification,
            loaded.names,
            labels=loaded.classes,
            keep=loaded.encoding.kept,
            on_progress=on_progress,
        )
        with divergences() as told:
            found = converse(engine, conversation)
    finally:
        engine.close()
    found = replace(found, notes=(*found.notes, *notes_on_divergences(found, len(told))))
    return summarize(
        found,
        loaded.encoding,
        Provenance(
            source=loaded.source,
            sites=_sites(data, loaded.classes),
            fingerprint=loaded.fingerprint,
            files=tuple(files),
            notes=loaded.notes,
            descriptions=loaded.descriptions,
        ),
        specification,
    )


def _sites(data: FederatedData, classes: tuple[str, ...] | None) -> tuple[SiteCount, ...]:
    sites = []
    for place, name in enumerate(data.names):
        own = data.targets[data.pointer[place] : data.pointer[place + 1]]
        counts = None
        if classes is not None:
            numbers = np.bincount(own, minlength=len(classes)).tolist()
            counts = dict(zip(classes, numbers, strict=True))
        sites.append(SiteCount(name=name, rows=own.size, classes=counts))
    return tuple(sites)
