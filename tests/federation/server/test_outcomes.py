"""Counts and survival at sites: the bits of one process, and columns that must go together."""

import numpy as np
import polars as pl
import pytest

import fedsparse as fs
from fedsparse.errors import FederationError
from fedsparse.federation.server import mailbox
from fedsparse.federation.server.agreement import Terms
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.flower_engine import FlowerEngine
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.modelling.fitting import loss_of
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.tables_in_one_place import analyse
from fedsparse.tables import Roles, load_tables
from tests.cli.outcome_tables import fallers, survivors
from tests.federation.federated_tables import analysed, assert_same_analysis, grid_of
from tests.federation.secure_sites import ROSTER, masking_of

OUTCOMES = {
    "counts": (fallers, {"target": "falls", "exposure": "days"}),
    "survival": (survivors, {"target": "months", "event": "died"}),
}
ANALYSIS = FitSpecification(sparsity=2, stability=1, rounds=20, dense="yes")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def tables_of(task):
    """The table of every hospital, by name."""
    frame = OUTCOMES[task][0](rows=240)
    return {
        name: frame.filter(pl.col("hospital") == name).drop("hospital")
        for name in ("Bari", "Cork", "Lyon", "Oslo")
    }


def sites_of(task, *, is_open, tables=None, **policy):
    columns = OUTCOMES[task][1]
    return {
        name: Site(
            name,
            NamedTable(frame, **columns),
            Policy(open_sums=is_open, **policy),
            1,
            masking=None if is_open else masking_of(name),
        )
        for name, frame in (tables or tables_of(task)).items()
    }


def engine_on(sites, task, *, is_open):
    conduct = Conduct(sites=len(sites), round_seconds=30.0, longest_wait=5.0, open_sums=is_open)
    return FlowerEngine(grid_of(sites), Terms(task=task), conduct, None if is_open else ROSTER)


def in_one_place(task, folder, *, is_open):
    paths = []
    for name, frame in tables_of(task).items():
        paths.append(folder / f"{name}.csv")
        frame.write_csv(paths[-1])
    loaded = load_tables(paths, Roles(**OUTCOMES[task][1]), task=task)
    data = fs.FederatedData.from_table(
        loaded.features, loaded.targets, loaded.sites, loaded.row_weights
    )
    return fs.LocalEngine(data, loss_of(loaded.encoding), sums="float" if is_open else "fixed")


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "secure"])
@pytest.mark.parametrize("task", OUTCOMES)
def test_the_analysis_is_that_of_one_process_bit_for_bit(task, is_open, tmp_path):
    local = in_one_place(task, tmp_path, is_open=is_open)
    engine = engine_on(sites_of(task, is_open=is_open), task, is_open=is_open)
    assert_same_analysis(analysed(engine, ANALYSIS), analysed(local, ANALYSIS))
    local.close()
    engine.close()


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "secure"])
def test_a_site_without_an_event_takes_part(is_open):
    tables = tables_of("survival")
    tables["Oslo"] = tables["Oslo"].with_columns(died=pl.lit(0))
    engine = engine_on(sites_of("survival", is_open=is_open, tables=tables), "survival",
                       is_open=is_open)  # fmt: skip
    assert "at Oslo no row has an event" in " ".join(engine.encoding.notes)
    found = analysed(engine, ANALYSIS)
    assert found.fitted.coefficients.any()
    engine.close()


def test_no_event_at_any_site_is_refused():
    tables = {
        name: own.with_columns(died=pl.lit("no")) for name, own in tables_of("survival").items()
    }
    sites = sites_of("survival", is_open=False, tables=tables)
    with pytest.raises(FederationError, match="no row has an event: every time is censored"):
        engine_on(sites, "survival", is_open=False)


class TestColumns:
    """What sites were started with must suit what the server asks for."""

    @pytest.mark.parametrize(
        ("task", "asked", "sentence"),
        [
            (
                "survival",
                "auto",
                "it was started with --event; inspect and train with --task survival",
            ),
            (
                "survival",
                "classification",
                "it was started with --event; inspect and train with --task",
            ),
            (
                "counts",
                "regression",
                "it was started with --exposure; inspect and train with --task counts",
            ),
            ("counts", "survival", "it was started without --event; start it with --time and"),
        ],
    )
    def test_another_task_is_refused_by_the_site(self, task, asked, sentence):
        with pytest.raises(FederationError, match=sentence):
            engine_on(sites_of(task, is_open=True), asked, is_open=True)

    def test_an_exposure_that_one_site_lacks_is_told(self):
        sites = sites_of("counts", is_open=True)
        frame = tables_of("counts")["Lyon"].drop("days")
        sites["Lyon"] = Site("Lyon", NamedTable(frame, "falls"), Policy(open_sums=True), 1)
        with pytest.raises(
            FederationError, match=r'the exposure is "days" at .* and Lyon has none'
        ):
            engine_on(sites, "counts", is_open=True)

    def test_the_outcome_cannot_be_taken_for_another_kind_by_a_lens(self):
        engine = engine_on(sites_of("survival", is_open=True), "survival", is_open=True)
        squared = engine.through(engine.lens.__class__(fs.SquaredError()))
        with pytest.raises(FederationError, match="takes its outcome for another kind"):
            squared.exchange([squared.ask(fs.Gradient(np.zeros(engine.width)))])
        engine.close()


@pytest.mark.parametrize("task", OUTCOMES)
def test_the_whole_summary_comes_of_one_place_too(task, tmp_path):
    path = tmp_path / "all.csv"
    OUTCOMES[task][0]().write_csv(path)
    loaded = load_tables(path, Roles(**OUTCOMES[task][1], site="hospital"), task=task)
    summary = analyse(loaded, ANALYSIS)
    assert summary.model.task == task
    assert {feature.name for feature in summary.model.features} == {"marker_1", "marker_4"}
