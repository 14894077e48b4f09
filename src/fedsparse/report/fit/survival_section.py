"""The section on survival by risk: Kaplan and Meier's curves of groups of rows."""

import altair as alt
import polars as pl

from fedsparse.modelling.summary import FitSummary, RiskGroup
from fedsparse.modelling.survival_by_risk import ENOUGH_AT_RISK
from fedsparse.report.fit.readable_numbers import percent, quoted
from fedsparse.report.page import Section
from fedsparse.report.parts import Charts, Key, Paragraph, Part, Symbol, Table
from fedsparse.report.points import csv_data
from fedsparse.report.style import FIRST, SECOND, THIRD

_GROUPS = ("low risk", "middle risk", "high risk")
_SYMBOLS = {
    "low risk": Symbol("circle", FIRST),
    "middle risk": Symbol("square", THIRD),
    "high risk": Symbol("triangle", SECOND),
}
_HEIGHT = 260


def survival_sections(summary: FitSummary) -> list[Section]:
    """Curves of low, middle and high risks; nothing where they are not known.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> model = Model(task="survival", target="months", event="died", intercepts=(0.0,),
    ...               features=(), columns=(), settings={}, fingerprint="", versions={})
    >>> group = RiskGroup(rows=9, events=5, times=(5.0,), survival=(0.4,), at_risk=(9,))
    >>> summary = FitSummary(title="", created="", model=model, source="", sites=(), columns={},
    ...                      candidates=9, history=(), settings={}, risk_groups=(group,) * 3)
    >>> [section.heading for section in survival_sections(summary)]
    ['Survival by risk']
    """
    model, groups = summary.model, dict(zip(_GROUPS, summary.risk_groups, strict=False))
    if model.task != "survival" or not any(group.times for group in groups.values()):
        return []
    parts: list[Part] = [
        Paragraph(
            f"Share of rows without {quoted(model.predicted)} up to a time, for rows whose "
            "predicted risk is low, middling or high: about a third each. The model has learnt "
            "from these very rows, so the groups lie further apart than those of new rows would."
        ),
        Key({name: _SYMBOLS[name] for name in groups}),
        Charts([_chart(model.target, groups)]),
        Table(_table(model.predicted, groups)),
        Paragraph(
            "Kaplan and Meier's curve, from counts over bins of time that the sites added up. "
            "What fewer rows have than a site may tell is counted with another bin. So a curve has "
            "points where events were counted and straight lines between them, steps may come a "
            "little late, and rows of groups that are too small are left out. It ends with the "
            f"last of its events, or where fewer than {ENOUGH_AT_RISK} of its rows are left. "
            "Coefficients compare rows of the same site alone; these curves and the baseline "
            "hazard, by which survival at a time is predicted, are pooled over all sites, as if "
            "the hazard of an average row were the same at each. Where sites differ in it, a "
            "site's own survival lies beside what is predicted.",
            is_hint=True,
        ),
    ]
    return [Section("Survival by risk", parts)]


def _chart(time: str, groups: dict[str, RiskGroup]) -> alt.LayerChart:
    points = [
        {"group": name, "time": at, "survival": share}
        for name, group in groups.items()
        for at, share in zip((0.0, *group.times), (1.0, *group.survival), strict=True)
    ]
    colours = [_SYMBOLS[name].colour for name in groups]
    lines = alt.Chart(csv_data(pl.DataFrame(points))).mark_line(
        strokeWidth=2, point=alt.OverlayMarkDef(size=30)
    )
    encoded = lines.encode(
        x=alt.X("time:Q", title=time, axis=alt.Axis(tickCount=6)),
        y=alt.Y(
            "survival:Q",
            title="without the event",
            axis=alt.Axis(format=".0%"),
            scale=alt.Scale(domain=[0, 1]),
        ),
        color=alt.Color(
            "group:N", legend=None, scale=alt.Scale(domain=list(groups), range=colours)
        ),
        tooltip=[
            alt.Tooltip("group:N", title="Rows of"),
            alt.Tooltip("time:Q", title=time),
            alt.Tooltip("survival:Q", title="Without the event", format=".0%"),
        ],
    )
    return alt.LayerChart(layer=[encoded]).properties(
        width="container",
        height=_HEIGHT,
        description="Curves of the share of rows without the event over time, by risk.",
    )


def _table(event: str, groups: dict[str, RiskGroup]) -> pl.DataFrame:
    """Rows, events, and the share without one at a few times, where a curve has a point."""
    times = sorted(set().union(*(group.times for group in groups.values())))
    chosen = times[:: max(len(times) // 3, 1)][:4]
    lines = []
    for name, group in groups.items():
        known = dict(zip(group.times, group.survival, strict=True))
        lines.append(
            {
                "Rows of": name,
                "Rows": f"{group.rows:,}",
                f"With {quoted(event)}": f"{group.events:,}",
                **{
                    f"Without, at {at:g}": percent(known[at]) if at in known else "–"
                    for at in chosen
                },
            }
        )
    return pl.DataFrame(lines)
