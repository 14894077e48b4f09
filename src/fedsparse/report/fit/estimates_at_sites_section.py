"""The section on what each site's own rows say of the chosen columns."""

from collections.abc import Sequence

import altair as alt
import polars as pl

from fedsparse.modelling.certainty import Estimated, HowSure, Interval
from fedsparse.modelling.model import Feature
from fedsparse.modelling.summary import EstimatesAtSites, FitSummary
from fedsparse.report.fit.chart_axes import names_axis
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.forest_chart import across, features_by_size, interval_text
from fedsparse.report.fit.readable_numbers import p_value_text, percent
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Key, Paragraph, Part, Symbol, Table
from fedsparse.report.style import FAINT, FIRST, INK

_ROW = 19
_MOST_CHARTS = 6
_MOST_SITES = 4
"""Columns of intervals that can still be read."""

_ALL = "All sites"


def estimates_at_sites_sections(summary: FitSummary) -> list[Section]:
    """A forest plot of sites for each of the first features, and a table; nothing if none told.

    Examples
    --------
    >>> from fedsparse.modelling.certainty import LEVEL, Certainty
    >>> from fedsparse.modelling.model import Model
    >>> own = Estimated.of(Interval.of(0.5, 0.1, 0.9), 9.0, has_ratio=False, p_value=0.01)
    >>> age = Feature(name="age", column="age", coefficients=(0.5,), mean=50.0, scale=9.0,
    ...               certainty=Certainty(refitted=own))
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(age,),
    ...               columns=(), settings={}, fingerprint="", versions={},
    ...               how_sure=HowSure(level=LEVEL, ratio=None, splits=0, exchanges=9))
    >>> told = EstimatesAtSites(feature="age", by_site={"Bari": own, "Cork": own},
    ...                         inconsistency=0.0, p_value=1.0)
    >>> [section] = estimates_at_sites_sections(FitSummary(title="", created="", model=model,
    ...     source="", columns={}, sites=(), candidates=12, history=(), settings={},
    ...     estimates_at_sites=(told,)))
    >>> section.heading
    'What the rows of each site say'
    """
    sure = summary.model.how_sure
    told = {own.feature: own for own in summary.estimates_at_sites}
    features = [own for own in features_by_size(summary.model)[:MOST] if own.name in told]
    if sure is None or not features:
        return []
    parts: list[Part] = [
        Paragraph(_explanation(sure)),
        Key(
            {
                "a site, by its own rows": Symbol("ring", FIRST),
                "all sites together": Symbol("circle", INK),
                "no effect": Symbol("dashes", FAINT),
            }
        ),
        Charts([_chart(own, told[own.name], sure) for own in features[:_MOST_CHARTS]]),
        Table(_table(features, told, sure, summary)),
        Paragraph(_hint(sure, told, summary), is_hint=True),
    ]
    return [Section("What the rows of each site say", parts)]


def _what(sure: HowSure) -> str:
    return sure.ratio or "coefficient"


def _explanation(sure: HowSure) -> str:
    return (
        f"The {_what(sure)} of each chosen feature, estimated again by every site on its own rows "
        f"alone, without shrinkage, with {percent(sure.level)} intervals as if the features had "
        "been chosen beforehand. Sites that disagree more than their intervals allow may measure "
        "otherwise, or see other people; the line of all sites is then an average of different "
        "things."
    )


def _of(own: Estimated | None, sure: HowSure) -> Interval | None:
    if own is None:
        return None
    return own.per_deviation if sure.ratio is None else own.ratio_per_deviation


def _chart(feature: Feature, told: EstimatesAtSites, sure: HowSure) -> alt.LayerChart:
    """Sites from top to bottom, then all of them."""
    refitted = None if feature.certainty is None else feature.certainty.refitted
    rows = [
        {
            "site": site,
            "value": own.value,
            "low": own.low,
            "high": own.high,
            "written": interval_text(own),
            "is_all": site == _ALL,
        }
        for site, estimate in {**told.by_site, _ALL: refitted}.items()
        if (own := _of(estimate, sure)) is not None
    ]
    scale, axis = across(rows, is_ratio=sure.ratio is not None)
    title = f"{_what(sure).capitalize()} per standard deviation"
    base = alt.Chart(alt.InlineData(rows)).encode(
        y=alt.Y("site:N", sort=None, title=None, axis=names_axis(has_lines=True)),
        color=alt.condition("datum.is_all", alt.value(INK), alt.value(FIRST)),
        tooltip=[
            alt.Tooltip("site:N", title="Site"),
            alt.Tooltip("written:N", title=title),
        ],
    )
    bars = base.transform_filter("datum.low != null && datum.high != null").mark_rule(
        strokeWidth=1.5, clip=True
    )
    marks = base.mark_point(opacity=1, clip=True, size=50, shape="circle").encode(
        x=alt.X("value:Q", title=title, scale=scale, axis=axis),
        fill=alt.condition("datum.is_all", alt.value(INK), alt.value("transparent")),
    )
    none = alt.Chart(alt.InlineData([{"value": 0.0 if sure.ratio is None else 1.0}])).mark_rule(
        stroke=FAINT, strokeDash=[4, 3], strokeWidth=1.5
    )
    return alt.LayerChart(
        layer=[
            none.encode(x=alt.X("value:Q", scale=scale)),
            bars.encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
            marks,
        ]
    ).properties(
        title=alt.Title(feature.name, fontSize=13),
        width="container",
        height=_ROW * len(rows),
        description=f"Forest plot of sites for {feature.name}: {title.lower()} with intervals; "
        "the table below has the same numbers.",
    )


def _shown(told: dict[str, EstimatesAtSites], summary: FitSummary) -> list[str]:
    """The largest sites, in their order."""
    names = list(next(iter(told.values())).by_site)
    rows = {site.name: site.rows or 0 for site in summary.sites}
    largest = sorted(names, key=lambda name: -rows.get(name, 0))[:_MOST_SITES]
    return [name for name in names if name in largest]


def _table(
    features: Sequence[Feature],
    told: dict[str, EstimatesAtSites],
    sure: HowSure,
    summary: FitSummary,
) -> pl.DataFrame:
    sites = _shown(told, summary)
    lines = []
    for feature in features:
        own = told[feature.name]
        line = {"Feature": feature.name}
        line["I²"] = "–" if own.inconsistency is None else percent(own.inconsistency)
        line["p-value"] = p_value_text(own.p_value)
        line |= {f"at {site}": interval_text(_of(own.by_site[site], sure)) for site in sites}
        lines.append(line)
    return pl.DataFrame(lines)


def _hint(sure: HowSure, told: dict[str, EstimatesAtSites], summary: FitSummary) -> str:
    sites, everyone = _shown(told, summary), next(iter(told.values())).by_site
    which = f"The {len(sites)} largest sites are shown. " if len(sites) < len(everyone) else ""
    return (
        f"{which}{_what(sure).capitalize()} per standard deviation of the feature over all sites. "
        "A dash: the site’s rows cannot tell, being too few or too much alike, or its policy keeps "
        "it back. I²: the share of the differences between sites that chance does not explain "
        "(Higgins and Thompson, 2002). p-value: that it is the same at all sites (Cochran’s Q)."
    )
