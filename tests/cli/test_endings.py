"""Fits that diverge, or stop before they converge, say so, through the command line and Python."""

import re
import warnings

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import ConvergenceWarning

import fedsparse as fs
from tests.cli.builders import ROLES, patients


class TestFitsThatDoNotComeToTheirEnd:
    def test_are_told_once_by_a_note_if_they_diverge(self, command, tmp_path):
        patients().write_csv(tmp_path / "patients.csv")
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is shown fit by fit
            code, _, err = command(
                "fit", tmp_path / "patients.csv", *ROLES, "--method", "FedIterHT", "--step-size",
                1e6, "--stability", 1, "--out", tmp_path / "out",
            )  # fmt: skip
        assert code in (0, 1)
        assert len(re.findall("fits to parts of the rows diverged", " ".join(err.split()))) == 1

    def test_warn_once_in_an_estimator_if_they_diverge(self):
        X = np.random.default_rng(0).standard_normal((100, 10))
        wild = fs.FedIterHT(2, step_size=50.0)
        model = fs.FedSparseRegressor("cv", algorithm=wild, sparsities=[1, 2, 3])
        with pytest.warns() as caught:
            model.fit(X, X[:, 0])
        told = [one for one in caught if one.category is fs.DivergenceWarning]
        assert len(told) == 1
        assert str(told[0].message).startswith("16 fits diverged")
        assert told[0].filename == __file__

    @pytest.mark.parametrize("classes", [2, 3])
    def test_say_so_if_their_rounds_were_over_before(self, command, tmp_path, classes):
        random = np.random.default_rng(0)
        X = random.standard_normal((120, 6))
        labels = np.argmax(X[:, :classes] + random.standard_normal((120, classes)), axis=1)
        columns = {f"marker_{place}": X[:, place] for place in range(6)}
        path = tmp_path / "table.csv"
        pl.DataFrame({**columns, "kind": labels}).write_csv(path)
        arguments = (
            "fit", path, "--target", "kind", "--task", "classification", "--sparsity", 3,
            "--stability", 0, "--held-out", "none", "--out", tmp_path / "out", "--overwrite",
        )  # fmt: skip
        for method in ("FedSplice", "FedIterHT"):
            code, _, err = command(*arguments, "--method", method, "--rounds", 3)
            assert code == 0
            assert "still changing when its 3 rounds were over" in " ".join(err.split())
            code, _, err = command(*arguments, "--method", method)
            assert code == 0
            assert "still changing" not in err

    def test_say_so_in_an_estimator(self):
        X = np.random.default_rng(0).standard_normal((100, 10))
        y = np.digitize(X[:, 0] + X[:, 1] ** 2, [-0.5, 1])
        with pytest.warns(ConvergenceWarning, match="give it more with rounds=8"):
            fs.FedSparseClassifier(3, rounds=4).fit(X, y)
