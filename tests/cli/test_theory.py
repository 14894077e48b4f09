"""The report on theory, on an experiment of one's own that is small."""

import pytest
import typer
from typer.testing import CliRunner

import fedsparse as fs
from fedsparse.cli.theory import theory

EXPERIMENT = """
name = "tiny"
title = "A tiny simulation"
loss = "{loss}"
l2 = {l2}
sparsity = 6
rounds = 3
seeds = [0]

[data]
source = "{source}"
options = {{ clients = 3, samples = 40, width = 12, relevant = 3{more} }}

[grid]
local_steps = [3]
step_sizes = [0.1]
"""
LINEAR = {"loss": "squared", "l2": 0, "source": "simulation_1", "more": ""}
LOGISTIC = {"loss": "logistic", "l2": 0.01, "source": "simulation_2", "more": ", positives = 10"}

app = typer.Typer()
app.command()(theory)


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    def run(settings, *options):
        file = tmp_path / "tiny.toml"
        file.write_text(EXPERIMENT.format(**settings), "utf-8")
        return CliRunner().invoke(app, [str(file), *options])

    return run


class TestReport:
    @pytest.mark.parametrize("settings", [LINEAR, LOGISTIC], ids=["linear", "logistic"])
    def test_tells_constants_theorems_and_measurements_within_80_columns(self, report, settings):
        done = report(settings, "--true-sparsity", "2", "--local-steps", "3")
        assert done.exit_code == 0, done.output
        assert done.stderr == ""
        assert done.stdout.startswith("A tiny simulation: τ = 6, τ* = 2, K = 3\n")
        for part in ("condition number κ", "dissimilarity 𝓑 at x*", "rate θ", "recomputed",
                     "the bound is void", "of f: g₂, g₄", "When is θ₂ < θ₁?", "never",
                     "conclusion says the contrary", "Measured", "FedIter-HT"):  # fmt: skip
            assert part in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 80

    def test_options_change_what_is_worked_out(self, report):
        done = report(LINEAR, "--sparsity", "4", "--seed", "2", "--precision", "0.1")
        assert done.stdout.startswith("A tiny simulation: τ = 4, τ* = 2, K = 10\n")

    def test_same_seed_same_report(self, report):
        first, again = (report(LINEAR, "--local-steps", "2").stdout for _ in range(2))
        assert first == again


class TestErrors:
    def test_unknown_data_set(self):
        done = CliRunner().invoke(app, ["simulation-3"])
        assert isinstance(done.exception, fs.OptionError)
        assert "simulation-3" in str(done.exception)

    def test_true_sparsity_that_is_not_below_the_sparsity(self, report):
        done = report(LINEAR, "--true-sparsity", "6")
        assert isinstance(done.exception, fs.OptionError)
        assert "true_sparsity is 6" in str(done.exception)

    def test_option_out_of_range(self, report):
        done = report(LINEAR, "--local-steps", "0")
        assert done.exit_code == 2
