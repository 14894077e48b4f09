"""The section on how the number of features was chosen."""

from collections.abc import Sequence

import altair as alt
import polars as pl

from fedsparse.modelling.choosing import sentence_on_other_seeds
from fedsparse.modelling.summary import Selection, SelectionPoint
from fedsparse.report.convergence_charts import scale_for
from fedsparse.report.fit.chart_axes import close_scale
from fedsparse.report.fit.path_chart import path_chart
from fedsparse.report.fit.readable_numbers import counted, number, size
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Key, Paragraph, Part, Subheading, Symbol
from fedsparse.report.style import FIRST, LINES, PAPER, SECOND

_TICKS = (0, 1, 2, 5, 10, 20, 50)
"""Of an axis that holds zero."""


def selection_sections(selection: Selection | None) -> list[Section]:
    """How good models with fewer and with more features are, and which was taken.

    Parameters
    ----------
    selection
        Nothing is shown without it, or if there was nothing to choose from.

    Examples
    --------
    >>> points = (SelectionPoint(sparsity=5, score=0.4), SelectionPoint(sparsity=10, score=0.5))
    >>> chosen = Selection(method="ebic", measure="EBIC", points=points, best=5, chosen=5,
    ...                    rounds=12, bytes_down=900, bytes_up=1600)
    >>> [section.heading for section in selection_sections(chosen)]
    ['How the number of features was chosen']
    """
    if selection is None or len(selection.points) < 2:
        return []
    parts: list[Part] = [
        Paragraph(_explanation(selection)),
        Key(_key(selection)),
        Charts([selection_chart(selection)]),
        *_path(selection),
    ]
    return [Section("How the number of features was chosen", parts)]


def _path(selection: Selection) -> list[Part]:
    """What the features do as more of them are allowed."""
    if not selection.path:
        return []
    several = max(len(point.effects) for point in selection.path) > 1
    colours = (
        "The stronger the colour, the more it speaks for or against some class."
        if several
        else "Blue raises the prediction, orange lowers it, and the stronger the colour the more."
    )
    folds = (
        " on average over the folds, if at least half of them choose it"
        if selection.method == "cv"
        else ""
    )
    frame = " The frame marks the number that was chosen." if selection.chosen else ""
    return [
        Subheading("Which features come first"),
        Paragraph(
            f"From left to right models have more features; a cell says what a feature does in "
            f"such a model{folds}. {colours}{frame}"
        ),
        Charts([path_chart(selection)]),
    ]


def selection_chart(selection: Selection) -> alt.LayerChart:
    """Score against τ, with standard errors, the best and the chosen one marked.

    Parameters
    ----------
    selection
        As in `selection_sections`.

    Examples
    --------
    >>> points = (SelectionPoint(sparsity=5, score=0.4), SelectionPoint(sparsity=50, score=0.5))
    >>> chosen = Selection(method="ebic", measure="EBIC", points=points, best=5, chosen=5,
    ...                    rounds=12, bytes_down=900, bytes_up=1600)
    >>> chart = selection_chart(chosen).to_dict()
    >>> chart["layer"][0]["encoding"]["x"]["scale"]["type"]
    'log'
    """
    points = sorted(selection.points, key=lambda point: point.sparsity)
    title = "Features (τ)"
    base = alt.Chart(alt.InlineData([_row(point) for point in points])).encode(
        x=_sparsity_axis(title, [point.sparsity for point in points])
    )
    score = alt.Y("score:Q", title=_capital(selection.measure))
    y = score.scale(close_scale("linear", 6))
    line = base.mark_line(stroke=FIRST, strokeWidth=1.5).encode(y=y)
    bars = base.mark_rule(stroke=LINES, strokeWidth=1.5).encode(
        y=alt.Y("low:Q").scale(zero=False), y2="high:Q"
    )
    dots = base.mark_point(fill=FIRST, strokeWidth=0, size=45, opacity=1).encode(
        y=y, tooltip=_tooltip(selection.measure)
    )
    best = dots.transform_filter(f"datum.sparsity == {selection.best}").mark_point(
        fill=PAPER, stroke=FIRST, strokeWidth=2, size=110, opacity=1
    )
    chosen = dots.transform_filter(f"datum.sparsity == {selection.chosen}").mark_point(
        shape="diamond", fill=SECOND, strokeWidth=0, size=220, opacity=1
    )
    has_errors = any(point.standard_error is not None for point in points)
    layers = [*([bars] if has_errors else []), line, dots, best, chosen]
    return alt.LayerChart(layer=layers).properties(
        width="container",
        height=260,
        description=f"{_capital(selection.measure)} against the number of features. "
        f"The lowest is at {selection.best}; {selection.chosen} was chosen.",
    )


def _sparsity_axis(title: str, tried: Sequence[int]) -> alt.X:
    """τ on a scale that leaves small values room, zero among them."""
    x = alt.X("sparsity:Q", title=title)
    scale = scale_for(pl.Series([float(sparsity) for sparsity in tried]))
    if scale == "log" and min(tried) == 0:  # which a logarithm has no place for
        ticks = [tick for tick in _TICKS if tick <= max(tried)]
        symlog = alt.Scale(type="symlog", constant=1, nice=False, padding=12)
        return x.axis(alt.Axis(grid=False, format=",d", values=ticks)).scale(symlog)
    axis = alt.Axis(grid=False, format=",d", tickMinStep=1)
    return x.axis(axis).scale(close_scale(scale, 12))


def _row(point: SelectionPoint) -> dict[str, object]:
    error = point.standard_error
    return {
        "sparsity": point.sparsity,
        "score": point.score,
        "low": None if error is None else point.score - error,
        "high": None if error is None else point.score + error,
        "written": number(point.score)
        if error is None
        else f"{number(point.score)} ± {number(error)}",
    }


def _tooltip(measure: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("sparsity:Q", title="Features", format=","),
        alt.Tooltip("written:N", title=_capital(measure)),
    ]


def _explanation(selection: Selection) -> str:
    tried = [point.sparsity for point in selection.points]
    cost = (
        f"It took {counted(selection.rounds, 'round')} and "
        f"{size(selection.bytes_down + selection.bytes_up)} in all."
    )
    return (
        f"Models with {min(tried):,} to {counted(max(tried), 'feature')} were compared "
        f"by {_means(selection)} (lower is better). {_choice(selection)} {_others(selection)}{cost}"
    )


def _others(selection: Selection) -> str:
    told = sentence_on_other_seeds(selection)
    return "" if told is None else f"Had the rows been cut otherwise: {told} "


def _means(selection: Selection) -> str:
    if selection.method == "cv":
        return f"cross-validation, that is, by {selection.measure}"
    return f"{selection.measure}, which weighs how well a model fits against how large it is"


def _choice(selection: Selection) -> str:
    if selection.chosen == selection.best:
        return f"The best has {_features(selection.best)}, and was taken."
    if selection.method == "cv" and selection.chosen < selection.best:
        return (
            f"The best has {_features(selection.best)}. The smallest that is worse by no more than "
            f"one standard error has {selection.chosen or 'none'}, and was taken."
        )
    return f"The best has {_features(selection.best)}; {selection.chosen:,} were taken."


def _features(count: int) -> str:
    return counted(count, "feature") if count else "no features"


def _key(selection: Selection) -> dict[str, Symbol]:
    has_errors = any(point.standard_error is not None for point in selection.points)
    best = {f"lowest: {selection.best:,}": Symbol("ring", FIRST)}
    return {
        f"chosen: {selection.chosen:,}": Symbol("diamond", SECOND),
        **({} if selection.best == selection.chosen else best),
        **({"± one standard error": Symbol("whisker", LINES)} if has_errors else {}),
    }


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
