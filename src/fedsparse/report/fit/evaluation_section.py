"""The section on how good the model is, beside what sites reach alone and with pooled rows."""

from collections.abc import Mapping, Sequence

import polars as pl

from fedsparse.modelling.summary import Evaluation, Score
from fedsparse.report.fit.confusion_table import confusion_table
from fedsparse.report.fit.curve_charts import calibration_parts, curve_parts
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.metric_words import metric_names, metric_of
from fedsparse.report.fit.readable_numbers import counted
from fedsparse.report.fit.score_charts import SYMBOLS, score_chart, site_of
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Key, Paragraph, Part, Subheading, Table

MEANINGS = {
    "federated": "federated: all sites, as in this model",
    "alone": "alone: each site by itself",
    "pooled": "pooled: all rows in one place",
}
"""Ways of learning."""


_ON_INTERVALS = (
    "In brackets, and as lines in the charts: 95\N{NO-BREAK SPACE}% intervals. They tell what "
    "other rows to judge on would do, not that other rows to learn from would give other models."
)


def evaluation_sections(evaluation: Evaluation | None) -> list[Section]:
    """Metrics by site and way of learning, and which classes are taken for which.

    Parameters
    ----------
    evaluation
        Nothing is shown without it.

    Examples
    --------
    >>> score = Score(method="federated", site=None, rows=40, metrics={"R²": 0.7})
    >>> tested = Evaluation(folds=5, held_out="every row once", scores=(score,))
    >>> [section.heading for section in evaluation_sections(tested)]
    ['How good the model is']
    """
    if evaluation is None or not metric_names(evaluation.scores):
        return []
    shown = _shown(evaluation.scores)
    names = metric_names(shown)
    parts: list[Part] = [Paragraph(_explanation(evaluation))]
    if len(shown) > 1:
        drawn = [name for name in names if not metric_of(name).is_context]
        parts += [_key(shown)] if len(_methods(shown)) > 1 else []
        parts.append(Charts([score_chart(shown, name) for name in drawn]))
    parts += [Table(_table(shown, names)), Paragraph(_hint(evaluation, names), is_hint=True)]
    if evaluation.dense is not None:
        parts.append(Paragraph(_what_sparsity_costs(evaluation.dense)))
    if evaluation.confusion is not None:
        parts += [Subheading("Which classes are confused"), confusion_table(evaluation.confusion)]
    parts += [*curve_parts(evaluation.curves), *calibration_parts(evaluation.calibration)]
    return [Section("How good the model is", parts)]


def _shown(scores: Sequence[Score]) -> list[Score]:
    """All sites together first, then the largest sites; a single site says nothing new."""
    overall = [score for score in scores if score.site is None]
    rows = {score.site: score.rows for score in scores if score.site is not None}
    if len(rows) == 1 and overall:
        return overall
    largest = set(sorted(rows, key=lambda site: rows[site], reverse=True)[:MOST])
    return overall + [score for score in scores if score.site in largest]


def _explanation(evaluation: Evaluation) -> str:
    if evaluation.folds == 0:
        return f"Measured on {evaluation.held_out}."
    folds = f"{evaluation.folds}-fold cross-validation: " if evaluation.folds > 1 else ""
    text = (
        "Measured on rows that a model had not seen while it learnt "
        f"({folds}{evaluation.held_out})."
    )
    methods = _methods(evaluation.scores)
    if methods == ["federated"]:
        return text
    pooled = ", and one learnt from all rows in one place" if "pooled" in methods else ""
    return (
        f"{text} Filling, scaling and the choice of features were done anew without those rows. "
        "The federated model is learnt by all sites together from sums over their rows. Beside it "
        f"stand models that each site learns from its own rows{pooled}."
    )


def _methods(scores: Sequence[Score]) -> list[str]:
    present = {score.method for score in scores}
    return [method for method in MEANINGS if method in present]


def _key(shown: Sequence[Score]) -> Key:
    return Key({MEANINGS[method]: SYMBOLS[method] for method in _methods(shown)})


def _table(shown: Sequence[Score], names: Sequence[str]) -> pl.DataFrame:
    methods = _methods(shown)
    by_site: dict[str, dict[str, Score]] = {}
    for score in shown:
        by_site.setdefault(site_of(score), {})[score.method] = score
    return pl.DataFrame([_line(site, found, names, methods) for site, found in by_site.items()])


def _line(
    site: str, found: Mapping[str, Score], names: Sequence[str], methods: Sequence[str]
) -> dict[str, str]:
    cells = {"Site": site, "Rows": f"{max(score.rows for score in found.values()):,}"}
    for name in names:
        metric = metric_of(name)
        if metric.is_context:  # the same, however a model is learnt
            cells[metric.label] = metric.text(next(iter(found.values())).metrics.get(name))
            continue
        for method in methods:
            heading = metric.label if len(methods) == 1 else f"{metric.label}, {method}"
            score = found.get(method)
            value, around = (
                (None, None)
                if score is None
                else (score.metrics.get(name), score.intervals.get(name))
            )
            # Those of other ways are in the charts: a table with all of them is too wide to read.
            is_own = method == methods[0]
            cells[heading] = metric.with_interval(value, around) if is_own else metric.text(value)
    return cells


def _what_sparsity_costs(dense: Score) -> str:
    known = [
        f"{name} {metric_of(name).with_interval(value, dense.intervals.get(name))}"
        for name, value in dense.metrics.items()
        if value is not None and not metric_of(name).is_context
    ]
    return (
        "What sparsity costs: a model of all features (ridge), learnt by all sites together and "
        f"judged on the same rows, has {', '.join(known)}."
    )


def _hint(evaluation: Evaluation, names: Sequence[str]) -> str:
    metrics = [metric_of(name) for name in names]
    sentences = [f"{metric.label}: {metric.meaning}." for metric in metrics if metric.meaning]
    if any(score.intervals for score in evaluation.scores):
        sentences.append(_ON_INTERVALS)
    sites = {score.site for score in evaluation.scores} - {None}
    if len(sites) > MOST:
        sentences.insert(0, f"The {MOST} largest of {counted(len(sites), 'site')} are shown.")
    return " ".join(sentences)
