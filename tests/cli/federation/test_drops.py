"""A site killed at any stage of secure sums: the run goes on, with the sum of those that answered.

Five sites as processes, with a threshold of three. Three of them stay; they would refuse to learn
from the same rows with other sites, and are made to forget, run by run.
"""

import signal
from dataclasses import replace

import numpy as np
import pytest

from fedsparse.engines.local import LocalEngine
from fedsparse.modelling import tables_in_one_place
from fedsparse.modelling.specification import FitSpecification
from fedsparse.tables import Roles, load_tables
from tests.cli.federation.federations import TARGET, Federation, assert_same_model, write_table

pytestmark = pytest.mark.slow

DEATHS = {
    "before its keys": ("Prepare", 1, "before"),
    "after its keys": ("Prepare", 1, "after"),
    "after its shares": ("Asks", 2, "before"),
    "after its masked answer": ("Asks", 2, "after"),
    "asked who survived": ("Survivors", 3, "before"),
    "during unmasking": ("Survivors", 3, "before"),
}
"""The message at which a site dies, before or after its reply has left."""
RUNS = (
    {"before its keys": 0, "after its masked answer": 2},
    {"after its keys": 0, "during unmasking": 1},
    {"after its shares": 1, "asked who survived": 2},
)
"""Two sites of five die in each run: with a threshold of three, no more may. How many exchanges
have their answers; one before them, in which rows are counted, asks for none. Where another site is
missing, those left are asked twice: who survived, and for shares."""
FIT = {"sparsity": 3, "held_out": "none", "stability": 0}
OTHERS = ("aachen", "bari", "cork")
WIDTH, ROWS = 8, 20


class Leaving(LocalEngine):
    """The last clients answer some exchanges each, and are gone."""

    answers = ()

    def exchange(self, asks):
        staying = len(self.names) - len(self.answers)
        left = [staying + place for place, own in enumerate(self.answers) if own > 0]
        self.answers = [own - 1 for own in self.answers]
        which = np.array([*range(staying), *left])
        return super().exchange([replace(ask, which=which) for ask in asks])


def name_of(stage):
    """Of the site that dies there."""
    return f"killed-{stage.replace(' ', '-')}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    truth = np.zeros(WIDTH)
    truth[:3] = 2.0, -1.5, 1.0
    found = []
    for place in range(len(OTHERS) + 2):
        random = np.random.default_rng(place)
        rows = random.standard_normal((ROWS + place, WIDTH))
        own = truth * random.uniform(0.5, 1.5, WIDTH)
        targets = rows @ own + 0.5 * random.standard_normal(len(rows))
        found.append(write_table(folder / f"{place}.csv", rows, targets))
    return found


@pytest.fixture(scope="module")
def federation(tmp_path_factory, tables):
    names = [*OTHERS, *map(name_of, DEATHS)]
    with Federation(tmp_path_factory.mktemp("drops"), names, is_secure=True) as running:
        for name, table in zip(OTHERS, tables, strict=False):
            running.start_altered_site(
                "tests.cli.federation.forgetful_site", name=name, table=table
            )
        yield running


def fitted(tables):
    loaded = load_tables(tables, Roles(target=TARGET))
    return tables_in_one_place.analyse(loaded, FitSpecification(**FIT), sums="fixed").model


def expected(tables, answers):
    """The model of one process in which the last sites answer so many exchanges each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Leaving, "answers", answers)
        patch.setattr(tables_in_one_place, "LocalEngine", Leaving)
        return fitted(tables)


@pytest.mark.parametrize("deaths", RUNS, ids=" and ".join)
def test_sites_killed_at_any_stage_leave_the_model_of_those_that_answered(
    federation, tables, deaths
):
    killed = list(map(name_of, deaths))
    for stage, name, table in zip(deaths, killed, tables[-2:], strict=True):
        federation.start_altered_site(
            "tests.cli.federation.dying_site", *DEATHS[stage], name=name, table=table
        )
    run = federation.train(sites=5, min_sites=3, round_seconds=4, out=" ".join(killed), **FIT)
    assert run.finish() == 0, run.text
    for name in killed:
        assert federation.programs.running.pop(name).wait() == -signal.SIGKILL
        assert f"{name} is absent" in run.text
    assert_same_model(run.model, expected(tables, list(deaths.values())))
    ends = [site.took_part for site in run.summary.sites]
    assert ends[:3] == ["to the end"] * 3
    assert all(own.startswith("absent at the end") for own in ends[3:])


def test_sites_that_answer_nothing_are_as_good_as_none(tables):
    """What the runs are compared with."""
    assert_same_model(expected(tables, [0, 0]), fitted(tables[:-2]))


def test_how_many_answers_a_site_is_in_shows_in_the_model(tables):
    models = [expected(tables, [one, other]) for one in range(3) for other in range(3)]
    assert len({model.model_dump_json() for model in models}) == len(models)
