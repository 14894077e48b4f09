"""The section on where the rows went: read, left out and why, learnt from, judged on."""

import polars as pl

from fedsparse.modelling.summary import FitSummary
from fedsparse.report.fit.readable_numbers import counted
from fedsparse.report.page import Section
from fedsparse.report.parts import Paragraph, Table


def rows_sections(summary: FitSummary) -> list[Section]:
    """The way of the rows; nothing where nobody told how many there are.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> from fedsparse.modelling.summary import SiteCount
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> summary = FitSummary(title="", created="", model=model, source="", columns={},
    ...     sites=(SiteCount(name="Bari", rows=80),), candidates=12, history=(), settings={})
    >>> rows_sections(summary)[0].parts[1].table["Rows"].to_list()
    ['80', '0', '80']
    """
    read = _read(summary)
    if read is None:
        return []
    absent = [site for site in summary.sites if not site.has_counted]
    lost = sum(site.rows or 0 for site in absent)
    of = counted(len(summary.sites), "site")
    why = (
        ", ".join(site.name for site in absent) + ": nothing of it was learnt"
        if absent
        else "a row whose outcome is missing stops the analysis; none is dropped silently"
    )
    steps = [
        ("In the tables", read, f"of {of}"),
        ("Left out", lost, why),
        ("Learnt from", read - lost, _filled(summary)),
    ]
    judged = _judged(summary)
    if judged is not None:
        steps.append(judged)
    table = pl.DataFrame(
        [{"Step": name, "Rows": f"{count:,}", "Why": text} for name, count, text in steps]
    )
    introduction = "From the tables to the model, and to the judgement of it."
    return [Section("Where the rows went", [Paragraph(introduction), Table(table, is_prose=True)])]


def _read(summary: FitSummary) -> int | None:
    if summary.together is not None:
        return summary.together.rows
    rows = [site.rows for site in summary.sites if site.rows is not None]
    return sum(rows) if rows and len(rows) == len(summary.sites) else None


def _filled(summary: FitSummary) -> str:
    """What became of missing values."""
    if "missing values" not in summary.settings:
        return "no value of a column that could be used was missing"
    lacking = [facts for facts in summary.features_by_site if facts.missing]
    if not lacking:
        return "missing values were filled with the mean of all sites; none in the chosen columns"
    values = counted(sum(facts.missing or 0 for facts in lacking), "value")
    return (
        f"missing values were filled with the mean of all sites, {values} of the chosen features "
        "among them"
    )


def _judged(summary: FitSummary) -> tuple[str, int, str] | None:
    scores = () if summary.evaluation is None else summary.evaluation.scores
    whole = [own for own in scores if own.method == "federated" and own.site is None]
    if not whole:
        return None
    assert summary.evaluation is not None
    return "Judged on", whole[0].rows, f"{summary.evaluation.held_out}, by models without them"
