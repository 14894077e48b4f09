"""The page of a fit, made from its summary alone."""

from pathlib import Path

from fedsparse.files import PathLike, ready_folder, write_atomically
from fedsparse.modelling.no_features import sentence_on_no_features
from fedsparse.modelling.summary import FitSummary
from fedsparse.report.fit.certainty_section import certainty_sections
from fedsparse.report.fit.convergence_section import convergence_sections
from fedsparse.report.fit.estimates_at_sites_section import estimates_at_sites_sections
from fedsparse.report.fit.evaluation_section import evaluation_sections
from fedsparse.report.fit.features_by_site_section import features_by_site_sections
from fedsparse.report.fit.features_section import features_sections
from fedsparse.report.fit.headline import headline
from fedsparse.report.fit.plain_sentences import without_options
from fedsparse.report.fit.provenance_section import provenance_sections
from fedsparse.report.fit.rows_section import rows_sections
from fedsparse.report.fit.selection_section import selection_sections
from fedsparse.report.fit.sites_section import sites_sections
from fedsparse.report.fit.stability_section import stability_sections
from fedsparse.report.fit.survival_section import survival_sections
from fedsparse.report.fit.tripod_section import tripod_sections
from fedsparse.report.page import Page, Section
from fedsparse.report.parts import Notes, Paragraph

REPORT = "report.html"
"""Its name in the folder of the results."""


def fit_page(summary: FitSummary) -> Page:
    """Lay out all that a summary says: the outcome first, then what it rests on.

    Parameters
    ----------
    summary
        Of the fit; what it does not have is left out.

    Examples
    --------
    >>> from fedsparse.modelling.model import Feature, Model
    >>> from fedsparse.modelling.summary import SiteCount
    >>> age = Feature(name="age", column="age", coefficients=(0.02,), mean=60.0, scale=10.0)
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(age,),
    ...               columns=(), settings={}, fingerprint="", versions={})
    >>> sites = (SiteCount(name="Bari", rows=80), SiteCount(name="Cork", rows=75))
    >>> page = fit_page(FitSummary(
    ...     title="LDL at two hospitals", created="2025-01-31T12:00", model=model, source="ldl.csv",
    ...     sites=sites, columns={"number": 12}, candidates=12, history=(), settings={}))
    >>> [section.heading for section in page.sections]
    ['The features that were chosen', 'Sites and rows', 'Where the rows went',
    'For a report by TRIPOD', 'Words on this page', 'How this was made']
    """
    model = summary.model
    sections = [
        *_notes(summary),
        *_no_features(summary),
        *features_sections(model, summary.stability),
        *certainty_sections(model),
        *estimates_at_sites_sections(summary),
        *evaluation_sections(summary.evaluation),
        *survival_sections(summary),
        *selection_sections(summary.selection),
        *stability_sections(summary.stability, {feature.name for feature in model.features}),
        *convergence_sections(summary),
        *sites_sections(summary),
        *features_by_site_sections(summary),
        *rows_sections(summary),
        *tripod_sections(summary),
        *provenance_sections(summary),
    ]
    return Page(summary.title, headline(summary), sections, is_narrow=True)


def save_fit(summary: FitSummary, folder: PathLike) -> None:
    """Write model, summary and report; nothing is written before all of it is there."""
    page, folder = fit_page(summary).html().encode(), Path(folder)
    ready_folder(folder)
    summary.model.save(folder / "model.json")
    summary.save(folder / "fit.json")
    write_atomically(folder / REPORT, page)


def _no_features(summary: FitSummary) -> list[Section]:
    """That it was found out that none predicts."""
    told = sentence_on_no_features(summary)
    return [] if told is None else [Section("No feature was chosen", [Paragraph(told)])]


def _notes(summary: FitSummary) -> list[Section]:
    every = (*filter(None, (summary.failure,)), *summary.notes)
    told = list(filter(None, map(without_options, every)))
    return [Section("", [Notes("Please note", told)])] if told else []
