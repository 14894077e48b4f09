"""What TRIPOD asks of a report on a prediction model, as far as it is known here.

Items follow Collins et al., Annals of Internal Medicine 2015, in words of our own.
"""

import polars as pl

from fedsparse.modelling.model import Model
from fedsparse.modelling.summary import FitSummary
from fedsparse.report.fit.readable_numbers import counted, number, quoted
from fedsparse.report.page import Section
from fedsparse.report.parts import Paragraph, Table

_UNKNOWN = "not known here; the authors have to say"

_INTRODUCTION = (
    "TRIPOD lists what a report on a prediction model should tell. What this page knows is "
    "answered or pointed to; what it cannot know is named, for those who write about the model."
)


def tripod_sections(summary: FitSummary) -> list[Section]:
    """Items of TRIPOD, each with its answer or whose it is.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> section = tripod_sections(FitSummary(title="LDL", created="", model=model, source="ldl.csv",
    ...     columns={}, sites=(), candidates=12, history=(), settings={}))[0]
    >>> section.parts[1].table.row(0)
    ('1 Title', 'LDL')
    >>> section.parts[1].table.filter(pl.col("Item") == "15a Full model")["Answer"].item()
    'see “The features that were chosen”; the intercept is 3.10'
    """
    rows = {
        "1 Title": summary.title,
        "3 Background and objectives": _UNKNOWN,
        "4a Source of data": f"{summary.source}; {_where(summary)}",
        "4b Dates of recruitment and follow-up": _UNKNOWN,
        "5a Setting": _sites(summary),
        "5b, c Eligibility, and treatments received": _UNKNOWN,
        "6a Outcome": _outcome(summary),
        "6b, 7b Blinding to outcome or predictors": _UNKNOWN,
        "7a Predictors": f"{counted(summary.candidates, 'feature')} to choose from"
        f"{_kinds(summary)}; how and when they were measured is {_UNKNOWN}",
        "8 Sample size": _sample_size(summary),
        "9 Missing data": _missing(summary),
        "10a, b Building the model": _building(summary),
        "10d, 16 Performance": "see “How good the model is”"
        if summary.evaluation is not None
        else "not measured on rows that the model had not seen",
        "11 Risk groups": "low, middle and high risk, by the model; see their curves"
        if summary.risk_groups
        else "none were made",
        "12, 17 Validation in other data": "none on this page; a page of its own can be made for "
        "rows that were collected elsewhere",
        "13a Flow of participants": "see “Where the rows went”",
        "13b Characteristics": "see “The chosen columns at the sites”"
        if summary.features_by_site
        else _UNKNOWN,
        "14b Unadjusted associations": "not worked out",
        "15a Full model": f"see “The features that were chosen”{_beside_features(summary.model)}",
        "15b How to use it": "the model file beside this page predicts for new rows",
        "18 to 20 Limitations, interpretation, implications": _UNKNOWN,
        "21 Supplementary information": "the settings and the fingerprint of the data are below",
        "22 Funding": _UNKNOWN,
    }
    table = pl.DataFrame({"Item": list(rows), "Answer": list(rows.values())})
    return [
        Section("For a report by TRIPOD", [Paragraph(_INTRODUCTION), Table(table, is_prose=True)])
    ]


def _where(summary: FitSummary) -> str:
    return "rows stayed at their sites" if summary.is_networked else "rows were in one place"


def _sites(summary: FitSummary) -> str:
    names = ", ".join(site.name for site in summary.sites[:20])
    more = len(summary.sites) - 20
    names += f" and {more:,} more" if more > 0 else ""
    return f"{counted(len(summary.sites), 'site')}: {names}"


def _outcome(summary: FitSummary) -> str:
    model = summary.model
    named, what = quoted(model.target), "a number"
    if model.event is not None:
        named, what = quoted(model.event), f"an event, and when it was: {named}"
    elif model.task == "counts":
        what = "a count" if model.exposure is None else f"a count, by {quoted(model.exposure)}"
    elif model.classes is not None:
        what = f"one of {', '.join(map(quoted, model.classes))}"
    return f"{named}, {what}; how it was assessed is {_UNKNOWN}"


def _beside_features(model: Model) -> str:
    """What predicts together with the features, which are told elsewhere."""
    if model.task == "survival":
        return "" if model.baseline is None else "; the model file has the baseline hazard"
    if model.task != "multiclass" or model.classes is None:
        return f"; the intercept is {number(model.intercepts[0])}"
    own = zip(model.classes, model.intercepts, strict=True)
    return f"; intercepts: {', '.join(f'{quoted(name)} {number(value)}' for name, value in own)}"


def _kinds(summary: FitSummary) -> str:
    kinds = [f"{count:,} {kind}" for kind, count in summary.columns.items()]
    return f" (columns: {', '.join(kinds)})" if kinds else ""


def _sample_size(summary: FitSummary) -> str:
    together = summary.together
    rows = sum(site.rows or 0 for site in summary.sites) if together is None else together.rows
    return f"{counted(rows or 0, 'row')}; how the size was arrived at is {_UNKNOWN}"


def _missing(summary: FitSummary) -> str:
    told = summary.settings.get("missing values")
    return f"{told}, anew without the rows held out" if told else "a missing value was refused"


def _building(summary: FitSummary) -> str:
    known = {
        "method": "method",
        "loss": "loss",
        "number of features": "number of features",
    }
    parts = [
        f"{name}: {summary.settings[key]}" for key, name in known.items() if key in summary.settings
    ]
    judged = "" if summary.evaluation is None else f"; judged on {summary.evaluation.held_out}"
    return ("; ".join(parts) or "see the settings below") + judged
