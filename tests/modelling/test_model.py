"""The model file."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from fedsparse.errors import DataError
from fedsparse.modelling.model import Feature, Model
from fedsparse.modelling.summary import FitSummary
from fedsparse.report.fit import fit_page, save_fit
from fedsparse.tables.encoding import EncodedColumn

AGE = Feature(name="age", column="age", coefficients=(0.1,), mean=50.0, scale=9.0)
WARD = Feature(
    name="ward=eye", column="ward", level="eye", coefficients=(-1 / 3,), mean=0.5, scale=0.5
)
COLUMNS = (
    EncodedColumn(name="age", kind="number"),
    EncodedColumn(name="ward", kind="category", levels=("ear", "eye")),
)
FRAME = pl.DataFrame({"ward": ["eye", "ear"], "age": [60, 20], "more": ["x", "y"]})


def model(**changes):
    facts = {
        "task": "binary", "target": "relapse", "classes": ("no", "yes"), "intercepts": (-3.0,),
        "features": (AGE, WARD), "columns": COLUMNS, "settings": {"sparsity": "2"},
        "fingerprint": "0" * 64, "versions": {"fedsparse": "0.1"},
    }  # fmt: skip
    return Model(**{**facts, **changes})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "model.json"
    model().save(path)
    return path


def test_a_saved_model_predicts_the_same_to_the_last_bit(path):
    before, after = model().predict(FRAME, "t.csv"), Model.load(path).predict(FRAME, "t.csv")
    assert before.equals(after)
    scores = np.array([-3.0 + 0.1 * 60 - 1 / 3, -3.0 + 0.1 * 20])
    np.testing.assert_allclose(after["probability of yes"], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    assert after["predicted relapse"].to_list() == ["yes", "no"]


def test_a_person_can_read_it(path):
    content = json.loads(path.read_text())
    assert content["features"][0]["name"] == "age"
    assert content["features"][0]["coefficients"] == [0.1]
    assert content["classes"] == ["no", "yes"]


def test_several_classes():
    features = (AGE.model_copy(update={"coefficients": (0.0, 0.1, -0.1)}),)
    found = model(
        task="multiclass", classes=("a", "b", "c"), intercepts=(0.0, 0.0, 1.0), features=features
    ).predict(FRAME, "t.csv")
    assert found["predicted relapse"].to_list() == ["b", "b"]
    np.testing.assert_allclose(found.select(pl.exclude("predicted relapse")).sum_horizontal(), 1.0)


def test_numbered_features_may_end_early():
    third = Feature(name="3", column="3", coefficients=(2.0,), mean=0.0, scale=1.0)
    ninth = Feature(name="9", column="9", coefficients=(5.0,), mean=0.0, scale=1.0)
    numbered = model(features=(third, ninth), columns=())
    rows = sparse.csr_array(np.array([[0.0, 0.0, 0.0, 1.5]]))
    assert numbered.features_of_numbered(rows, "t.svm").tolist() == [[1.5, 0.0]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("0.1", "0.2", 1), "was changed after it was saved"),
        (lambda text: text.replace('"format_version": 1', '"format_version": 2'), "newer than"),
        (lambda text: text[: len(text) // 2], "no whole JSON file"),
        (lambda text: "[]", "is not a model"),
        (lambda text: '{"format": "something else"}', "is not a model"),
    ],
)
def test_a_file_that_was_changed_is_refused(path, change, message):
    path.write_text(change(path.read_text()))
    with pytest.raises(DataError, match=message):
        Model.load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"no file .*nowhere\.json"):
        Model.load(tmp_path / "nowhere.json")


def test_a_table_without_a_column_is_refused():
    with pytest.raises(DataError, match="age"):
        model().predict(FRAME.drop("age"), "t.csv")


def test_tables_and_numbered_features_do_not_mix():
    with pytest.raises(DataError, match="give a table"):
        model().features_of_numbered(sparse.csr_array((1, 3)), "t.svm")
    third = Feature(name="3", column="3", coefficients=(2.0,), mean=0.0, scale=1.0)
    with pytest.raises(DataError, match="give a LIBSVM"):
        model(features=(third,), columns=()).predict(FRAME, "t.csv")


@pytest.mark.parametrize("kind", [str, Path])
def test_files_may_be_named_by_text_or_by_a_path(tmp_path, kind):
    summary = FitSummary(
        title="Days", created="", model=model(), source="a.csv", columns={}, sites=(), candidates=3,
        history=(), settings={},
    )  # fmt: skip
    save_fit(summary, kind(tmp_path / "out"))
    assert Model.load(kind(tmp_path / "out")) == Model.load(kind(tmp_path / "out/model.json"))
    assert FitSummary.load(kind(tmp_path / "out/fit.json")) == summary
    fit_page(summary).save(kind(tmp_path / "again.html"))
    assert (tmp_path / "again.html").read_text() == (tmp_path / "out/report.html").read_text()
