"""A training run from roll call to files, resumed and repeated; nodes live in this process."""

import numpy as np
import polars as pl
import pytest

from fedsparse.errors import CheckpointError, FederationError
from fedsparse.federation.payloads import Asks, from_bytes
from fedsparse.federation.server import mailbox
from fedsparse.federation.server.lock import LOCK, locked
from fedsparse.federation.server.outcome import train
from fedsparse.federation.server.training import Training
from fedsparse.federation.server.transcript import TRANSCRIPT
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.modelling.summary import FitSummary
from tests.federation.grids import TARGET, Nodes, answering

NAMES = ("aachen", "bari", "cork")


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def site_named(name, shift=0.0):
    random = np.random.default_rng(len(name))
    rows = random.standard_normal((20, 5))
    columns = {f"gene {place}": column for place, column in enumerate(rows.T)}
    outcome = 50.0 + shift + rows @ [2.0, 0.0, -1.0, 0.0, 0.0] + random.standard_normal(20)
    return Site(
        name,
        NamedTable(pl.DataFrame({**columns, TARGET: outcome}), TARGET),
        Policy(open_sums=True),
        1,
    )


def grid_of(names=NAMES, **others):
    """Sites by name; ``others`` replace what some of them reply with."""
    sites = {name: answering(site_named(name)) for name in names} | others
    return Nodes(dict(enumerate(sites.values(), start=1)))


def training_to(out, **options):
    return Training(open_sums=True,
        **{"sparsity": 2, "method": "FedIterHT"} | options, sites=3, min_sites=2, rounds=6,
        step_size=0.05, round_seconds=0.3, longest_wait=1.0, out=str(out), held_out="none",
        stability=0,
    )  # fmt: skip


def dying(name, after):
    """A site that answers some messages and then no more."""
    site, count = site_named(name), iter(range(after))
    return lambda payload: None if next(count, None) is None else site.reply(payload, 1)


def silent_about_columns(name):
    """A site that answers everything but questions about sums of columns."""
    site = site_named(name)

    def reply(payload):
        said = from_bytes(payload)
        is_of_columns = isinstance(said, Asks) and any(b"Column" in own for _, own in said.requests)
        return None if is_of_columns else site.reply(payload, 1)

    return reply


@pytest.fixture
def interrupted(tmp_path):
    """The folder of a run whose sites fell silent after some rounds."""
    grid = grid_of(aachen=dying("aachen", 9), bari=dying("bari", 9))
    with pytest.raises(FederationError, match="needed answered"):
        train(grid, training_to(tmp_path / "run"))
    assert (tmp_path / "run" / TRANSCRIPT).exists()
    return tmp_path / "run"


def test_a_resumed_run_ends_with_the_model_of_an_uninterrupted_one(interrupted, tmp_path):
    whole = train(grid_of(), training_to(tmp_path / "whole"))
    resumed = train(grid_of(), training_to(interrupted, resume=True))
    assert resumed.fitted.coefficients.tobytes() == whole.fitted.coefficients.tobytes()
    assert resumed.fitted.intercept.tobytes() == whole.fitted.intercept.tobytes()


def test_a_resumed_run_scales_as_the_first_whoever_is_silent_now(interrupted, tmp_path):
    whole = train(grid_of(), training_to(tmp_path / "whole"))
    grid = grid_of(cork=silent_about_columns("cork"))
    resumed = train(grid, training_to(interrupted, resume=True))
    assert resumed.fitted.coefficients.tobytes() == whole.fitted.coefficients.tobytes()


def test_sites_that_are_missing_when_a_run_is_resumed_are_named(interrupted):
    with pytest.raises(
        CheckpointError,
        match="began with aachen, bari and cork, and now there are aachen and bari; start those",
    ):
        train(grid_of(NAMES[:2]), training_to(interrupted, resume=True))
    assert (interrupted / TRANSCRIPT).exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sparsity": 3}, "began with --sparsity 2 and cannot go on with --sparsity 3; say"),
        (
            {"drop": ("gene 4",)},
            'began with --drop \\[\\] and cannot go on with --drop \\["gene 4"',
        ),
        ({"l2": 0.5}, r"began without --l2 and cannot go on with --l2 0\.5"),
    ],
)
def test_other_options_are_told_when_a_run_is_resumed(interrupted, changes, told):
    with pytest.raises(CheckpointError, match=told):
        train(grid_of(), training_to(interrupted, resume=True, **changes))


def test_other_tables_are_told_when_a_run_is_resumed(interrupted):
    sites = []
    for name in NAMES:
        frame = site_named(name)._table.frame.rename({"gene 4": "gene 5"})
        sites.append(Site(name, NamedTable(frame, TARGET), Policy(open_sums=True), 1))
    grid = Nodes({place: answering(site) for place, site in enumerate(sites, start=1)})
    with pytest.raises(CheckpointError, match="tables are not those that the run began with"):
        train(grid, training_to(interrupted, resume=True))


def test_two_runs_do_not_write_into_one_folder(tmp_path):
    with locked(tmp_path / LOCK), pytest.raises(FederationError, match="still writing to"):
        train(grid_of(), training_to(tmp_path))


def test_the_report_counts_only_rows_that_were_learnt_from(tmp_path):
    shy = Site(
        "cork",
        site_named("cork")._table,
        Policy(open_sums=True, requests=("ColumnSums", "Evaluate")),
        1,
    )
    train(grid_of(cork=answering(shy)), training_to(tmp_path))
    summary = FitSummary.load(tmp_path / "fit.json")
    assert [site.has_counted for site in summary.sites] == [True, True, False]
    assert "learnt from 2 sites (40 rows)" in (tmp_path / "report.html").read_text()
    assert "train with --no-standardize" in summary.sites[2].took_part


def test_a_new_run_that_finds_no_sites_loses_nothing(interrupted):
    with pytest.raises(FederationError, match="3 sites were expected and 1 came"):
        train(grid_of(NAMES[:1]), training_to(interrupted))
    assert (interrupted / TRANSCRIPT).exists()


def test_a_report_says_whose_features_did_not_count_for_the_scales_resumed_or_not(tmp_path):
    grid = grid_of(cork=silent_about_columns("cork"))
    train(grid, training_to(tmp_path))
    assert "Features were scaled without cork." in FitSummary.load(tmp_path / "fit.json").notes
    train(grid_of(), training_to(tmp_path, resume=True))
    assert "Features were scaled without cork." in FitSummary.load(tmp_path / "fit.json").notes


def test_a_run_resumed_after_its_last_round_was_learnt_from_all(tmp_path):
    train(grid_of(), training_to(tmp_path))
    train(grid_of(), training_to(tmp_path, resume=True))
    assert "learnt from 3 sites (60 rows)" in (tmp_path / "report.html").read_text()


def test_an_option_of_the_beginning_must_be_said_again(tmp_path):
    train(grid_of(), training_to(tmp_path, l2=0.5))
    with pytest.raises(
        CheckpointError, match=r"began with --l2 0\.5 and cannot go on without --l2"
    ):
        train(grid_of(), training_to(tmp_path, resume=True))


def test_a_method_of_ones_own_trains_over_a_network(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import fedsparse\n\nclass Own(fedsparse.FedIterHT):\n    pass\n"
    )
    ours = train(grid_of(), training_to(tmp_path / "ours"))
    own = train(grid_of(), training_to(tmp_path / "own", method=f"{tmp_path}/mine.py:Own"))
    assert own.fitted.coefficients.tobytes() == ours.fitted.coefficients.tobytes()
    assert FitSummary.load(tmp_path / "own" / "fit.json").settings["method"] == "Own of mine.py"
