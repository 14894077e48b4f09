"""Experiments as data: every mistake in a TOML file is told by file and key."""

import pytest

from fedsparse.errors import OptionError
from fedsparse.research.experiments.experiment_settings import NAMES, parse_settings, read_settings
from tests.research.experiments.tiny import TINY

PAPER_STEP_SIZES = [10, 1, 0.6, 0.3, 0.1, 0.06, 0.03, 0.01, 0.001]


@pytest.mark.parametrize("name", NAMES)
class TestThePapersExperiments:
    def test_search_the_grid_of_the_paper_on_three_seeds(self, name):
        settings = read_settings(name)
        assert settings.name == name
        assert settings.grid.local_steps == [3, 5, 8, 10]
        assert settings.grid.step_sizes == PAPER_STEP_SIZES
        assert len(settings.seeds) == 3

    def test_have_the_sparsity_of_the_paper(self, name):
        assert read_settings(name).sparsity == (500 if name == "mnist" else 200)

    def test_have_a_quick_version_that_is_smaller(self, name):
        full, quick = read_settings(name), read_settings(name, quick=True)
        assert len(quick.seeds) == 1
        assert len(quick.grid.step_sizes) < len(full.grid.step_sizes)
        assert quick.sparsity == full.sparsity


def test_quick_changes_only_what_it_names():
    full, quick = parse_settings(TINY, "tiny.toml"), parse_settings(TINY, "tiny.toml", quick=True)
    assert (quick.rounds, quick.seeds, quick.grid.step_sizes) == (4, [0], [0.01])
    assert (quick.grid.local_steps, quick.data) == (full.grid.local_steps, full.data)


def test_a_file_of_ones_own_is_read(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    assert read_settings(str(path)).title == "Tiny simulation"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sparsity = 5", "sparsity = 0"), r'tiny.toml: key "sparsity" is 0, but must be greater'),
        (("rounds = 6", 'rounds = "six"'), r'key "rounds" is \'six\', but must be a valid integer'),
        (("[claims]", "finalists = 2\n[claims]"), r'key "grid.finalists" is unknown'),
        (("step_sizes = [10,", "step_sizes = [-1,"), r'key "grid.step_sizes.0" is -1'),
        (('loss = "squared"', 'loss = "hinge"'), r'key "loss" is \'hinge\', but must be \'squared'),
        (('title = "Tiny simulation"', ""), r'key "title" is missing'),
        (("seeds = [0, 1]", "seeds = []"), r'key "seeds" is \[\]'),
        (("seeds = [0, 1]", "seeds = [0, 1"), r"tiny.toml is not TOML: .*line \d+"),
        (("seeds = [0]", "seeds = [-1]"), r'tiny.toml, \[quick\]: key "seeds.0" is -1'),
    ],
)
def test_a_mistake_is_told_by_file_and_key(change, message):
    with pytest.raises(OptionError, match=message):
        parse_settings(TINY.replace(*change), "tiny.toml", quick=True)


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        OptionError, match='no experiment "simulation1"; did you mean "simulation-1"'
    ):
        read_settings("simulation1")


def test_a_name_like_no_other_lists_them_all():
    with pytest.raises(
        OptionError, match="there are simulation-1, simulation-2, e2006, rcv1, mnist"
    ):
        read_settings("x")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"gone\.toml"):
        read_settings(str(tmp_path / "gone.toml"))
