"""One specification of a fit: what it holds, what it refuses, and which algorithm it makes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.federation.server.conduct import Conduct
from fedsparse.modelling.specification import FitSpecification
from fedsparse.problem.sparsity import TopK

OWN = """
from dataclasses import dataclass, field
import fedsparse as fs

@dataclass(frozen=True)
class Thresholding(fs.Algorithm):
    sparsity: fs.TopK
    step_size: float

    def request(self, state):
        return fs.Gradient(state.x)

    def update(self, state, answers):
        x = state.x - self.step_size * answers.mean("gradient")
        return state.step(self.sparsity.project(x), iterations=1)

@dataclass(frozen=True)
class Stubborn(Thresholding):
    step_size: float = 0.1

    def __post_init__(self):
        raise RuntimeError("not today")

@dataclass(frozen=True)
class Demanding(Thresholding):
    step_size: float = 0.1
    momentum: float = field(kw_only=True)

@dataclass(frozen=True)
class Halfway(fs.Algorithm):
    sparsity: fs.TopK

class Nothing:
    pass
"""

counts = st.integers(1, 2**40)
names = st.lists(st.text(), max_size=3).map(tuple)
specifications = st.builds(
    FitSpecification,
    sparsity=counts | st.sampled_from(["cv", "ebic"]),
    sparsities=st.none() | st.lists(counts, max_size=3).map(tuple),
    folds=st.integers(2, 20),
    drop=names,
    category=names,
    keep=names,
    task=st.sampled_from(["auto", "classification", "regression"]),
    impute=st.none() | st.just("mean"),
    minimum_rows=counts,
    held_out=st.sampled_from(["auto", "all", "fifth", "none"]),
    stability=st.none() | st.integers(0, 100),
    l2=st.none() | st.floats(0, allow_nan=False, allow_infinity=False),
    standardize=st.booleans(),
    intercept=st.booleans(),
    rounds=counts,
    seed=st.integers(0, 2**63 - 1),
    evaluate_every=counts,
    title=st.none() | st.text(),
    method=st.none() | st.text(),
    local_steps=st.none() | counts,
    step_size=st.none() | st.floats(0, 1e9, exclude_min=True),
    batch_size=st.none() | counts,
    weights=st.sampled_from([None, "uniform", "samples"]),
    server_step=st.sampled_from([None, "average", "extrapolated", "adaptive"]),
)


class TestRunConfiguration:
    @given(specifications)
    def test_holds_everything(self, specification):
        flat = specification.to_flat()
        assert {type(value) for value in flat.values()} <= {str, int, float, bool}
        assert FitSpecification.from_flat(flat) == specification

    def test_leaves_out_what_was_not_given(self):
        assert FitSpecification(l2=0.0).to_flat()["l2"] == 0.0
        assert not {"l2", "step-size", "title", "stability"} & FitSpecification().to_flat().keys()

    @pytest.mark.parametrize(
        ("flat", "told"),
        [
            ({"minimum-rows": 0}, "minimum-rows must be a whole number of at least 1, not 0"),
            ({"drop": "age"}, "drop must be a list in JSON, such as '[\"age\"]', not 'age'"),
            ({"drop": "[3]"}, "drop must be a list, each a text, not [3]"),
            ({"rouns": 3}, "rouns is no setting; did you mean rounds?"),
            ({"seed": True}, "seed must be a whole number from 0 to 9223372036854775807, not True"),
        ],
    )
    def test_names_what_is_wrong_as_it_was_written(self, flat, told):
        with pytest.raises(fs.OptionError) as refusal:
            FitSpecification.from_flat(flat)
        assert str(refusal.value) == told


class TestChecks:
    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ({"sparsity": 0}, 'sparsity must be a whole number of at least 1, "cv" or "ebic"'),
            ({"sparsity": 2.5}, '"cv" or "ebic", not 2.5'),
            ({"sparsities": [1, -1]}, "sparsities must be a list, each a whole number of at least"),
            ({"l2": float("inf")}, "l2 must be a number of at least 0, not inf"),
            ({"step_size": 0.0}, "step_size must be a number above 0, not 0.0"),
            ({"impute": "no"}, "impute must be \"mean\", not 'no'"),
            ({"held_out": "half"}, 'held_out must be "auto", "all", "fifth" or "none"'),
            ({"standardize": "yes"}, "standardize must be true or false, not 'yes'"),
            ({"title": 3}, "title must be a text, not 3"),
        ],
    )
    def test_a_wrong_value_is_told_in_a_sentence(self, options, told):
        with pytest.raises(fs.OptionError) as refusal:
            FitSpecification(**options)
        assert told in str(refusal.value)

    def test_a_setting_that_is_needed_is_asked_for(self):
        with pytest.raises(fs.OptionError, match="sites is missing; it must be a whole number"):
            Conduct()

    def test_numbers_of_numpy_are_numbers(self):
        given = FitSpecification(
            sparsity=np.int64(3), l2=np.float32(0.5), sparsities=np.array([1, 2])
        )
        assert given == FitSpecification(sparsity=3, l2=0.5, sparsities=(1, 2))

    @pytest.mark.parametrize("kind", [FitSpecification, Conduct])
    def test_every_setting_is_explained(self, kind):
        assert [name for name, field in kind.model_fields.items() if not field.description] == []


class TestMethod:
    def test_is_left_to_the_loss_by_default(self):
        assert FitSpecification().algorithm() is None

    @pytest.mark.parametrize("method", ["FedSplice", "FedIterHT", "FedHT", "DistributedIHT"])
    def test_by_its_name_counts_rows_alike(self, method):
        algorithm = FitSpecification(method=method).algorithm()
        assert algorithm == getattr(fs, method)(TopK(1), weights="samples")

    def test_takes_its_options(self):
        specification = FitSpecification(
            method="FedIterHT", local_steps=3, step_size=0.5, batch_size=4, weights="uniform",
            server_step="average",
        )  # fmt: skip
        assert specification.algorithm() == fs.FedIterHT(
            TopK(1), local_steps=3, step_size=0.5, batch_size=4, weights="uniform", server_step=1.0
        )

    @pytest.mark.parametrize(
        ("method", "options", "told"),
        [
            (None, {"weights": "samples"}, "--weights means nothing without --method"),
            (None, {"local_steps": 10}, "--local-steps means nothing without --method"),
            ("FedSplice", {"server_step": "average"}, "--server-step means nothing with"),
            ("DistributedIHT", {"local_steps": 1}, "with --method DistributedIHT; leave it out"),
            ("auto", {}, "--method auto is unknown; name FedSplice"),
            ("fedsparse:FedAvg", {}, "fedsparse:FedAvg has no field sparsity"),
        ],
    )
    def test_without_meaning_is_refused_by_name(self, method, options, told):
        with pytest.raises(fs.OptionError, match=told):
            FitSpecification(method=method, **options).algorithm()


class TestOwnMethod:
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "mine.py").write_text(OWN)
        (tmp_path / "broken.py").write_text("1 / 0\n")
        (tmp_path / "leaving.py").write_text("raise SystemExit\n")
        (tmp_path / "unwritten.py").write_text("class Own(\n")

    @pytest.mark.parametrize("place", ["mine.py", "mine", "./mine.py"])
    def test_comes_from_a_file(self, place):
        specification = FitSpecification(method=f"{place}:Thresholding", step_size=0.2)
        algorithm = specification.algorithm()
        assert isinstance(algorithm, fs.Algorithm)
        assert (algorithm.step_size, algorithm.weights) == (0.2, "samples")

    @pytest.mark.parametrize("place", ["mine.py", "mine"])
    def test_is_found_from_another_folder(self, place, tmp_path, monkeypatch):
        specification = FitSpecification(method=f"{place}:Thresholding", step_size=0.2).anywhere()
        monkeypatch.chdir("/")
        assert specification.method == f"{tmp_path / 'mine.py'}:Thresholding"
        assert type(specification.algorithm()).__name__ == "Thresholding"

    @pytest.mark.parametrize(
        ("method", "told"),
        [
            ("nowhere:Own", "nowhere cannot be imported: ModuleNotFoundError"),
            ("nowhere.py:Own", "nowhere.py cannot be imported: FileNotFoundError"),
            ("broken.py:Own", "broken.py cannot be imported: ZeroDivisionError: division by zero"),
            ("leaving.py:Own", "leaving.py cannot be imported: SystemExit"),
            ("unwritten.py:Own", "unwritten.py cannot be imported: SyntaxError"),
            ("mine.py:Own", "mine.py has no class Own; correct its name"),
            ("mine.py:Nothing", "Nothing is no algorithm; derive it from fedsparse.Algorithm"),
            ("mine.py:Thresholding", "needs a value of step_size; give --step-size"),
            ("mine.py:Demanding", "needs a value of momentum; give it a default in the class"),
            ("mine.py:Stubborn", "making a Stubborn fails: RuntimeError: not today"),
            ("mine.py:Halfway", "making a Halfway fails: TypeError: Can't instantiate abstract"),
        ],
    )
    def test_that_cannot_be_used_is_told_in_a_sentence(self, method, told):
        with pytest.raises(fs.OptionError) as refusal:
            FitSpecification(method=method).algorithm()
        assert told in str(refusal.value)
        assert "\n" not in str(refusal.value)

    def test_refuses_options_that_it_does_not_have(self):
        specification = FitSpecification(method="mine.py:Stubborn", local_steps=3)
        with pytest.raises(fs.OptionError, match="--local-steps means nothing with --method mine"):
            specification.algorithm()


class TestTold:
    def test_options_of_the_method_as_they_were_used(self):
        specification = FitSpecification(sparsity=4, method="FedIterHT", batch_size=5)
        told = specification.told(
            fs.SquaredError(), specification.algorithm(), sparsity=4, rounds=7
        )
        assert told["method"] == "FedIterHT"
        assert told["number of features"] == "4, given"
        assert told["local steps"] == "10"
        assert told["step size"] == "one that suits all sites"
        assert told["batch size"] == "5"
        assert told["weights"] == "rows count the same"
        assert told["server step"] == "average"

    def test_the_number_of_features_of_several_classes(self):
        told = FitSpecification(sparsity="ebic").told(fs.Softmax(), None, sparsity=4, rounds=7)
        assert told["number of features"] == "4, by EBIC"  # a feature is one of all classes
        assert told["method"] == "FedSplice"

    def test_not_where_an_own_method_lay(self):
        specification = FitSpecification(method="/home/anna/mine.py:Own")
        told = specification.told(fs.SquaredError(), None, sparsity=4, rounds=7)
        assert told["method"] == "Own of mine.py"
