"""The section on what the sites have of the chosen features: means, shares, missing values."""

from collections.abc import Sequence

import polars as pl

from fedsparse.modelling.model import Feature
from fedsparse.modelling.summary import FeatureAtSite, FeatureFacts, FitSummary
from fedsparse.report.fit.feature_effects import MOST
from fedsparse.report.fit.readable_numbers import counted, number, percent
from fedsparse.report.page import Section
from fedsparse.report.parts import Paragraph, Part, Table

_MOST_SITES = 6
"""Columns of a table that can still be read."""

_NOT_TOLD = "not told"


def features_by_site_sections(summary: FitSummary) -> list[Section]:
    """A row for each feature, a column for each site; nothing if nothing was told.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> features_by_site_sections(FitSummary(title="", created="", model=model, source="",
    ...     columns={}, sites=(), candidates=12, history=(), settings={}))
    []
    """
    known = {facts.feature: facts for facts in summary.features_by_site}
    features = [own for own in summary.model.features if own.name in known]
    features = sorted(features, key=_smallness)[:MOST]
    if not any(_says_something(known[own.name]) for own in features):
        return []
    sites = _sites([known[own.name] for own in features])
    rows = [_line(own, known[own.name], sites) for own in features]
    parts: list[Part] = [Paragraph(_explanation(known, sites)), Table(pl.DataFrame(rows))]
    return [Section("The chosen columns at the sites", parts)]


def _smallness(feature: Feature) -> float:
    return -feature.scale * max(abs(value) for value in feature.coefficients)


def _says_something(facts: FeatureFacts) -> bool:
    return facts.missing is not None or bool(facts.at_sites)


def _sites(every: Sequence[FeatureFacts]) -> list[str]:
    """The largest sites, in the order of the table; none if there is one alone."""
    at_sites = every[0].at_sites
    if len(at_sites) < 2:
        return []
    largest = sorted(at_sites, key=lambda own: -(own.rows or 0))[:_MOST_SITES]
    return [own.site for own in at_sites if own in largest]


def _explanation(known: dict[str, FeatureFacts], sites: Sequence[str]) -> str:
    text = (
        "Means of the values that are there, and shares of rows for a level of a category, from "
        "the sums that sites told. Sites that differ much here may measure in other units, or see "
        "other people."
    )
    everyone = len(next(iter(known.values())).at_sites)
    if everyone > len(sites) > 0:
        text += f" The {len(sites)} largest of {counted(everyone, 'site')} are shown."
    if sites:
        text += " In brackets: missing values. What speaks of few rows is not told."
    if not everyone:
        text += " How sites differ was told to nobody: only sums over all of them are known."
    return text


def _line(feature: Feature, facts: FeatureFacts, sites: Sequence[str]) -> dict[str, str]:
    at_sites = {own.site: own for own in facts.at_sites}
    cells = {"Feature": feature.name, "All sites": _overall(feature, facts)}
    cells["Missing"] = _NOT_TOLD if facts.missing is None else f"{facts.missing:,}"
    return cells | {f"at {site}": _own(at_sites[site], facts.is_share) for site in sites}


def _overall(feature: Feature, facts: FeatureFacts) -> str:
    """The mean with which the model was learnt, else that of what sites told."""
    told = [own for own in facts.at_sites if own.mean is not None]
    if feature.scale != 1.0 and feature.mean:
        mean: float | None = feature.mean
    elif told and len(told) == len(facts.at_sites):
        weights = [(own.rows or 0) - (own.missing or 0) for own in told]
        total = sum(weights)
        mean = sum(w * (own.mean or 0) for w, own in zip(weights, told, strict=True)) / max(
            total, 1
        )
    else:
        mean = None
    if mean is None:
        return _NOT_TOLD
    if facts.is_share:
        return percent(mean)
    deviation = f" ± {number(feature.scale)}" if feature.scale != 1.0 else ""
    return f"{number(mean)}{deviation}"


def _own(at_site: FeatureAtSite, is_share: bool) -> str:
    if at_site.mean is None:
        return _NOT_TOLD
    mean = percent(at_site.mean) if is_share else number(at_site.mean)
    if at_site.missing == 0:
        return mean
    lacking = "few" if at_site.missing is None else f"{at_site.missing:,}"
    return f"{mean} ({lacking})"
