"""The section on how surely the features belong to the model."""

from collections.abc import Collection, Sequence

import altair as alt

from fedsparse.modelling.summary import FeatureStability, Stability
from fedsparse.report.fit.chart_axes import ROW, names_axis
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.readable_numbers import counted, percent
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Key, Paragraph, Part, Symbol
from fedsparse.report.style import FAINT, FIRST, INK, PAPER


def stability_sections(stability: Stability | None, chosen: Collection[str]) -> list[Section]:
    """How often features are chosen from half of the rows.

    Parameters
    ----------
    stability
        Nothing is shown without it.
    chosen
        Names of the features of the model.

    Examples
    --------
    >>> age = FeatureStability(feature="age", frequency=0.98)
    >>> halves = Stability(subsamples=100, sparsity=5, threshold=0.75, expected_false=0.4,
    ...                    features=(age,), rounds=30)
    >>> [section.heading for section in stability_sections(halves, ["age"])]
    ['How surely the features belong']
    """
    if stability is None or not stability.features:
        return []
    shown = stability.features[:MOST]
    parts: list[Part] = [
        Paragraph(_explanation(stability)),
        Key(_key(shown, chosen)),
        Charts([stability_chart(shown, stability.threshold, chosen)]),
        *_hint(stability),
    ]
    return [Section("How surely the features belong", parts)]


def stability_chart(
    shown: Sequence[FeatureStability], threshold: float, chosen: Collection[str]
) -> alt.LayerChart:
    """Share of half-samples that choose each feature, with the threshold as a line.

    Parameters
    ----------
    shown
        From top to bottom.
    threshold
        From here on, features are called stable.
    chosen
        Names of the features of the model; the others are hollow.

    Examples
    --------
    >>> chart = stability_chart([FeatureStability(feature="age", frequency=0.98)], 0.75, ["age"])
    >>> chart.to_dict()["height"]
    17
    """
    base = alt.Chart(alt.InlineData([_row(each, chosen) for each in shown])).encode(
        y=alt.Y("feature:N", sort=None, title=None, axis=names_axis(has_lines=True))
    )
    axis = alt.Axis(format=".0%", tickCount=5, grid=False)
    x = alt.X("frequency:Q", title="Share of fits that choose the feature", axis=axis)
    fill = alt.when("datum.chosen").then(alt.value(FIRST)).otherwise(alt.value(PAPER))
    dots = base.mark_point(size=70, stroke=FIRST, strokeWidth=2, opacity=1).encode(
        x=x.scale(domain=[0, 1]), fill=fill, tooltip=_tooltip(shown)
    )
    left_out = base.mark_tick(color=INK, thickness=2, height=12).encode(x="without_a_site:Q")
    line = (
        alt.Chart(alt.InlineData([{"threshold": threshold}]))
        .mark_rule(stroke=FAINT, strokeDash=[4, 3], strokeWidth=1.5)
        .encode(x="threshold:Q")
    )
    layers = [line, *([left_out] if _has_left_out(shown) else []), dots]
    return alt.LayerChart(layer=layers).properties(
        width="container",
        height=ROW * len(shown),
        description="Dot chart of how often each feature is chosen from random halves of the "
        f"rows, with a line at {percent(threshold)}.",
    )


def _row(each: FeatureStability, chosen: Collection[str]) -> dict[str, object]:
    left_out = each.without_a_site
    return {
        "feature": each.feature,
        "frequency": each.frequency,
        "written": percent(each.frequency),
        "without_a_site": left_out,
        "without_a_site_written": "–" if left_out is None else percent(left_out),
        "chosen": each.feature in chosen,
        "in_model": "yes" if each.feature in chosen else "no",
    }


def _tooltip(shown: Sequence[FeatureStability]) -> list[alt.Tooltip]:
    fields = {
        "feature": "Feature",
        "written": "From half of the rows",
        **({"without_a_site_written": "Without a site"} if _has_left_out(shown) else {}),
        "in_model": "In the model",
    }
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in fields.items()]


def _has_left_out(shown: Sequence[FeatureStability]) -> bool:
    return any(each.without_a_site is not None for each in shown)


def _explanation(stability: Stability) -> str:
    stable = [each for each in stability.features if each.frequency >= stability.threshold]
    often = percent(stability.threshold)
    text = (
        f"The choice was repeated {stability.subsamples:,} times, each time with a random half of "
        f"every site's rows. A feature is called stable if at least {often} of the repetitions "
        f"choose it: {_stable_count(len(stable))}."
    )
    if not stable:
        return text
    return (
        f"{text} Under the assumptions of the method, no more than "
        f"{stability.expected_false:.2g} of the stable features {_are_expected(stability)} "
        "to be there by chance."
    )


def _stable_count(count: int) -> str:
    if count == 0:
        return "none is"
    return f"{count:,} {'is' if count == 1 else 'are'}"


def _are_expected(stability: Stability) -> str:
    return "is expected" if stability.expected_false <= 1 else "are expected"


def _key(shown: Sequence[FeatureStability], chosen: Collection[str]) -> dict[str, Symbol]:
    has_others = any(each.feature not in chosen for each in shown)
    return {
        "in the model": Symbol("circle", FIRST),
        **({"not in the model": Symbol("ring", FIRST)} if has_others else {}),
        **(
            {"share of fits without one of the sites": Symbol("tick", INK)}
            if _has_left_out(shown)
            else {}
        ),
        "called stable from here on": Symbol("dashes", FAINT),
    }


def _hint(stability: Stability) -> list[Part]:
    count = len(stability.features)
    if count <= MOST:
        return []
    text = f"The {MOST} most frequent of {counted(count, 'feature')} that were ever chosen."
    return [Paragraph(text, is_hint=True)]
