"""The section on how sure the coefficients are."""

from collections.abc import Sequence

import polars as pl

from fedsparse.modelling.certainty import Estimated, HowSure, Interval
from fedsparse.modelling.model import Feature, Model
from fedsparse.modelling.unsure import sentences_on_certainty
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.forest_chart import (
    ForestLook,
    features_by_size,
    forest_chart,
    interval_text,
)
from fedsparse.report.fit.readable_numbers import p_value_text, percent
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Key, Paragraph, Part, Subheading, Symbol, Table
from fedsparse.report.style import FAINT, FIRST, INK


def certainty_sections(model: Model) -> list[Section]:
    """Forest plot and tables of intervals; nothing if they were not worked out.

    Parameters
    ----------
    model
        Of the fit.

    Examples
    --------
    >>> from fedsparse.modelling.certainty import LEVEL, Certainty
    >>> own = Estimated.of(Interval.of(0.5, 0.1, 0.9), 9.0, has_ratio=True, p_value=0.01)
    >>> age = Feature(name="age", column="age", coefficients=(0.5,), mean=50.0, scale=9.0,
    ...               certainty=Certainty(refitted=own))
    >>> sure = HowSure(level=LEVEL, ratio="odds ratio", splits=50, exchanges=9)
    >>> model = Model(task="binary", target="relapse", classes=("no", "yes"), intercepts=(1.0,),
    ...     features=(age,), columns=(), settings={}, fingerprint="", versions={}, how_sure=sure)
    >>> [section.heading for section in certainty_sections(model)]
    ['How sure the coefficients are']
    """
    sure, shown = model.how_sure, features_by_size(model)[:MOST]
    if sure is None or not shown:
        return []
    parts: list[Part] = [
        Paragraph(_explanation(sure)),
        Key(_key(sure, shown)),
        Charts([forest_chart(shown, sure, ForestLook.on_page())]),
        *(Paragraph(sentence, is_hint=True) for sentence in sentences_on_certainty(model)),
        Subheading(f"{_what(sure)} per standard deviation of the feature"),
        Table(_table(shown, sure, per_deviation=True)),
        Subheading(f"{_what(sure)} per unit of the feature"),
        Table(_table(shown, sure, per_deviation=False)),
        Paragraph(_hint(sure), is_hint=True),
    ]
    return [Section("How sure the coefficients are", parts)]


def _what(sure: HowSure) -> str:
    return "Coefficient" if sure.ratio is None else sure.ratio.capitalize()


def _explanation(sure: HowSure) -> str:
    level = percent(sure.level)
    naive = (
        f"The thin line is the usual {level} interval of the features that were chosen. It is as "
        "if they had been chosen before anybody saw these rows, and so it is too sure of itself: "
        "features are chosen because they look strong."
    )
    if sure.splits == 0:
        return naive
    return (
        f"{naive} The thick line is valid after the choice: {sure.splits} times, features were "
        "chosen on one half of every site's rows, and what they do was estimated on the other "
        f"half, which had no part in choosing. With {level} confidence all thick lines hold what "
        f"they should at once. One that crosses the dashed line at {_none(sure)} cannot be told "
        "from no effect."
    )


def _none(sure: HowSure) -> str:
    return "0" if sure.ratio is None else "1"


def _key(sure: HowSure, shown: Sequence[Feature]) -> dict[str, Symbol]:
    after = [own.certainty.after_choosing for own in shown if own.certainty is not None]
    ends = [(own.coefficient.low, own.coefficient.high) for own in after if own is not None]
    has_bounds = any(own != (None, None) for own in ends)
    return {
        "as if chosen beforehand, without shrinkage": Symbol("ring", FAINT),
        **({"valid after the choice": Symbol("circle", FIRST)} if has_bounds else {}),
        "the model’s own, with shrinkage": Symbol("tick", INK),
        "no effect": Symbol("dashes", FAINT),
    }


def _table(shown: Sequence[Feature], sure: HowSure, *, per_deviation: bool) -> pl.DataFrame:
    told = [own.certainty for own in shown if own.certainty is not None]

    def column(estimates: Sequence[Estimated | None]) -> list[str]:
        return [
            interval_text(None if own is None else _interval(own, sure, per_deviation))
            for own in estimates
        ]

    columns = {
        "Feature": [own.name for own in shown],
        "With shrinkage": column([own.shrunk for own in told]),
        "As if chosen beforehand": column([own.refitted for own in told]),
    }
    if sure.splits:
        columns["Valid after the choice"] = column([own.after_choosing for own in told])
    if sure.splits and per_deviation:
        columns["p-value"] = [
            p_value_text(own.after_choosing.p_value if own.after_choosing else None) for own in told
        ]
    return pl.DataFrame(columns)


def _interval(own: Estimated, sure: HowSure, per_deviation: bool) -> Interval | None:
    if sure.ratio is None:
        return own.per_deviation if per_deviation else own.coefficient
    return own.ratio_per_deviation if per_deviation else own.ratio


def _hint(sure: HowSure) -> str:
    sentences = [f"In brackets: {percent(sure.level)} intervals."]
    if sure.ratio is not None:
        sentences.append(
            f"An {sure.ratio} of 2 doubles, and one of 0.5 halves, what it is the ratio of."
            if sure.ratio[0] in "aeiou"
            else f"A {sure.ratio} of 2 doubles, and one of 0.5 halves, what it is the ratio of."
        )
    if sure.splits:
        sentences.append(
            "p-value: valid after the choice, and corrected for all features that were chosen. "
            "Method: Meinshausen, Meier and Bühlmann (2009), resting on at least half of the "
            "splits."
        )
    return " ".join(sentences)
