"""Chart of what features do as more of them are allowed: a cell for each feature and number."""

import altair as alt

from fedsparse.modelling.summary import PathPoint, Selection
from fedsparse.report.fit.chart_axes import ROW, names_axis
from fedsparse.report.fit.feature_charts import FAINTEST, STRONGEST
from fedsparse.report.fit.readable_numbers import number
from fedsparse.report.style import FIRST, INK, PAPER, SECOND


def path_chart(selection: Selection) -> alt.LayerChart:
    """A map of colours: features from top to bottom in the order in which they come.

    Parameters
    ----------
    selection
        With a path.

    Examples
    --------
    >>> path = (PathPoint(sparsity=1, feature="age", effects=(0.5,)),)
    >>> chosen = Selection(method="ebic", measure="EBIC", points=(), best=1, chosen=1, rounds=3,
    ...                    bytes_down=0, bytes_up=0, path=path)
    >>> path_chart(chosen).to_dict()["height"]
    17
    """
    largest = max(map(_size, selection.path)) or 1.0
    rows = [_cell(point, largest) for point in selection.path]
    features = list(dict.fromkeys(point.feature for point in selection.path))
    tried = sorted({point.sparsity for point in selection.points} - {0})
    x = alt.X(
        "sparsity:O",
        title="Features (τ)",
        sort=None,
        scale=alt.Scale(domain=tried or sorted({point.sparsity for point in selection.path})),
        axis=alt.Axis(labelAngle=0, labelOverlap=True, ticks=False, domain=False),
    )
    base = alt.Chart(alt.InlineData(rows)).encode(
        x=x,
        y=alt.Y("feature:N", sort=features, title=None, axis=names_axis()),
        tooltip=[
            alt.Tooltip("feature:N", title="Feature"),
            alt.Tooltip("sparsity:Q", title="Features (τ)"),
            alt.Tooltip("written:N", title="Per standard deviation"),
        ],
    )
    colour = alt.when("datum.effect > 0").then(alt.value(FIRST)).otherwise(alt.value(SECOND))
    cells = base.mark_rect(stroke=PAPER, strokeWidth=1).encode(
        fill=colour, fillOpacity=alt.FillOpacity("opacity:Q", scale=None, legend=None)
    )
    chosen = alt.Chart(alt.InlineData([{"sparsity": selection.chosen}])).encode(x=x)
    frame = chosen.mark_rect(fill=None, stroke=INK, strokeWidth=1.5)
    layers = [cells, *([frame] if selection.chosen else [])]
    return alt.LayerChart(layer=layers).properties(
        width="container",
        height=ROW * len(features),
        description="Coefficients per standard deviation of the features that come first, for each "
        "number of features that was tried.",
    )


def _size(point: PathPoint) -> float:
    return max(map(abs, point.effects))


def _cell(point: PathPoint, largest: float) -> dict[str, object]:
    is_one = len(point.effects) == 1
    return {
        "feature": point.feature,
        "sparsity": point.sparsity,
        "effect": point.effects[0] if is_one else _size(point),
        "opacity": FAINTEST + (STRONGEST - FAINTEST) * _size(point) / largest,
        "written": ", ".join(number(effect) for effect in point.effects),
    }
