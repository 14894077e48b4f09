"""The page of a model on rows that it was not learnt from."""

from collections.abc import Sequence
from datetime import datetime

from fedsparse.modelling.model import Model
from fedsparse.modelling.summary import Evaluation
from fedsparse.report.fit.evaluation_section import evaluation_sections
from fedsparse.report.fit.features_section import features_sections
from fedsparse.report.fit.metric_words import metric_of
from fedsparse.report.fit.plain_sentences import without_options
from fedsparse.report.fit.readable_numbers import SPACE, counted, quoted
from fedsparse.report.page import Page, Section
from fedsparse.report.parts import Notes, SettingsList


def new_rows_page(
    model: Model,
    evaluation: Evaluation,
    source: str,
    notes: Sequence[str] = (),
    *,
    created: datetime,
) -> Page:
    """How well a model predicts rows that were collected elsewhere, and what it goes by.

    Parameters
    ----------
    model
        That predicts.
    evaluation
        Of the new rows, site by site.
    source
        Files, as they were named.
    notes
        What a reader should know, in sentences.
    created
        When the model was tried.

    Examples
    --------
    >>> from fedsparse.modelling.summary import Score
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> score = Score(method="federated", site=None, rows=40, metrics={"R²": 0.7})
    >>> tested = Evaluation(folds=0, held_out="40 rows of new.csv", scores=(score,))
    >>> new_rows_page(model, tested, "new.csv", created=datetime(2026, 1, 31)).title
    'A model of “ldl” on other rows'
    """
    told = list(filter(None, map(without_options, notes)))
    made = {"Made": created.strftime("%Y-%m-%d %H:%M"), "Rows": source}
    return Page(
        f"A model of {quoted(model.predicted)} on other rows",
        _introduction(model, evaluation),
        [
            *([Section("", [Notes("Please note", told)])] if told else []),
            *evaluation_sections(evaluation),
            *features_sections(model, None),
            Section("How this was made", [SettingsList(made | _learnt(model))]),
        ],
        is_narrow=True,
    )


def _introduction(model: Model, evaluation: Evaluation) -> str:
    overall = evaluation.overall
    rows = 0 if overall is None else overall.rows
    features = counted(len(model.features), "feature")
    text = f"A model of {features} was tried on {counted(rows, 'row')}."
    metrics = {} if overall is None else overall.metrics
    known = [
        f"{metric_of(name).label}{SPACE}={SPACE}{metric_of(name).text(value)}"
        for name, value in metrics.items()
        if value is not None and not metric_of(name).is_context
    ]
    guess = overall is not None and overall.is_guessing
    verdict = " It is no better than guessing there." if guess else ""
    return f"{text}{verdict} {', '.join(known)}." if known else text


def _learnt(model: Model) -> dict[str, str]:
    return {
        "Fingerprint of the data it was learnt from": model.fingerprint or "not known",
        **{f"Version of {name}": version for name, version in model.versions.items()},
    }
