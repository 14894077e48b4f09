"""A site's own page of a run: what was asked, what left, and how the model does on its rows.

It is written beside the ledger, for the site's people. Nobody else is told what it says.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import polars as pl

from fedsparse.arrays import AnyArray, FloatArray
from fedsparse.errors import DataError
from fedsparse.federation.sites.chained_file import Record
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site_tables import NamedTable, NumberedTable, SiteTable
from fedsparse.modelling.model import Model
from fedsparse.modelling.scoring import exposures_of, judged_scores, null_scores, targets_of
from fedsparse.report.fit.metric_words import metric_of
from fedsparse.report.fit.readable_numbers import counted, number, quoted, size
from fedsparse.report.page import Page, Section
from fedsparse.report.parts import Notes, Paragraph, Part, SettingsList, Table

_TOLD_BY = {
    "ColumnSums": "how many rows there are, and the sum of every column",
    "ColumnSquares": "how much every column varies",
    "Count": "how many rows there are, lack a value, stand out, or have a level or class",
    "Curvature": "how the loss bends along pairs of features, summed over rows",
    "Evaluate": "how large the loss of a model is, one number for all rows",
    "Gradient": "which way the loss falls, summed over rows",
    "Judge": "how well a model predicts, as counts and sums over rows",
    "JudgeCounts": "how well a model predicts counts, as sums over rows",
    "JudgeCountsAlone": "how well a model of this site alone predicts counts, as sums over rows",
    "JudgeSurvival": "how well a model orders times, as counts of pairs and sums over rows",
    "JudgeSurvivalAlone": "how well a model of this site alone orders times, as sums over rows",
    "SurvivalCounts": "how many had an event by time, among low, middle and high risks",
    "SurvivalMoments": "sums of risks and of times",
    "JudgeAlone": "how well a model of this site alone predicts, as counts and sums over rows",
    "NoBetterThanNull": "whether a model predicts no better than one guess for all rows, 0 or 1",
    "LocalSteps": "a model after some steps on this site's rows",
    "CorrectedSteps": "a model after some steps on this site's rows, led by those of all sites",
    "ScoreCounts": "how many rows of each class have which predicted probability, in bins",
    "ShiftedLasso": "a model that this site solved for",
    "Slopes": "which way the loss falls and how it bends, summed over rows",
    "Smoothness": "how steep the loss can get, one number",
    "SmoothnessAbove": "above which of some thresholds that lies",
}
_WAYS = {
    "open": "the server saw what this site answered.",
    "secure": "masked, so that the server could read the sum over several sites and nothing else.",
}
_DECISIVE = {"R²": False, "log-loss": True, "deviance": True, "log-likelihood gained": False}
"""Metrics by which a model is better than none, and whether lower is better."""

_GUESSES = {
    "regression": "the mean", "binary": "the shares of the classes",
    "multiclass": "the shares of the classes", "counts": "one rate", "survival": "the same risk",
}  # fmt: skip

_MOST_MESSAGES = 40
_MOST_FEATURES = 50
_SHOWN_DIGITS = 8


def write_site_page(
    folder: Path,
    site: str,
    run: int,
    records: Iterable[Record],
    *,
    policy: Policy,
    model: Model,
    table: SiteTable,
) -> Path:
    """Write the page of a run into the ledger's folder, and say where it is.

    Parameters
    ----------
    folder
        That of the ledger.
    site
        The site's name.
    run
        Which training.
    records
        Those of the ledger; what is of other runs is left out.
    policy
        What the site answered by.
    model
        What came of the run.
    table
        The site's rows.
    """
    own = [record for record in records if record.told.get("run") == str(run)]
    path = folder / f"run-{run}.html"
    site_page(site, own, policy=policy, model=model, table=table).save(path)
    return path


def site_page(
    site: str, records: Sequence[Record], *, policy: Policy, model: Model, table: SiteTable
) -> Page:
    """Lay out what the records of a run say, and the model on the site's own rows.

    Parameters
    ----------
    site, records, policy, model, table
        As in `write_site_page`; the records are those of the run.

    Examples
    --------
    >>> from datetime import UTC
    >>> told = {"run": "7", "server": "localhost", "table": "", "left": 830, "digest": "9c",
    ...         "answers": 2, "asked": {"Slopes": 2}, "sums": "open", "kept back": 0}
    >>> asked = Record(2, datetime(2026, 11, 18, 14, 3, tzinfo=UTC), "answered", told, "b0")
    >>> model = Model(task="regression", target="days", intercepts=(2.0,), features=(), columns=(),
    ...               settings={}, fingerprint="", versions={})
    >>> table = NamedTable(pl.DataFrame({"age": [61, 47], "days": [1.0, 3.0]}), "days")
    >>> page = site_page("bari", [asked], policy=Policy(), model=model, table=table)
    >>> [section.heading for section in page.sections][:3]
    ['The model on your own rows', 'What was asked', 'What left']
    """
    answered = [record for record in records if record.event in ("answered", "described")]
    refused = [record for record in records if record.event == "refused"]
    return Page(
        f"{site}: what was asked, and what left",
        _introduction(records, answered, refused, model),
        [
            Section("The model on your own rows", _on_own_rows(model, table)),
            Section("What was asked", _asked(answered)),
            Section("What left", _left(answered)),
            Section("What was refused", _refused(refused)),
            Section("What the rules kept back", _kept_back(answered, policy)),
            Section("The model", _model(model)),
            Section("Message by message", _messages(answered)),
            Section("To check all of it", _provenance(records, model)),
        ],
        is_narrow=True,
        is_drawn=False,
    )


def _introduction(
    records: Sequence[Record], answered: Sequence[Record], refused: Sequence[Record], model: Model
) -> str:
    if not records:
        return "The ledger has no record of this run."
    first = records[0]
    left = sum(record.told["left"] for record in answered)
    was_refused = (
        f"{counted(len(refused), 'message')} {'was' if len(refused) == 1 else 'were'} refused"
        if refused
        else "nothing was refused"
    )
    return (
        f"On {first.at:%d %B %Y} the server {first.told['server']} learnt to predict "
        f"{quoted(model.target)} (run {first.told['run']}). It was given "
        f"{counted(_answers(answered), 'answer')} in {counted(len(answered), 'message')}, "
        f"{size(left)} in all, and {was_refused}. No row was sent. "
        "This page is for this site alone: nobody else is told what it says."
    )


def _answers(answered: Iterable[Record]) -> int:
    return sum(record.told["answers"] for record in answered)


def _on_own_rows(model: Model, table: SiteTable) -> list[Part]:
    try:
        features, targets, exposures = _seen_by(model, table)
    except DataError as error:
        return [Notes("The model could not be tried on your rows", [str(error)])]
    if not targets.size:
        return [Paragraph("There are no rows to try it on.")]
    guessed = null_scores(model, targets, exposures)
    own = judged_scores(model, targets, model.scores(features), exposures).metrics()
    none = judged_scores(model, targets, guessed, exposures).metrics()
    rows = [
        (metric_of(name).label, metric_of(name).text(value), metric_of(name).text(none[name]),
         metric_of(name).meaning)
        for name, value in own.items()
    ]  # fmt: skip
    names = ["measure", "the model", "no features at all", "what it means"]
    return [
        Paragraph(_verdict(own, none, targets.size)),
        Table(pl.DataFrame(rows, schema=names, orient="row"), is_prose=True),
        Paragraph(
            f"“No features at all” always predicts {_GUESSES[model.task]} of your rows. The "
            "model has learnt from these rows, among others, so the figures flatter it; the "
            "server's report tells how it does on rows it has not seen.",
            is_hint=True,
        ),
    ]


def _seen_by(model: Model, table: SiteTable) -> tuple[FloatArray, AnyArray, FloatArray | None]:
    """The model's features of a site's rows, their targets and exposures."""
    where = "this site's table"
    if isinstance(table, NamedTable):
        frame, features = table.frame, model.features_of(table.frame, where)
    else:
        assert isinstance(table, NumberedTable)
        frame = pl.DataFrame({model.target: table.targets})
        features = model.features_of_numbered(table.features, where)
    return features, targets_of(model, frame, where), exposures_of(model, frame, where)


def _verdict(own: dict[str, float | None], none: dict[str, float | None], rows: int) -> str:
    (name,) = own.keys() & _DECISIVE.keys()
    mine, theirs = own[name], none[name]
    on = f"On your {counted(rows, 'row')}"
    if mine is None or theirs is None:
        return f"{on} the target does not vary, so nothing can be said about the model."
    is_better = mine < theirs if _DECISIVE[name] else mine > theirs
    if is_better:
        return f"{on} the model predicts better than no features at all would."
    return (
        f"{on} the model predicts no better than no features at all would. It may not suit your "
        "patients or samples, or something went wrong on the way: ask whoever runs the server."
    )


def _asked(answered: Sequence[Record]) -> list[Part]:
    kinds: Counter[str] = Counter()
    for record in answered:
        kinds.update(record.told.get("asked", {}))
    descriptions = sum(record.event == "described" for record in answered)
    rows = [(kind, _TOLD_BY.get(kind, "–"), f"{count:,}") for kind, count in kinds.most_common()]
    if descriptions:
        told = "names and kinds of columns, and levels; with open sums also counts and sums"
        rows = [("Description of the table", told, f"{descriptions:,}"), *rows]
    if not rows:
        return [Paragraph("Nothing.")]
    schema = ["kind of question", "what the answer tells", "times"]
    return [
        Table(pl.DataFrame(rows, schema=schema, orient="row"), is_prose=True),
        Paragraph(f"The first came at {_clock(answered[0].at)} and the last at "
                  f"{_clock(answered[-1].at)} (UTC)."),
    ]  # fmt: skip


def _left(answered: Sequence[Record]) -> list[Part]:
    if not answered:
        return [Paragraph("Nothing.")]
    described = [record for record in answered if record.event == "described"]
    facts = {}
    if described:
        facts["Description"] = f"{_amount(described)}: the server saw how the table is described."
    for way, meaning in _WAYS.items():
        own = [record for record in answered if record.told.get("sums") == way]
        if own:
            facts[f"{way.capitalize()} sums"] = (
                f"{counted(_answers(own), 'answer')} in {_amount(own)}: {meaning}"
            )
    return [SettingsList(facts)]


def _amount(records: Sequence[Record]) -> str:
    left = size(sum(record.told["left"] for record in records))
    return f"{counted(len(records), 'message')}, {left}"


def _messages(answered: Sequence[Record]) -> list[Part]:
    if not answered:
        return [Paragraph("There was none.")]
    rows = [
        (
            _clock(record.at),
            f"{record.told['answers']:,}",
            size(record.told["left"]),
            record.told["digest"][:_SHOWN_DIGITS],
        )
        for record in answered[:_MOST_MESSAGES]
    ]
    schema = ["UTC", "answers", "size", "digest"]
    parts: list[Part] = [Table(pl.DataFrame(rows, schema=schema, orient="row"))]
    others = len(answered) - _MOST_MESSAGES
    if others > 0:
        parts.append(Paragraph(f"{counted(others, 'more message')} followed; the ledger has all."))
    hint = (
        "A digest stands for the bytes that were sent: who has kept them can show that they are "
        "the ones."
    )
    return [*parts, Paragraph(hint, is_hint=True)]


def _refused(refused: Sequence[Record]) -> list[Part]:
    if not refused:
        return [Paragraph("Nothing.")]
    reasons = Counter(record.told["reason"] for record in refused)
    rows = [(reason, f"{count:,}") for reason, count in reasons.most_common()]
    return [Table(pl.DataFrame(rows, schema=["why", "messages"], orient="row"), is_prose=True)]


def _kept_back(answered: Sequence[Record], policy: Policy) -> list[Part]:
    parts: list[Part] = []
    described = next((record for record in answered if "withheld" in record.told), None)
    if described is not None:
        names, count = described.told["such as"], described.told["withheld"]
        more = f" and {count - len(names):,} more" if count > len(names) else ""
        parts.append(
            Paragraph(
                f"Of {counted(count, 'column')} nothing but the name was told, because fewer than "
                f"{policy.smallest_samples} rows have some value: "
                f"{', '.join(map(quoted, names))}{more}."
            )
        )
    kept = sum(record.told.get("kept back", 0) for record in answered)
    if kept:
        parts.append(
            Paragraph(
                f"{counted(kept, 'question')} got no answer, because none or too few of your rows "
                "were asked about."
            )
        )
    rules = {
        "Fewest rows": f"{policy.smallest_samples:,} that anything told may speak of",
        "Answers on a table": f"at most {policy.most_answers:,}, ever",
        "Answers in 30 days": f"at most {policy.most_answers_per_month:,}",
        "Parts of rows": f"at most {policy.most_parts:,}",
    }
    return [*(parts or [Paragraph("Nothing.")]), SettingsList(rules)]


def _model(model: Model) -> list[Part]:
    if not model.features:
        return [Paragraph("It uses no features.")]
    heads = ["coefficient"]
    if model.task == "multiclass":
        heads = [f"coefficient for {label}" for label in model.classes or ()]
    rows = [
        (feature.name, *map(number, feature.coefficients))
        for feature in model.features[:_MOST_FEATURES]
    ]
    parts: list[Part] = [Table(pl.DataFrame(rows, schema=["feature", *heads], orient="row"))]
    others = len(model.features) - _MOST_FEATURES
    if others > 0:
        parts.append(Paragraph(f"{counted(others, 'more feature')} are in the server's report."))
    return parts


def _provenance(records: Sequence[Record], model: Model) -> list[Part]:
    facts = {"Data, as the model names them": model.fingerprint}
    if records:
        last = records[-1]
        facts |= {
            "Table": last.told["table"],
            "Records": f"{records[0].number:,} to {last.number:,} of the ledger",
            "Hash of the last": last.hash,
        }
    shown = {name: text for name, text in facts.items() if text}
    hint = "fedsparse federation ledger FOLDER --verify says whether a record was changed."
    return [SettingsList(shown), Paragraph(hint, is_hint=True)]


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}"
