"""Metrics in words."""

from collections.abc import Iterable
from dataclasses import dataclass

from fedsparse.modelling.intervals import Interval
from fedsparse.modelling.summary import Score
from fedsparse.report.fit.readable_numbers import number, percent


@dataclass(frozen=True)
class Metric:
    """How a metric is called, explained, written and drawn.

    Parameters
    ----------
    label
        In headings.
    meaning
        What it says, as half a sentence.
    is_share
        Whether it is written in percent.
    is_error
        Whether lower is better, and values may lie decades apart.
    floor
        Lowest value that a chart tells apart from others.
    is_context
        Whether it says nothing of the model, so that no chart compares it.
    is_count
        Whether it is a whole number.
    """

    label: str
    meaning: str = ""
    is_share: bool = False
    is_error: bool = False
    floor: float | None = None
    is_context: bool = False
    is_count: bool = False

    def text(self, value: float | None) -> str:
        """The value as a reader sees it; a dash if it could not be worked out."""
        if value is None:
            return "–"
        if self.is_count:
            return f"{value:,.0f}"
        return percent(value) if self.is_share else number(value)

    def drawn(self, value: float) -> float:
        """Where a chart has its mark."""
        return value if self.floor is None else max(value, self.floor)

    def with_interval(self, value: float | None, around: Interval | None) -> str:
        r"""The value and its interval, if it has one.

        Examples
        --------
        >>> Metric("AUC").with_interval(0.9, (0.75, 0.98))
        '0.900 (0.750 to 0.980)'
        """
        if value is None or around is None:
            return self.text(value)
        return f"{self.text(value)} ({self.text(around[0])} to {self.text(around[1])})"


METRICS = {
    "accuracy": Metric("Accuracy", "share of rows whose class is predicted right", is_share=True),
    "AUC": Metric(
        "AUC",
        "how often a row of one class gets a higher score than a row of the other; "
        "0.5 is chance, 1 is best",
    ),
    "log-loss": Metric(
        "Log-loss",
        "how far the predicted probabilities are from what was true; lower is better",
        is_error=True,
    ),
    "R²": Metric(
        "R²",
        "share of the target's variance that is explained; 1 is best, 0 is what the mean does",
        floor=-1.0,
    ),
    "RMSE": Metric(
        "RMSE",
        "typical error in the target's unit (root mean square); lower is better",
        is_error=True,
    ),
    "deviance explained": Metric(
        "Deviance explained",
        "share of the counts' deviance that is explained; 1 is best, 0 is what one rate does",
        floor=-1.0,
    ),
    "deviance": Metric(
        "Deviance",
        "how far the predicted counts of a row are from what was counted; lower is better",
        is_error=True,
    ),
    "mean rate": Metric("Mean rate", "what was counted, over the exposure", is_context=True),
    "C-index": Metric(
        "C-index",
        "how often, of two rows of a site, the one with the higher risk has the event first; "
        "0.5 is chance, 1 is best",
    ),
    "log-likelihood gained": Metric(
        "Log-likelihood gained",
        "by how much an event is likelier than at equal risks, as a logarithm; 0 is what "
        "guessing does, higher is better",
    ),
    "events": Metric("Events", "rows in which the event happened", is_context=True, is_count=True),
}
"""By the names that `fedsparse.modelling.metrics` gives them."""


def metric_of(name: str) -> Metric:
    r"""What is known of a metric; one that is not known goes by its name.

    Examples
    --------
    >>> metric_of("accuracy").text(0.944), metric_of("F1 score").label
    ('94\xa0%', 'F1 score')
    """
    return METRICS.get(name, Metric(name))


def metric_names(scores: Iterable[Score]) -> list[str]:
    """Metrics that were worked out at least once, in the order in which they come.

    Examples
    --------
    >>> metric_names([Score(method="federated", site=None, rows=9,
    ...                     metrics={"accuracy": 0.8, "AUC": None})])
    ['accuracy']
    """
    known = [name for score in scores for name, value in score.metrics.items() if value is not None]
    return list(dict.fromkeys(known))
