"""The outcome of a fit in one or two plain sentences."""

from collections import Counter
from collections.abc import Callable, Sequence

from fedsparse.modelling.no_features import GUESSING, guess_of
from fedsparse.modelling.summary import FitSummary, Score, SiteCount
from fedsparse.report.fit.metric_words import metric_of
from fedsparse.report.fit.readable_numbers import SPACE, counted, percent, quoted

UNSEEN = "on rows the model had not seen"


def headline(summary: FitSummary) -> str:
    """Say how many features predict what, how well, and what it took.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> from fedsparse.modelling.summary import SiteCount
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> headline(FitSummary(title="", created="", model=model, source="a.csv", columns={},
    ...                     sites=(SiteCount(name="Bari", rows=80),), candidates=12, history=(),
    ...                     settings={}))
    'None of 12 features was chosen to predict “ldl”, learnt from 1 site (80 rows).'
    """
    sentence = f"{_finding(summary)}, {_effort(summary)}."
    return " ".join(filter(None, [sentence, _baseline(summary), _stable(summary)]))


def _finding(summary: FitSummary) -> str:
    count, target = len(summary.model.features), quoted(summary.model.predicted)
    if count == 0:
        none = f"None of {counted(summary.candidates, 'feature')}"
        if summary.selection is not None and summary.selection.chosen == 0:
            better = f"predicts {target} better than {guess_of(summary.model)}"
            return f"{none} {better}: the model is {GUESSING}"
        return f"{none} was chosen to predict {target}"
    chosen = f"{count:,} of {counted(summary.candidates, 'feature')}"
    if (score := _overall(summary)) is not None and score.is_guessing:
        was = "was" if count == 1 else "were"
        why = f"{chosen} {was} chosen to predict {target}"
        return f"The model is {GUESSING} {UNSEEN} ({_guess(score)}): {why}"
    if (most := summary.model.most_of_a_class) is not None:
        chosen += f", at most {most} of each class,"
    skill = _skill(summary, target, is_one=count == 1)
    if skill:
        return f"{chosen} {skill} {UNSEEN}"
    return f"{chosen} {'was' if count == 1 else 'were'} chosen to predict {target}"


def _skill(summary: FitSummary, target: str, *, is_one: bool) -> str:
    """What the features do, and how well; "" if that was not measured."""
    score = _overall(summary)
    if score is None:
        return ""
    known = [(name, value) for name, value in score.metrics.items() if value is not None]
    if not known:
        return ""
    name, value = known[0]
    ending = "s" if is_one else ""
    if name == "deviance explained" and value > 0:
        return f"explain{ending} {percent(value)} of the deviance of {target}"
    if name == "R²" and value > 0:
        share = f"{percent(value)}{_within(score, name, percent)}"
        return f"explain{ending} {share} of the variance of {target}"
    metric, interval = metric_of(name), _within(score, name)
    if metric.is_share:
        skill = f"{metric.text(value)} {metric.label.lower()}"
    else:
        skill = f"{metric.label}{SPACE}={SPACE}{metric.text(value)}"
    return f"predict{ending} {target} with {skill}{interval}"


def _guess(score: Score) -> str:
    """The metric that tells a model from a guess, and what a guess reaches."""
    name = score.decisive
    assert name is not None
    metric, value = metric_of(name), score.metrics[name]
    return (
        f"{metric.label}{SPACE}={SPACE}{metric.text(value)}{_within(score, name)}, and guessing "
        f"reaches {metric.text(score.guessing[name])}"
    )


def _within(score: Score, name: str, text: Callable[[float], str] | None = None) -> str:
    """The interval of a metric in brackets; "" of one that has none."""
    around = score.intervals.get(name)
    if around is None:
        return ""
    low, high = (text or metric_of(name).text)(around[0]), (text or metric_of(name).text)(around[1])
    return f" (95{SPACE}% interval {low} to {high})"


def _effort(summary: FitSummary) -> str:
    learnt_from = [site for site in summary.sites if site.has_counted]
    sites = counted(len(learnt_from), "site")
    effort = f"learnt from {sites} ({counted(_rows(summary, learnt_from), 'row')})"
    if summary.history:
        effort += f" in {counted(summary.history[-1].round, 'round')}"
    if len(summary.sites) == 1:
        return effort
    if summary.is_networked:
        return f"{effort} without moving a row"
    return f"{effort}, worked out in one place as if each had kept its rows"


def _rows(summary: FitSummary, learnt_from: Sequence[SiteCount]) -> int:
    """Of the sites that were learnt from; of all, where only that is known."""
    if summary.together is not None:
        return summary.together.rows or 0
    return sum(site.rows or 0 for site in learnt_from)


def _baseline(summary: FitSummary) -> str:
    """What an accuracy has to be compared with."""
    confusion = None if summary.evaluation is None else summary.evaluation.confusion
    if not summary.model.features:  # then no accuracy is told
        return ""
    score = _overall(summary)
    if score is None or score.metrics.get("accuracy") is None or confusion is None:
        return ""
    rows = zip(confusion.classes, confusion.counts, strict=True)
    counts = Counter({name: sum(predicted) for name, predicted in rows})
    ((name, count),) = counts.most_common(1)
    share = percent(count / counts.total())
    return f"Always answering {quoted(name)}, the most frequent class, would reach {share}."


def _stable(summary: FitSummary) -> str:
    """How many of the features would be chosen again."""
    if summary.stability is None or not summary.model.features:
        return ""
    chosen = {feature.name for feature in summary.model.features}
    stable = sum(
        each.feature in chosen and each.frequency >= summary.stability.threshold
        for each in summary.stability.features
    )
    share = percent(summary.stability.threshold)
    some = "None is" if stable == 0 else "One is" if stable == 1 else f"{stable:,} are"
    return f"{some} found again in at least {share} of random halves of the rows."


def _overall(summary: FitSummary) -> Score | None:
    """Of the federated model on the held-out rows of all sites; None without them."""
    return None if summary.evaluation is None else summary.evaluation.overall
