"""Only a model that is worth nothing on its own rows is a failure."""

import json
import sys

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.cli import main
from fedsparse.modelling.choosing import choose_by_ebic
from fedsparse.modelling.failing import failure_of
from fedsparse.modelling.fitting import FitOptions, fit
from fedsparse.modelling.model import Model
from fedsparse.modelling.summary import FitSummary


def engine_on(targets, loss="squared"):
    rows = np.random.default_rng(0).standard_normal((len(targets), 6))
    return fs.LocalEngine(fs.FederatedData.from_clients([(rows, np.asarray(targets))]), loss)


def model_of(engine, sparsity=2, **options):
    options = FitOptions(fs.SquaredError(), **options)
    return fs.converse(engine, fit(engine, sparsity, options))


def noise(rows=60):
    return np.random.default_rng(1).standard_normal(rows)


def test_a_model_of_noise_is_a_result():
    assert failure_of(model_of(engine_on(noise())), 2) is None


def test_a_model_that_ends_where_it_began_is_a_failure():
    still = fs.FedIterHT(2, step_size=1e-300)
    assert "no better than none" in failure_of(model_of(engine_on(noise()), algorithm=still), 2)


@pytest.mark.filterwarnings("ignore::fedsparse.errors.DivergenceWarning")
def test_a_model_worse_than_none_is_a_failure():
    wild = fs.FedIterHT(2, step_size=1.1, local_steps=2)
    told = failure_of(model_of(engine_on(noise()), algorithm=wild, rounds=1), 2)
    assert "f is" in told
    assert "at the start" in told


def test_a_model_that_began_at_a_smaller_one_is_compared_with_nothing_else():
    """On a path f may not fall any more, and the model is good all the same."""
    engine = engine_on(np.random.default_rng(0).standard_normal((60, 6))[:, 0])
    options = FitOptions(fs.SquaredError())
    _, model = fs.converse(engine, choose_by_ebic(engine, [1, 2, 3], options))
    assert failure_of(model, 2) is None


@pytest.fixture
def command(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["fedsparse", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return call


def write(path, feature, target):
    site = np.arange(len(target)) % 2
    pl.DataFrame({"feature": feature, "target": target, "site": site}).write_csv(path)
    return path


FEATURE = np.tile([1.5, 1.5, -1.5, -1.5], 10)
UNRELATED = np.tile([2.5, 2.5, 2.5, 2.5, 0.5, 0.5, 0.5, 0.5], 5)
FIT = ("--target", "target", "--site", "site", "--sparsity", 1, "--held-out", "none")


def test_a_fit_without_features_ends_with_1_says_why_and_writes_its_files(command, tmp_path):
    table, out = write(tmp_path / "table.csv", FEATURE, UNRELATED), tmp_path / "out"
    code, shown, told = command("fit", table, *FIT, "--stability", 0, "--out", out)
    assert code == 1
    assert told.startswith("fedsparse: The model is no better than none: it has no features. A ")
    assert "labels may be shuffled" in told
    assert "Report:" in shown
    assert "no better than none" in (out / "report.html").read_text()
    assert "no features" in Model.load(out).settings["failure"]
    assert "no features" in FitSummary.load(out / "fit.json").failure


def test_json_says_it_too(command, tmp_path):
    table = write(tmp_path / "table.csv", FEATURE, UNRELATED)
    code, shown, _ = command(
        "fit", table, *FIT, "--stability", 0, "--json", "--out", tmp_path / "out"
    )
    assert code == 1
    assert "no features" in json.loads(shown)["failure"]


def test_a_fit_of_shuffled_labels_is_a_result(command, tmp_path):
    draw = np.random.default_rng(3)
    table = write(tmp_path / "table.csv", draw.standard_normal(40), draw.integers(0, 2, 40))
    code, _, _ = command("fit", table, *FIT, "--stability", 2, "--out", tmp_path / "out")
    assert code == 0


TARGETS = {
    "numbers": lambda draw: draw.standard_normal(150) + 7,
    "two classes": lambda draw: draw.permutation(np.tile(["no", "yes", "no"], 50)),
    "three classes": lambda draw: draw.permutation(np.tile(["a", "b", "c"], 50)),
}
GUESSES = {
    "numbers": "its average does",
    "two classes": "the shares of its classes do: the model answers no 67%, yes 33% for every row.",
    "three classes": "the shares of its classes do: the model answers a 33%, b 33%, c 33%",
}


class TestChoosingNoFeatures:
    """That no feature predicts is found out, and no failure."""

    @pytest.fixture(params=TARGETS)
    def kind(self, request):
        return request.param

    @pytest.fixture
    def table(self, kind, tmp_path):
        draw = np.random.default_rng(5)
        columns = {f"gene_{number}": draw.standard_normal(150) for number in range(20)}
        columns |= {"site": np.arange(150) % 3, "target": TARGETS[kind](draw)}
        pl.DataFrame(columns).write_csv(tmp_path / "noise.csv")
        return tmp_path / "noise.csv"

    @pytest.mark.parametrize("how", ["cv", "ebic"])
    def test_a_fit_ends_with_0_and_says_so_on_terminal_and_page(self, command, table, kind, how):
        out = table.parent / "out"
        options = ("--target", "target", "--site", "site", "--sparsity", how, "--rounds", 30)
        code, shown, told = command("fit", table, *options, "--out", out)
        assert code == 0
        assert (
            told == "Note: Stability was not worked out: the model has no features to be found "
            "again.\n"
        )
        by = {"cv": "cross-validation", "ebic": "EBIC"}[how]
        sentence = f'By {by}, no feature predicts "target" better than {GUESSES[kind]}'
        assert sentence in " ".join(shown.split())
        assert "No feature was chosen by" in shown
        summary = FitSummary.load(out / "fit.json")
        assert (summary.failure, summary.model.features, summary.stability) == (None, (), None)
        page = (out / "report.html").read_text()
        assert "None of 20 features predicts “target” better than" in page
        assert "No feature was chosen" in page

    def test_its_model_predicts_the_same_for_every_row(self, command, table):
        out, predictions = table.parent / "out", table.parent / "predictions.csv"
        options = ("--target", "target", "--site", "site", "--held-out", "none", "--rounds", 30)
        assert command("fit", table, *options, "--out", out)[0] == 0
        assert command("predict", out, table, "--out", predictions)[0] == 0
        frame = pl.read_csv(predictions).drop("file", "row")
        assert frame.height == 150
        assert frame.n_unique() == 1

    def test_its_model_is_evaluated_and_its_page_drawn_again(self, command, table):
        out = table.parent / "out"
        options = ("--target", "target", "--site", "site", "--sparsity", "ebic", "--rounds", 30)
        assert command("fit", table, *options, "--out", out)[0] == 0
        page = (out / "report.html").read_text()
        assert command("evaluate", out, table)[0] == 0
        assert command("report", out)[0] == 0
        assert (out / "report.html").read_text() == page
