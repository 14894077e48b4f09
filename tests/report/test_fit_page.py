"""The page of a fit, made from its summary alone."""

import json
import re
from html import unescape

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import escape

from fedsparse.modelling.certainty import Certainty, Estimated, HowSure, Interval
from fedsparse.modelling.model import Feature, Model
from fedsparse.modelling.summary import (
    Calibration,
    ClassCurves,
    Confusion,
    CurvePoint,
    EstimatesAtSites,
    Evaluation,
    FeatureAtSite,
    FeatureFacts,
    FeatureStability,
    FitSummary,
    ObservedShare,
    PathPoint,
    RoundRecord,
    Score,
    Selection,
    SelectionPoint,
    SiteCount,
    Stability,
)
from fedsparse.report.fit import fit_page
from fedsparse.report.fit.features_section import features_sections
from fedsparse.report.fit.headline import headline
from fedsparse.report.fit.readable_numbers import number, percent, size
from fedsparse.report.page import Page

SITES = {"Bari": 21, "Cork": 18, "Delft": 14, "Espoo": 11, "Faro": 8}
CLASSES = {
    "regression": None,
    "binary": ("no relapse", "relapse"),
    "multiclass": ("ALL-B", "ALL-T", "AML", "MLL"),
}
METRICS = {
    "regression": ("R²", "RMSE"),
    "binary": ("accuracy", "AUC", "log-loss"),
    "multiclass": ("accuracy", "log-loss"),
}
HOSTILE = "<script>alert('\"')</script><!--<script> 😀 &amp; " + "x" * 200


def made_up_summary(task="binary", features=20, names=None, **changes):
    """A fit with everything in it: five sites, τ chosen, evaluated, stability selection."""
    random = np.random.default_rng(7)
    names = names or [f"{place}_at" for place in random.integers(1000, 99999, features)]
    parts = {
        "title": "Relapse of leukaemia at five hospitals",
        "created": "2025-03-14T15:09:26+00:00",
        "model": made_up_model(task, names, random),
        "source": "hospitals.csv",
        "sites": made_up_sites(task),
        "columns": {"number": 7127, "category": 2},
        "candidates": 7129,
        "history": made_up_history(),
        "selection": made_up_selection(),
        "evaluation": made_up_evaluation(task, random),
        "stability": made_up_stability(names, random),
        "settings": {"Method": "FedSplice", "Seed": "0"},
        "notes": ("Site 'Faro' has 8 rows only.",),
    }
    return FitSummary(**{**parts, **changes})


def made_up_model(task, names, random):
    classes = CLASSES[task]
    count = len(classes) if task == "multiclass" else 1
    effects = random.choice([-1, 1], (len(names), count)) * random.gamma(
        2, 0.2, (len(names), count)
    )
    effects[:, 1:][random.random((len(names), count - 1)) < 0.5] = 0
    scales = 10 ** random.uniform(-1, 3, len(names))
    return Model(
        task=task,
        target="relapse",
        classes=classes,
        intercepts=tuple(random.normal(size=count)),
        features=tuple(
            Feature(name=name, column=name, coefficients=tuple(row / scale), mean=0.0, scale=scale)
            for name, row, scale in zip(names, effects, scales, strict=True)
        ),
        columns=(),
        settings={},
        fingerprint="5f2a" * 16,
        versions={"fedsparse": "1.2.0", "numpy": "2.3.1"},
    )


def made_up_sites(task):
    classes = CLASSES[task]
    return tuple(
        SiteCount(
            name=name,
            rows=rows,
            classes=classes
            and {label: rows // (place + 2) for place, label in enumerate(classes[1:])}
            | {classes[0]: rows - sum(rows // (place + 2) for place in range(len(classes) - 1))},
        )
        for name, rows in SITES.items()
    )


def made_up_history(rounds=4):
    return tuple(
        RoundRecord(
            round=place,
            objective=0.69 * 0.3**place + 0.02,
            nonzeros=20 if place else 0,
            bytes_down=40_000 * place,
            bytes_up=160_000 * place,
            seconds=0.05 * place,
        )
        for place in range(rounds + 1)
    )


def made_up_selection(**changes):
    sparsities = (1, 2, 3, 5, 7, 10, 14, 20, 28, 40, 57)
    points = tuple(
        SelectionPoint(
            sparsity=sparsity,
            score=0.22 + 0.4 / sparsity + 0.003 * max(0, sparsity - 28),
            standard_error=0.02 + 0.05 / sparsity,
        )
        for sparsity in sparsities
    )
    parts = {
        "method": "cv",
        "measure": "log-loss per held-out row",
        "points": points,
        "best": 28,
        "chosen": 20,
        "rounds": 34,
        "bytes_down": 2_000_000,
        "bytes_up": 7_900_000,
    }
    return Selection(**{**parts, **changes})


def made_up_evaluation(task, random, methods=("federated", "alone", "pooled")):
    centre = {"federated": 0.94, "alone": 0.78, "pooled": 0.95}
    scores = [
        Score(
            method=method,
            site=site,
            rows=SITES.get(site, sum(SITES.values())),
            metrics={
                name: float(np.clip(centre[method] + random.normal(0, 0.05), 0, 1))
                if site
                else centre[method]
                for name in METRICS[task]
            },
        )
        for site in (None, *SITES)
        for method in methods
    ]
    classes = CLASSES[task]
    return Evaluation(
        folds=5,
        held_out="every row once",
        scores=tuple(scores),
        confusion=classes and made_up_confusion(classes),
    )


def made_up_confusion(classes):
    counts = np.ones((len(classes), len(classes)), dtype=int) + np.diag(
        range(20, 20 + len(classes))
    )
    return Confusion(classes=classes, counts=counts.tolist())


def made_up_stability(names, random):
    others = ("rare_1", "rare_2")
    frequencies = np.sort(random.beta(4, 1, len(names)))[::-1]
    return Stability(
        subsamples=100,
        sparsity=20,
        threshold=0.75,
        expected_false=0.8,
        features=tuple(
            FeatureStability(feature=name, frequency=frequency, without_a_site=share)
            for name, frequency, share in zip(
                (*names, *others),
                (*frequencies, 0.31, 0.12),
                (*np.ceil(5 * frequencies) / 5, 0.4, 0.0),
                strict=True,
            )
        ),
        rounds=60,
    )


def shown(summary):
    """The markup of the page's sections, without what is drawn."""
    markup = re.sub(r"<script[^>]*>.*?</script>", "", fit_page(summary).html(), flags=re.DOTALL)
    return "\n".join(re.findall(r"<section>.*?</section>", markup, flags=re.DOTALL))


def words(summary):
    """What a reader of the sections reads."""
    return unescape(re.sub(r"<[^>]*>", " ", shown(summary))).replace("\N{NO-BREAK SPACE}", " ")


def charts(summary, heading):
    (section,) = [each for each in fit_page(summary).sections if each.heading == heading]
    return charts_in(html_of(section))


def html_of(section):
    return Page("", "", [section]).html()


def charts_in(html):
    """What the charts of a section are drawn from, with their data in place."""
    held = [
        json.loads(text)
        for text in re.findall(r'<script type="application/json">(.*?)</script>', html)
    ]
    return [chart | {"datasets": group["datasets"]} for group in held for chart in group["charts"]]


def headings(summary):
    return [section.heading for section in fit_page(summary).sections if section.heading]


def rows_of(html, *cells):
    """Whether a table has a line of these cells."""
    first, *others = cells
    line = f'<th scope="row">{escape(first)}</th>' + "".join(f"<td>{cell}</td>" for cell in others)
    return line in unlabelled(html).replace("\N{NO-BREAK SPACE}", " ")


def unlabelled(html):
    """Without what cells are called where a row becomes a card."""
    return re.sub(r' data-label="[^"]*"', "", html)


FEATURES = "The features that were chosen"
EVALUATION = "How good the model is"
SELECTION = "How the number of features was chosen"
STABILITY = "How surely the features belong"
CONVERGENCE = "What learning took"
ENDING = [
    "Sites and rows",
    "Where the rows went",
    "For a report by TRIPOD",
    "Words on this page",
    "How this was made",
]


def without_skill(summary):
    return summary.model_copy(update={"evaluation": None})


def with_one_site(summary):
    return summary.model_copy(update={"sites": summary.sites[:1]})


def with_score(summary, intervals=None, guessing=None, **metrics):
    score = Score(
        method="federated", site=None, rows=72, metrics=metrics, intervals=intervals or {},
        guessing=guessing or {},
    )  # fmt: skip
    evaluation = summary.evaluation.model_copy(update={"scores": (score,)})
    return summary.model_copy(update={"evaluation": evaluation})


IN_ONE_PLACE = "worked out in one place as if each had kept its rows."
AGAIN = "found again in at least 75 % of random halves of the rows."


class TestHeadline:
    @pytest.mark.parametrize(
        ("summary", "sentence"),
        [
            (
                made_up_summary(),
                "20 of 7,129 features predict “relapse” with 94 % accuracy on rows the model had "
                f"not seen, learnt from 5 sites (72 rows) in 4 rounds, {IN_ONE_PLACE} Always "
                "answering “relapse”, the most frequent class, would reach 51 %. "
                f"12 are {AGAIN}",
            ),
            (
                made_up_summary("regression", features=1),
                "1 of 7,129 features explains 94 % of the variance of “relapse” on rows the model "
                "had not seen, learnt from 5 sites (72 rows) in 4 rounds, "
                f"{IN_ONE_PLACE} None is {AGAIN}",
            ),
            (
                without_skill(made_up_summary()),
                "20 of 7,129 features were chosen to predict “relapse”, learnt from 5 sites (72 "
                f"rows) in 4 rounds, {IN_ONE_PLACE} 12 are {AGAIN}",
            ),
            (
                with_one_site(without_skill(made_up_summary("regression", features=1))),
                "1 of 7,129 features was chosen to predict “relapse”, learnt from 1 site (21 "
                f"rows) in 4 rounds. None is {AGAIN}",
            ),
            (
                made_up_summary(names=[], features=0, history=(), evaluation=None),
                "None of 7,129 features was chosen to predict “relapse”, learnt from 5 sites (72 "
                f"rows), {IN_ONE_PLACE}",
            ),
        ],
    )
    def test_adapts_to_the_task_and_to_what_is_known(self, summary, sentence):
        assert headline(summary).replace("\N{NO-BREAK SPACE}", " ") == sentence

    def test_has_the_interval_of_what_it_tells(self):
        around, guess = {"R²": (0.3, 0.62)}, {"R²": 0.0}
        summary = with_score(made_up_summary("regression"), around, guess, **{"R²": 0.5})
        told = headline(summary).replace("\N{NO-BREAK SPACE}", " ")
        assert "explain 50 % (95 % interval 30 % to 62 %) of the variance" in told

    def test_says_so_when_the_interval_reaches_a_guess(self):
        around, guess = {"accuracy": (0.4, 0.7), "AUC": (0.42, 0.68)}, {"accuracy": 0.6, "AUC": 0.5}
        summary = with_score(made_up_summary(features=1), around, guess, accuracy=0.6, AUC=0.55)
        told = headline(summary).replace("\N{NO-BREAK SPACE}", " ")
        assert told.startswith(
            "The model is no better than guessing on rows the model had not seen (AUC = 0.550 (95 "
            "% interval 0.420 to 0.680), and guessing reaches 0.500): 1 of 7,129 features was "
            "chosen to predict “relapse”, learnt"
        )
        assert "predicts" not in told

    def test_says_so_when_no_feature_is_chosen(self):
        summary = made_up_summary(names=[], features=0, history=())
        chosen = made_up_selection(chosen=0, best=0)
        told = headline(summary.model_copy(update={"selection": chosen}))
        assert "better than the shares of its classes do: the model is no better than" in told

    def test_does_not_praise_a_model_that_explains_nothing(self):
        summary = with_score(made_up_summary("regression"), **{"R²": -0.2})
        assert "R² = −0.2" in headline(summary).replace("\N{NO-BREAK SPACE}", " ")
        assert "explain" not in headline(summary)


class TestSections:
    @pytest.mark.parametrize("task", CLASSES)
    def test_the_outcome_comes_first_then_what_it_rests_on(self, task):
        expected = [FEATURES, EVALUATION, SELECTION, STABILITY, CONVERGENCE, *ENDING]
        assert headings(made_up_summary(task)) == expected

    @pytest.mark.parametrize("task", CLASSES)
    def test_what_is_not_known_has_no_section(self, task):
        nothing = {"selection": None, "evaluation": None, "stability": None, "history": ()}
        summary = made_up_summary(task, notes=(), **nothing)
        assert headings(summary) == [FEATURES, *ENDING]
        assert "Please note" not in words(summary)

    def test_notes_stand_above_all_else(self):
        text = words(made_up_summary(notes=("Mind the gap.",)))
        assert text.index("Please note") < text.index("Mind the gap.") < text.index(FEATURES)

    def test_advice_for_the_command_line_is_left_out(self):
        notes = ("Stability was not worked out, to save time; --stability 25 does it.",)
        text = words(made_up_summary(notes=notes))
        assert "Stability was not worked out, to save time." in text
        assert not re.search(r"(?<![\w-])--[a-z]", text)

    def test_settings_versions_and_fingerprint_are_told(self):
        text = words(made_up_summary())
        for fact in ("FedSplice", "hospitals.csv", "5f2a5f2a", "1.2.0", "2025-03-14 15:09"):
            assert fact in text

    def test_five_words_are_explained(self):
        html = shown(made_up_summary())
        for word in ("Feature", "Coefficient", "Site", "Round", "Cross-validation"):
            assert f"<dt>{word}</dt>" in html

    def test_fetches_nothing_and_stays_below_two_megabytes(self):
        html = fit_page(made_up_summary()).html()
        markup = re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.DOTALL)
        assert re.findall(r"src=|href=|@import|url\(|https?:|<link", markup) == []
        assert len(html.encode()) < 2_000_000

    def test_every_chart_says_what_it_shows(self):
        summary = made_up_summary()
        drawn = [
            chart
            for heading in (FEATURES, EVALUATION, SELECTION, STABILITY, CONVERGENCE)
            for chart in charts(summary, heading)
        ]
        assert len(drawn) == 8
        assert all(len(chart["description"]) > 30 for chart in drawn)


def one_feature(coefficients=(0.02,), scale=10.0, task="regression"):
    summary = made_up_summary(task, names=["age"])
    age = Feature(name="age", column="age", coefficients=coefficients, mean=60.0, scale=scale)
    model = summary.model.model_copy(update={"features": (age,)})
    return summary.model_copy(update={"model": model, "stability": None})


class TestFeatures:
    def test_coefficients_are_told_on_their_own_scale_and_per_standard_deviation(self):
        summary = one_feature()
        assert rows_of(shown(summary), "age", "0.0200", "0.200")
        assert "so that features in different units compare" in words(summary)

    def test_bars_are_drawn_per_standard_deviation(self):
        (chart,) = charts(one_feature(), FEATURES)
        (rows,) = [data for data in chart["datasets"].values() if "feature" in data[0]]
        assert rows[0]["effect"] == pytest.approx(0.2)

    def test_without_standardization_bars_do_not_compare(self):
        text = words(one_feature(scale=1.0))
        assert "per unit" in charts(one_feature(scale=1.0), FEATURES)[0]["description"]
        assert "do not compare" in text
        assert "Per standard deviation" not in text

    def test_the_largest_effect_comes_first(self):
        summary = made_up_summary()
        effects = {
            each.name: abs(each.coefficients[0] * each.scale) for each in summary.model.features
        }
        listed = re.findall(r'<th scope="row">(\d+_at)</th>', shown(summary))
        assert listed == sorted(effects, key=effects.get, reverse=True)

    def test_stability_stands_beside_the_coefficients(self):
        summary = made_up_summary(names=["age", "dose"])
        both = summary.stability.features[0]
        stability = summary.stability.model_copy(
            update={
                "features": (both.model_copy(update={"frequency": 0.9, "without_a_site": 1.0}),)
            }
        )
        html = shown(summary.model_copy(update={"stability": stability}))
        assert re.search("age</th>.*<td>90.%</td><td>100.%</td>", unlabelled(html))
        assert re.search("dose</th>.*<td>0.%</td><td>–</td>", unlabelled(html))

    def test_of_many_features_the_fifty_largest_are_shown(self):
        summary = made_up_summary(features=70)
        assert len(re.findall(r'<th scope="row">\d+_at</th>', shown(summary))) == 50
        assert "The 50 largest of 70 features are shown." in words(summary)

    def test_several_classes_have_a_column_each(self):
        html = shown(one_feature((0.5, 0.0, -0.1, 0.0), task="multiclass"))
        assert rows_of(html, "age", "0.500", "0", "−0.100", "0")
        assert '<th scope="col">Coefficient for “AML”</th>' in html

    def test_two_classes_are_told_apart_by_direction(self):
        text = words(made_up_summary())
        assert "Bars to the right speak for “relapse”, bars to the left for “no relapse”" in text


def made_up_curves(label="yes", rows=200):
    points = tuple(
        CurvePoint(
            threshold=1 - share, sensitivity=share**0.5, specificity=1 - share**2,
            net_benefit=0.4 * share, of_all=0.4 - 0.5 * (1 - share),
        )
        for share in (0.1, 0.3, 0.5, 0.7, 0.9)
    )  # fmt: skip
    shares = tuple(
        ObservedShare(predicted=share, rows=40, observed=share, interval=(share - 0.1, share + 0.1))
        for share in (0.1, 0.3, 0.5, 0.7, 0.9)
    )
    line = Calibration(
        intercept=-0.1, intercept_interval=(-0.4, 0.2), slope=0.8, slope_interval=(0.6, 1.1)
    )
    return ClassCurves(
        label=label, rows=rows, of_class=80, auc=0.9, auc_interval=(0.85, 0.94), threshold=0.3,
        sensitivity=0.8, sensitivity_interval=(0.7, 0.87), specificity=None,
        specificity_interval=None, calibration=line, points=points, shares=shares,
    )  # fmt: skip


def with_curves(*labels):
    summary = made_up_summary()
    curves = tuple(made_up_curves(label) for label in labels)
    evaluation = summary.evaluation.model_copy(update={"curves": curves})
    return summary.model_copy(update={"evaluation": evaluation})


class TestCurves:
    def test_a_line_has_the_figures_at_the_threshold(self):
        html = shown(with_curves("yes"))
        assert rows_of(
            html, "yes", "80", "0.900 (0.850 to 0.940)", "80 % (70 % to 87 %)", "–",
            "0.800 (0.600 to 1.10)", "−0.100 (−0.400 to 0.200)",
        )  # fmt: skip
        assert "if its probability is at least 30 %" in words(with_curves("yes"))

    def test_three_charts_are_drawn_for_each_class(self):
        drawn = charts(with_curves("a", "b"), EVALUATION)[-6:]
        assert [chart["title"] for chart in drawn[:3]] == [
            "ROC curve", "Calibration curve", "Decision curve",
        ]  # fmt: skip
        assert "Telling “b” from the others" in words(with_curves("a", "b"))
        assert "Every point stands for 40 rows or more" in words(with_curves("a", "b"))

    def test_numbers_have_a_line(self):
        summary = made_up_summary("regression")
        line = made_up_curves().calibration
        evaluation = summary.evaluation.model_copy(update={"calibration": line})
        text = words(summary.model_copy(update={"evaluation": evaluation}))
        assert "Calibration: slope 0.800 (0.600 to 1.10)" in text


class TestEvaluation:
    def test_intervals_stand_beside_the_federated_model(self):
        summary = with_score(
            made_up_summary("regression"), {"R²": (0.3, 0.62)}, {"R²": 0.0}, **{"R²": 0.5}
        )
        assert rows_of(shown(summary), "All sites together", "72", "0.500 (0.300 to 0.620)")
        assert "95 % intervals" in words(summary)

    def test_what_sparsity_costs_is_told_in_metrics_and_not_in_what_is_the_same_for_all(self):
        metrics = {"C-index": 0.7, "log-likelihood gained": 0.25, "events": 9.0}
        dense = Score(method="dense", site=None, rows=72, metrics=metrics)
        evaluation = made_up_summary().evaluation.model_copy(update={"dense": dense})
        text = words(made_up_summary(evaluation=evaluation))
        assert "has C-index 0.700, log-likelihood gained 0.250." in text

    def test_one_way_of_learning_needs_no_key(self):
        only = made_up_evaluation("regression", np.random.default_rng(0), methods=("federated",))
        summary = made_up_summary("regression")
        assert "federated: all sites" in words(summary)
        alone = words(summary.model_copy(update={"evaluation": only}))
        assert "federated: all sites" not in alone

    def test_a_line_per_site_and_a_column_per_metric_and_way_of_learning(self):
        html = shown(made_up_summary("regression"))
        assert '<th scope="col">R², alone</th>' in html
        assert rows_of(
            html,
            "All sites together",
            "72",
            "0.940",
            "0.780",
            "0.950",
            *["0.940", "0.780", "0.950"],
        )
        assert all(f'<th scope="row">{site}</th>' in html for site in SITES)

    def test_a_metric_that_cannot_be_worked_out_is_a_dash(self):
        score = Score(method="federated", site=None, rows=9, metrics={"accuracy": 0.8, "AUC": None})
        other = Score(
            method="federated", site="Bari", rows=9, metrics={"accuracy": 0.8, "AUC": 0.7}
        )
        third = other.model_copy(update={"site": "Cork"})
        evaluation = made_up_summary().evaluation.model_copy(
            update={"scores": (score, other, third)}
        )
        html = shown(made_up_summary(evaluation=evaluation))
        assert rows_of(html, "All sites together", "9", "80 %", "–")

    def test_a_single_site_is_not_told_twice(self):
        scores = [
            Score(method="federated", site=site, rows=9, metrics={"R²": 0.5})
            for site in (None, "Bari")
        ]
        evaluation = made_up_summary("regression").evaluation
        evaluation = evaluation.model_copy(update={"scores": tuple(scores)})
        summary = made_up_summary("regression", evaluation=evaluation, sites=())
        assert '<th scope="row">Bari</th>' not in shown(summary)
        assert charts(summary, EVALUATION) == []

    def test_a_hopeless_model_does_not_squeeze_the_others(self):
        scores = [
            Score(method="federated", site="Bari", rows=9, metrics={"R²": 0.5, "RMSE": 1.0}),
            Score(method="alone", site="Bari", rows=9, metrics={"R²": -80.0, "RMSE": 40.0}),
            Score(method="alone", site="Cork", rows=9, metrics={"R²": 0.2, "RMSE": 2.0}),
        ]
        evaluation = made_up_summary("regression").evaluation
        evaluation = evaluation.model_copy(update={"scores": tuple(scores)})
        summary = made_up_summary("regression", evaluation=evaluation)
        explained, error = charts(summary, EVALUATION)
        (rows, *_) = explained["datasets"].values()
        assert min(row["value"] for row in rows) == -1.0
        assert error["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
        assert rows_of(shown(summary), "Bari", "9", "0.500", "−80.0", "1.00", "40.0")

    def test_confusions_are_counted_and_what_is_recognized_is_told(self):
        html = shown(made_up_summary()).replace("\N{NO-BREAK SPACE}", " ")
        assert '<th scope="col">predicted “relapse”</th>' in html
        line = r'relapse</th><td[^>]*0\.955">21</td><td[^>]*>1</td><td>95 %</td>'
        assert re.search(line, unlabelled(html))

    def test_regression_has_no_confusions(self):
        assert "confused" not in words(made_up_summary("regression"))


class TestSelection:
    def test_the_smallest_within_one_standard_error_is_explained(self):
        text = words(made_up_summary())
        assert "The best has 28 features." in text
        assert "worse by no more than one standard error has 20" in text
        assert "34 rounds and 9.9 MB" in text

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"chosen": 28}, "The best has 28 features, and was taken."),
            ({"chosen": 40}, "The best has 28 features; 40 were taken."),
            ({"method": "ebic", "measure": "EBIC"}, "compared by EBIC, which weighs"),
        ],
    )
    def test_other_choices(self, changes, sentence):
        assert sentence in words(made_up_summary(selection=made_up_selection(**changes)))

    def test_numbers_of_features_over_a_decade_are_on_a_log_axis(self):
        (wide,) = charts(made_up_summary(), SELECTION)
        few = made_up_selection(points=made_up_selection().points[5:])
        (narrow,) = charts(made_up_summary(selection=few), SELECTION)
        scales = [chart["layer"][0]["encoding"]["x"]["scale"]["type"] for chart in (wide, narrow)]
        assert scales == ["log", "linear"]

    def test_ten_features_are_10_and_not_1e_plus_1(self):
        points = made_up_selection().points
        none = points[0].model_copy(update={"sparsity": 0})
        for own in (points, points[5:], (none, *points)):
            (chart,) = charts(made_up_summary(selection=made_up_selection(points=own)), SELECTION)
            assert chart["layer"][0]["encoding"]["x"]["axis"]["format"] == ",d"

    def test_without_standard_errors_there_are_no_bars(self):
        points = tuple(
            point.model_copy(update={"standard_error": None})
            for point in made_up_selection().points
        )
        summary = made_up_summary(selection=made_up_selection(points=points))
        marks = [layer["mark"]["type"] for layer in charts(summary, SELECTION)[0]["layer"]]
        assert "rule" not in marks
        assert "standard error" not in shown(summary).split(SELECTION)[1].split("<svg")[1]


class TestStability:
    def test_threshold_and_expected_false_selections_are_told_in_words(self):
        text = words(made_up_summary())
        assert "stable if at least 75 % of the repetitions choose it" in text
        assert "no more than 0.8 of the stable features is expected to be there by chance" in text

    def test_no_stable_feature_is_said_so(self):
        stability = made_up_summary().stability.model_copy(update={"threshold": 1.0})
        text = words(made_up_summary(stability=stability))
        assert "choose it: none is." in text
        assert "by chance" not in text

    def test_features_outside_the_model_are_hollow(self):
        (chart,) = charts(made_up_summary(), STABILITY)
        (rows,) = [data for data in chart["datasets"].values() if "feature" in data[0]]
        assert [row["feature"] for row in rows if not row["chosen"]] == ["rare_1", "rare_2"]


class TestConvergence:
    def test_objectives_over_decades_are_on_a_log_axis(self):
        steep, flat = made_up_history(), made_up_history(rounds=1)
        scales = [
            charts(made_up_summary(history=history), CONVERGENCE)[0]["layer"][0]["encoding"]["y"]
            for history in (steep, flat)
        ]
        assert [axis["scale"]["type"] for axis in scales] == ["log", "linear"]

    def test_megabytes_are_those_of_both_ways(self):
        chart = charts(made_up_summary(), CONVERGENCE)[1]
        (rows,) = chart["datasets"].values()
        assert [row["megabytes"] for row in rows] == [0.0, 0.2, 0.4, 0.6, 0.8]

    def test_other_steps_are_counted_beside(self):
        html = shown(made_up_summary())
        assert rows_of(html, "Choosing the number of features", "34", "9.9 MB")
        assert rows_of(html, "Stability", "60", "not counted")


class TestSites:
    def test_classes_are_counted_at_each_site_and_together(self):
        html = shown(made_up_summary())
        assert rows_of(html, "Bari", "21", "11 (52 %)", "10 (48 %)")
        assert rows_of(html, "All sites together", "72", "37 (51 %)", "35 (49 %)")

    def test_of_many_sites_the_smallest_are_put_together(self):
        sites = tuple(SiteCount(name=f"site {place}", rows=1000 - place) for place in range(60))
        html = shown(made_up_summary("regression", sites=sites, evaluation=None))
        assert rows_of(html, "10 smaller sites", "9,455")
        assert rows_of(html, "All sites together", "58,230")

    def test_where_single_sites_do_not_tell_all_are_counted_together(self):
        sites = tuple(SiteCount(name=name, rows=None) for name in SITES)
        classes = dict(zip(CLASSES["binary"], (37, 35), strict=True))
        together = SiteCount(name="all sites", rows=72, classes=classes)
        summary = made_up_summary(sites=sites, together=together, is_networked=True)
        html = shown(summary)
        assert rows_of(html, "Bari", "not told", "not told", "not told")
        assert rows_of(html, "All sites together", "72", "37 (51 %)", "35 (49 %)")
        assert "learnt from 5 sites (72 rows)" in headline(summary)
        assert "only their sum is known" in html


class TestEscaping:
    def test_names_cannot_break_the_page(self):
        summary = made_up_summary(
            names=[HOSTILE],
            title=HOSTILE,
            source=HOSTILE,
            notes=(HOSTILE,),
            settings={HOSTILE: HOSTILE},
            columns={HOSTILE: 1},
            sites=(SiteCount(name=HOSTILE, rows=3, classes={"relapse": 3}),),
        )
        html = fit_page(summary).html()
        assert "<script>alert" not in html
        own = 5 + 2  # a group of charts in each of five sections, the library and the page's own
        assert html.count("<script") == html.count("</script>") == own
        assert html.count("<!--") == 0
        assert escape(HOSTILE) in html

    @settings(max_examples=20, deadline=None)
    @given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
    def test_any_name_reaches_tables_and_charts_unchanged(self, name):
        summary = one_feature()
        age = summary.model.features[0].model_copy(update={"name": name})
        model = summary.model.model_copy(update={"features": (age,)})
        (section,) = features_sections(model, None)
        html = html_of(section)
        (chart,) = charts_in(html)
        assert name in {row.get("feature") for data in chart["datasets"].values() for row in data}
        assert f'<th scope="row">{escape(name)}</th>' in html


class TestNumbers:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0.0, "0"),
            (-0.0, "0"),
            (1234567.0, "1.23 × 10⁶"),
            (999999.0, "1.00 × 10⁶"),
            (0.00012345, "0.000123"),
            (-0.00009, "−9.00 × 10⁻⁵"),
            (12.345, "12.3"),
            (float("nan"), "–"),
        ],
    )
    def test_three_digits(self, value, text):
        assert number(value) == text

    @given(st.floats(0, 1))
    def test_nothing_but_nothing_is_0_percent_and_nothing_but_all_is_100(self, share):
        digits = float(percent(share).split("\N{NO-BREAK SPACE}")[0])
        assert digits == pytest.approx(100 * share, abs=0.51)
        if 0.00001 < share < 0.99999:
            assert digits not in (0, 100)

    @pytest.mark.parametrize(
        ("count", "text"), [(0, "0 bytes"), (9_950_000, "9.9 MB"), (2e9, "2.0 GB")]
    )
    def test_bytes(self, count, text):
        assert size(count).replace("\N{NO-BREAK SPACE}", " ") == text


class TestFeaturesAtSites:
    def facts(self, **changes):
        at_sites = (
            FeatureAtSite(site="Bari", rows=21, missing=0, mean=61.25),
            FeatureAtSite(site="Cork", rows=18, missing=6, mean=58.0),
            FeatureAtSite(site="Delft", rows=14, mean=57.0),
            FeatureAtSite(site="Espoo", rows=11),
        )
        told = {"feature": "age", "is_share": False, "missing": 9, "at_sites": at_sites}
        return FeatureFacts(**{**told, **changes})

    def test_means_and_missing_values_are_shown_by_site_as_far_as_they_are_told(self):
        html = shown(made_up_summary(names=["age"], features_by_site=(self.facts(),)))
        assert "The chosen columns at the sites" in html
        assert re.search(
            "age</th><td>[^<]*</td><td>9</td><td>61.2</td><td>58.0 .6.</td><td>57.0 .few.</td>"
            "<td>not told</td>",
            unlabelled(html),
        )

    def test_shares_of_levels_are_percentages(self):
        at_sites = (
            FeatureAtSite(site="Bari", rows=21, missing=0, mean=0.25),
            FeatureAtSite(site="Cork", rows=18, missing=0, mean=0.5),
        )
        facts = self.facts(feature="ward=ear", is_share=True, at_sites=at_sites)
        html = shown(made_up_summary(names=["ward=ear"], features_by_site=(facts,)))
        assert re.search("<td>25.%</td><td>50.%</td>", unlabelled(html))

    def test_where_only_sums_are_known_it_says_so(self):
        facts = self.facts(at_sites=())
        text = words(made_up_summary(names=["age"], features_by_site=(facts,)))
        assert "How sites differ was told to nobody" in text


class TestEstimatesAtSites:
    def summary(self, cork, ratio=None):
        def estimated(value):
            interval = Interval.of(value, value - 0.2, value + 0.2)
            return Estimated.of(interval, 1.0, has_ratio=ratio is not None, p_value=None)

        summary = made_up_summary(names=["age"])
        (age,) = summary.model.features
        age = age.model_copy(update={"certainty": Certainty(refitted=estimated(0.4))})
        sure = HowSure(level=0.95, ratio=ratio, splits=0, exchanges=3)
        model = summary.model.model_copy(update={"features": (age,), "how_sure": sure})
        told = EstimatesAtSites(
            feature="age",
            by_site={"Bari": estimated(0.5), "Cork": None if cork is None else estimated(cork)},
            inconsistency=None if cork is None else 0.42,
            p_value=None if cork is None else 0.0001,
        )
        return summary.model_copy(update={"model": model, "estimates_at_sites": (told,)})

    def test_every_site_has_its_own_with_how_much_they_differ(self):
        html = shown(self.summary(cork=-0.1))
        assert "What the rows of each site say" in html
        own = ["42.%", "&lt; 0.001", "0.500 .0.300 to 0.700.", "−0.100 .−0.300 to 0.100."]
        assert re.search("".join(f"<td>{cell}</td>" for cell in own), unlabelled(html))

    def test_ratios_are_told_as_ratios(self):
        html = shown(self.summary(cork=0.0, ratio="hazard ratio"))
        assert "1.65 (1.35 to 2.01)" in html
        assert "Hazard ratio per standard deviation" in html

    def test_a_site_that_cannot_tell_has_a_dash(self):
        html = unlabelled(shown(self.summary(cork=None)))
        assert "<td>–</td><td>–</td><td>0.500 (0.300 to 0.700)</td><td>–</td>" in html

    def test_there_is_no_such_section_where_nobody_may_know(self):
        assert "What the rows of each site say" not in headings(made_up_summary())


class TestWhereRowsWent:
    def test_a_site_that_gave_nothing_is_left_out_by_name(self):
        sites = (SiteCount(name="Bari", rows=30), SiteCount(name="Cork", rows=9, has_counted=False))
        html = shown(made_up_summary(sites=sites))
        assert rows_of(html, "In the tables", "39", "of 2 sites")
        assert rows_of(html, "Left out", "9", "Cork: nothing of it was learnt")
        assert "<td>30</td>" in unlabelled(html)

    def test_nothing_is_said_where_sites_do_not_tell_their_rows(self):
        sites = (SiteCount(name="Bari", rows=None), SiteCount(name="Cork", rows=9))
        assert "Where the rows went" not in headings(made_up_summary(sites=sites))


def test_tripod_items_are_answered_or_named():
    html = shown(made_up_summary())
    assert rows_of(html, "1 Title", "Relapse of leukaemia at five hospitals")
    assert rows_of(html, "22 Funding", "not known here; the authors have to say")
    assert rows_of(html, "5a Setting", "5 sites: Bari, Cork, Delft, Espoo, Faro")


def test_which_features_come_first_is_shown_with_the_choice():
    path = tuple(
        PathPoint(sparsity=sparsity, feature=name, effects=(0.1,))
        for name, first in (("age", 5), ("dose", 10))
        for sparsity in (5, 10, 20)
        if sparsity >= first
    )
    chosen = made_up_selection().model_copy(update={"path": path})
    text = words(made_up_summary(selection=chosen))
    assert "Which features come first" in text
    assert "Which features come first" not in words(made_up_summary())


def test_which_features_speak_for_which_class_and_how_surely():
    age, dose = (
        Feature(name=name, column=name, coefficients=own, mean=0.0, scale=2.0)
        for name, own in (("age", (0.5, 0.0, -0.1, -0.4)), ("dose", (0.9, -0.3, -0.3, -0.3)))
    )
    summary = made_up_summary("multiclass")
    model = summary.model.model_copy(update={"features": (age, dose)})
    often = summary.stability.model_copy(
        update={"features": (FeatureStability(feature="age", frequency=0.9),)}
    )
    html = shown(summary.model_copy(update={"model": model, "stability": often}))
    assert rows_of(html, "ALL-B", "dose (0 %), age (90 %)", "none")
    assert rows_of(html, "AML", "none", "dose (0 %), age (90 %)")
