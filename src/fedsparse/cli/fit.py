"""``fedsparse fit``: a table in, a model that a person can read and a report out."""

from collections.abc import Sequence
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedsparse.cli.certainty import print_certainty
from fedsparse.cli.options import (
    Json,
    SiteColumn,
    TableFiles,
    Target,
    WithoutFields,
    offers_settings,
)
from fedsparse.cli.printing import print_table, say, shown, with_interval
from fedsparse.cli.progress import Bar
from fedsparse.errors import OptionError
from fedsparse.files import ready_folder
from fedsparse.modelling.model import RATIOS
from fedsparse.modelling.specification import FitSpecification

if TYPE_CHECKING:
    from fedsparse.modelling.model import Feature, Model
    from fedsparse.modelling.summary import ClassCurves, FitSummary, Selection
    from fedsparse.tables import Loaded

_MOST_SHOWN = 30


@offers_settings
def fit(
    tables: TableFiles,
    target: Target = None,
    site: SiteColumn = None,
    *,
    specification: Annotated[
        FitSpecification, WithoutFields("sparsities", "folds", "evaluate_every")
    ],
    out: Annotated[Path, typer.Option(help="Folder for model.json and report.html.")] = Path(
        "fedsparse-fit"
    ),
    overwrite: Annotated[bool, typer.Option(help="Replace a model already there.")] = False,
    json: Json = False,
) -> None:
    """Find the few columns that predict a target, across sites that keep their rows."""
    specification.algorithm()  # refuses a method that cannot be used before anything is read
    check_out(out, overwrite)
    end_with(fit_tables(tables, target, site, specification, out, json=json))


def fit_tables(
    tables: list[Path],
    target: str | None,
    site: str | None,
    specification: FitSpecification,
    out: Path,
    *,
    json: bool = False,
) -> "FitSummary":
    """Fit, print what came of it, and write model and report.

    Parameters
    ----------
    tables
        One file, or one per site.
    target, site
        Columns; None as on the command line.
    specification
        What to work out.
    out
        Folder for model and report.
    json
        Print JSON instead of tables.
    """
    from fedsparse.modelling.scoring import file_digest
    from fedsparse.modelling.tables_in_one_place import analyse
    from fedsparse.report.fit import save_fit
    from fedsparse.tables import load_tables

    with Bar() as bar:
        bar.show("reading")
        loaded = load_tables(
            tables,
            specification.roles(target, site),
            task=specification.task,
            impute=specification.impute,
            minimum_rows=specification.minimum_rows,
        )
    if not json:
        _print_loaded(loaded)
    with Bar() as bar:
        summary = analyse(
            loaded,
            specification,
            files=[file_digest(table) for table in tables],
            on_progress=lambda what, done, total: bar.show(f"fitted: {what}", done, total),
        )
        bar.show("writing the report")
        save_fit(summary, out)
    if json:
        typer.echo(summary.model_dump_json())
    else:
        _print_notes(summary.notes[len(loaded.notes) :])
        print_fit(summary)
        typer.echo(f"Model:  {out / 'model.json'}\nReport: {out / 'report.html'}")
    return summary


def end_with(summary: "FitSummary") -> None:
    """End with exit code 1 and say why if the model is worth nothing."""
    if summary.failure is not None:
        typer.echo(f"fedsparse: {summary.failure}", err=True)
        raise typer.Exit(1)


def check_out(out: Path, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or has a model that is not to be replaced."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {out} is a file; name a folder")
    is_new = not out.exists()
    ready_folder(out)
    if is_new:
        out.rmdir()  # it is made again when there is something to put there
    elif (out / "model.json").exists() and not overwrite:
        raise OptionError(
            f"{out / 'model.json'} exists already; choose another folder with --out, or add "
            "--overwrite"
        )


def _print_loaded(loaded: "Loaded") -> None:
    kinds = ", ".join(
        f"{count:,} × {kind}" for kind, count in loaded.encoding.column_counts.items()
    )
    sites = len(set(loaded.sites.tolist()))
    where = "one site" if sites == 1 else f"{sites} sites"
    rows = f"{loaded.targets.size:,} rows at {where}"
    say(f"{rows}; columns: {kinds}; {_outcome_of(loaded)}.")
    _print_notes(loaded.notes)


def _outcome_of(loaded: "Loaded") -> str:
    """What there is to predict, in words."""
    if loaded.classes is not None:
        return f"the target has classes {', '.join(loaded.classes)}"
    if loaded.task == "survival":
        return f"{int((loaded.targets > 0).sum()):,} of them with an event"
    if loaded.task == "counts":
        weights = loaded.row_weights
        total = loaded.targets.sum() if weights is None else loaded.targets @ weights
        return f"{float(total):,.0f} counted in all"
    return "the target has numbers"


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        say(note, is_note=True)


def print_fit(summary: "FitSummary") -> None:
    """The features, how good the model is, and how their number was chosen."""
    from fedsparse.modelling.no_features import sentence_on_no_features

    if (told := sentence_on_no_features(summary)) is None:
        _print_features(summary)
    else:
        say(told)
    if (told := _intercept(summary.model)) is not None:
        say(told)
    say("")
    print_certainty(summary.model, _largest(summary.model))
    if summary.evaluation is not None:
        _print_scores(summary)
    if summary.selection is not None:
        _print_selection(summary.selection, per_class=summary.model.most_of_a_class is not None)
    _print_rounds(summary)
    _print_influence(summary)


def _intercept(model: "Model") -> str | None:
    """Where predictions begin; of survival they have no such place."""
    if model.task == "survival":
        return None
    intercepts = ", ".join(shown(value) for value in model.intercepts)
    return f"Intercept: {intercepts}."


def _print_selection(chosen: "Selection", *, per_class: bool) -> None:
    """How many features were chosen, why so many, and how surely."""
    from fedsparse.modelling.choosing import sentence_on_other_seeds

    say(f"{_number_chosen(chosen, per_class)} chosen by {chosen.measure}{_why(chosen)}.")
    if (told := sentence_on_other_seeds(chosen)) is not None:
        say(told)


def _number_chosen(chosen: "Selection", per_class: bool) -> str:
    few = {0: "No feature was", 1: "1 feature was"}
    count = few.get(chosen.chosen, f"{chosen.chosen} features")
    if per_class and chosen.chosen > 0:
        return f"{count.removesuffix(' was')} of each class were"
    return count if chosen.chosen < 2 else f"{count} were"


def _why(chosen: "Selection") -> str:
    """What others have to do with it, if the choice is not simply the best."""
    if chosen.chosen == chosen.best:
        return ""
    return (
        f": {chosen.best} have the lowest, and {chosen.chosen} are the fewest within one standard "
        "error of it"
    )


def _print_rounds(summary: "FitSummary") -> None:
    """What everything took."""
    if not summary.history:
        return
    rounds = f"Rounds: {summary.history[-1].round:,} for the model"
    if summary.selection is not None:
        rounds += f", {summary.selection.rounds:,} to choose the number of features"
    if summary.exchanges:
        rounds += f", {summary.exchanges:,} for everything together"
    say(f"{rounds}; in a round every site answers once.")
    say("")


def _print_influence(summary: "FitSummary") -> None:
    """The site that stands out, or at how many the model fails."""
    from fedsparse.modelling.influence import sentence_on_influence

    if (told := sentence_on_influence(summary)) is not None:
        say(told, is_note=True)
    if (judged := summary.at_sites) is not None:
        say(
            f"At {judged.no_better} of {judged.sites} sites the model predicts no better than "
            "guessing.",
            is_note=judged.no_better > 0,
        )
        say("")


def _print_features(summary: "FitSummary") -> None:
    model = summary.model
    frequencies = {}
    if summary.stability is not None:
        frequencies = {each.feature: each.frequency for each in summary.stability.features}
    is_one = model.task != "multiclass"
    has_scales = summary.settings.get("standardized") != "no" or not is_one
    ratio = RATIOS.get(model.task)
    rows = [
        [
            feature.name,
            *(shown(value) for value in feature.coefficients if is_one),
            *(shown(value * feature.scale) for value in feature.coefficients if has_scales),
            *([shown(exp(feature.coefficients[0]))] if ratio else []),
            *([f"{frequencies.get(feature.name, 0.0):.0%}"] if frequencies else []),
        ]
        for feature in _largest(model)
    ]
    labels = [""] if is_one else [f" {label}" for label in model.classes or ()]
    headings = [
        "feature",
        *(["coefficient"] if is_one else []),
        *(f"per SD{label}" for label in labels if has_scales),
        *([ratio] if ratio else []),
        *(["found again"] if frequencies else []),
    ]
    print_table(_title_of_features(summary), headings, rows)


def _title_of_features(summary: "FitSummary") -> str:
    """That features predict, unless the model may be guessing."""
    from fedsparse.modelling.no_features import GUESSING

    score = None if summary.evaluation is None else summary.evaluation.overall
    model = summary.model
    count, outcome, most = len(model.features), model.predicted_in_words, model.most_of_a_class
    more = f", at most {most} of each class" if most is not None else ""
    more += f", the {_MOST_SHOWN} largest" if count > _MOST_SHOWN else ""
    chosen = f"{count} of {summary.candidates:,} features"
    if score is not None and score.is_guessing:
        were = "was" if count == 1 else "were"
        return f"{chosen} {were} chosen for {outcome}: {GUESSING}{more}"
    return f"{chosen} predict {outcome}{more}"


def _largest(model: "Model") -> list["Feature"]:
    return sorted(model.features, key=_smallness)[:_MOST_SHOWN]


def _smallness(feature: "Feature") -> float:
    return -feature.scale * max(abs(value) for value in feature.coefficients)


def _print_scores(summary: "FitSummary") -> None:
    """Metrics on held-out rows, all sites first."""
    from fedsparse.report.fit.metric_words import metric_of

    evaluation = summary.evaluation
    assert evaluation is not None
    names = list(evaluation.scores[0].metrics)
    ways = {
        "federated": "together",
        "alone": "each alone",
        "pooled": "pooled",
        "dense": "all features",
    }
    overall = [score for score in evaluation.scores if score.site is None]
    dense = [] if evaluation.dense is None else [evaluation.dense]
    of_sites = [score for score in evaluation.scores if score.site is not None]
    rows = [
        [
            (score.site or "all sites") if score.method == "federated" else "",
            ways[score.method],
            str(score.rows),
            *(
                with_interval(
                    score.metrics[name],
                    score.intervals.get(name),
                    is_count=metric_of(name).is_count,
                )
                for name in names
            ),
        ]
        for score in (*overall, *dense, *of_sites)
    ]
    title = f"On rows the models had not seen ({evaluation.held_out}), with 95 % intervals"
    print_table(title, ["site", "learnt", "rows", *names], rows, text=2)
    if evaluation.curves:
        _print_curves(evaluation.curves)
    if (line := evaluation.calibration) is not None:
        say(
            f"Calibration: slope {with_interval(line.slope, line.slope_interval)}, intercept "
            f"{with_interval(line.intercept, line.intercept_interval)}; best are 1 and 0."
        )
        say("")


def _print_curves(curves: "Sequence[ClassCurves]") -> None:
    """Figures at the threshold, and how far probabilities can be trusted."""
    rows = [
        [
            own.label,
            f"{own.of_class} of {own.rows}",
            with_interval(own.auc, own.auc_interval),
            with_interval(own.sensitivity, own.sensitivity_interval),
            with_interval(own.specificity, own.specificity_interval),
            *(
                ["–", "–"]
                if own.calibration is None
                else [
                    with_interval(own.calibration.slope, own.calibration.slope_interval),
                    with_interval(own.calibration.intercept, own.calibration.intercept_interval),
                ]
            ),
        ]
        for own in curves
    ]
    print_table(
        f"Told from the others, from a probability of {shown(curves[0].threshold)} on",
        ["class", "rows", "AUC", "sensitivity", "specificity", "calibration slope", "intercept"],
        rows,
    )
