"""What the sites have of the features of a model: counts and means, from sums that were told."""

from collections.abc import Sequence

from fedsparse.modelling.model import Feature
from fedsparse.modelling.summary import FeatureAtSite, FeatureFacts
from fedsparse.tables import SiteDescription
from fedsparse.tables.agreeing import MINIMUM_ROWS
from fedsparse.tables.counting import Counts


def features_by_site(
    features: Sequence[Feature],
    descriptions: Sequence[SiteDescription] = (),
    counts: Counts | None = None,
    *,
    fewest: int = MINIMUM_ROWS,
) -> tuple[FeatureFacts, ...]:
    """Means, shares and missing values of features, by site where sites tell them.

    Parameters
    ----------
    features
        Of a model.
    descriptions
        What sites told of their tables, each as far as its policy allows.
    counts
        What was counted over all sites, where single ones tell nothing.
    fewest
        Nothing is said of fewer rows than this.

    Examples
    --------
    >>> import polars as pl
    >>> from fedsparse.tables import Roles, describe
    >>> frame = pl.DataFrame({"age": [61, 47, None], "relapse": [1, 0, 1]})
    >>> told = describe(frame, "Bari", Roles(target="relapse"))
    >>> age = Feature(name="age", column="age", coefficients=(0.1,), mean=54.0, scale=7.0)
    >>> features_by_site([age], [told], fewest=1)[0].at_sites
    (FeatureAtSite(site='Bari', rows=3, missing=1, mean=54.0),)
    """
    return tuple(_facts(feature, descriptions, counts, fewest) for feature in features)


def _facts(
    feature: Feature,
    descriptions: Sequence[SiteDescription],
    counts: Counts | None,
    fewest: int,
) -> FeatureFacts:
    at_sites = tuple(_at_site(site, feature, fewest) for site in descriptions)
    hidden = sum(own.missing is None for own in at_sites)
    return FeatureFacts(
        feature=feature.name,
        is_share=feature.level is not None,
        # What a single site keeps to itself would be the difference to all of them.
        missing=None if hidden == 1 else _missing(feature, descriptions, counts),
        at_sites=at_sites,
    )


def _missing(
    feature: Feature, descriptions: Sequence[SiteDescription], counts: Counts | None
) -> int | None:
    """Of all sites together."""
    if counts is not None:
        levels = counts.levels.get(feature.column)
        if levels is not None:
            return counts.rows - sum(levels.values())
        return counts.of_numbers().get(feature.column, {}).get("missing")
    own = [_place(site, feature.column) for site in descriptions]
    if not own or None in own:
        return None
    return sum(
        site.missing[place]
        for site, place in zip(descriptions, own, strict=True)
        if place is not None
    )


def _place(site: SiteDescription, column: str) -> int | None:
    return site.names.index(column) if column in site.names else None


def _at_site(site: SiteDescription, feature: Feature, fewest: int) -> FeatureAtSite:
    place = _place(site, feature.column)
    nothing = FeatureAtSite(site=site.site, rows=site.rows)
    if place is None:
        return nothing
    missing = site.missing[place]
    known = site.rows - missing
    if known < fewest:
        return nothing
    total = _total(site, feature)
    if total is None or (feature.level is not None and 0 < min(total, known - total) < fewest):
        mean = None
    else:
        mean = total / known
    is_told = missing == 0 or missing >= fewest
    return FeatureAtSite(
        site=site.site, rows=site.rows, missing=missing if is_told else None, mean=mean
    )


def _total(site: SiteDescription, feature: Feature) -> float | None:
    """Sum of a column's values, or rows of a level."""
    if feature.level is not None:
        count = site.levels.get(feature.column, {}).get(feature.level, 0)
        return float(count)
    names = site.number_names
    if feature.column not in names:
        return None
    return site.numbers.totals[names.index(feature.column)]
