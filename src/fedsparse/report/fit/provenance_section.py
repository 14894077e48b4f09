"""What the model was made from and with, so that it can be made again."""

from fedsparse.modelling.summary import FitSummary
from fedsparse.report.page import Section
from fedsparse.report.parts import Part, SettingsList, Subheading

GLOSSARY = {
    "Feature": "Something known of every row that a prediction can use, such as an age or the "
    "activity of a gene. A column of categories gives one feature for each category.",
    "Coefficient": "The weight of a feature in the prediction: what the prediction's score gains "
    "when the feature rises by one unit. Features that were not chosen have the weight zero.",
    "Site": "A place that holds rows, such as a hospital or a laboratory. Of its "
    "rows, learning needs sums only.",
    "Round": "One question of the server to all sites, and their answers.",
    "Cross-validation": "Some rows are put aside, a model learns from the others, and is tested on "
    "those put aside; in turn, until every row was put aside once.",
}
"""The words of the page that a reader may not know."""


def provenance_sections(summary: FitSummary) -> list[Section]:
    """Settings, versions and the fingerprint of the data, and the glossary.

    Examples
    --------
    >>> from fedsparse.modelling.model import Model
    >>> model = Model(task="regression", target="ldl", intercepts=(3.1,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> summary = FitSummary(
    ...     title="", created="", model=model, source="a.csv", columns={}, sites=(), candidates=12,
    ...     history=(), settings={})
    >>> [section.heading for section in provenance_sections(summary)]
    ['Words on this page', 'How this was made']
    """
    facts = {
        "Made": _moment(summary.created),
        "Data": summary.source,
        "Fingerprint of the data": summary.model.fingerprint,
        **{f"Version of {name}": version for name, version in summary.model.versions.items()},
    }
    made: list[Part] = [SettingsList({name: text for name, text in facts.items() if text})]
    if summary.settings:
        made += [Subheading("Settings"), SettingsList(summary.settings)]
    words = dict(GLOSSARY)
    if summary.selection is None and summary.evaluation is None:
        del words["Cross-validation"]
    return [
        Section("Words on this page", [SettingsList(words)]),
        Section("How this was made", made),
    ]


def _moment(created: str) -> str:
    """ISO 8601 to the minute, without its T."""
    return created[:16].replace("T", " ")
