"""One of four sites lies: it is named, or the run says that its model is worth nothing.

Sums are open here. What is found in sums alone is in tests/federation/server/test_plausibility.py,
with the same lies.
"""

import pytest

from fedsparse.errors import FederationError
from fedsparse.federation.server import outcome, stages
from fedsparse.federation.server.outcome import train
from fedsparse.federation.server.training import Training
from fedsparse.federation.sites.policy import Policy
from fedsparse.modelling.influence import sentence_on_influence
from fedsparse.modelling.summary import FitSummary
from tests.attacks.poisoning import (
    MANY,
    PLANTED,
    PoisonedSite,
    concave,
    far_below,
    gentler,
    honest,
    planted,
    steeper,
)
from tests.federation.federated_tables import clients_of, sites_of
from tests.federation.grids import Nodes, answering, table_of

NAMES = ("aachen", "bari", "cork", "delft")
TRUE = ["gene 3", "gene 7"]
KINDS = ("numbers", "two classes")
METHODS = ("FedSplice", "FedIterHT")
ROUNDS = 20
POLICY = Policy(open_sums=True, smallest_samples=1, most_features_per_row=100.0)

pytestmark = pytest.mark.filterwarnings("ignore::fedsparse.errors.DivergenceWarning")


def trained(tmp_path, kind, method, change, *, times_rows=1, turned=False, **options):
    """What comes of a run with delft lying; ``turned``: its labels are the wrong way round."""
    clients = clients_of(kind, sites=4)
    rows, targets = clients[3]
    if turned:
        targets = -targets if kind == "numbers" else 1.0 - targets
    liar = PoisonedSite(
        "delft", table_of(rows, targets), POLICY, 1, change=change, times_rows=times_rows
    )
    sites = [*sites_of(clients[:3], NAMES).values(), liar]
    train(
        Nodes({place: answering(site) for place, site in enumerate(sites, start=1)}),
        Training(
            open_sums=True, sparsity=2, method=method, rounds=ROUNDS, held_out="none", stability=2,
            sites=4, round_seconds=10.0, longest_wait=10.0, out=str(tmp_path), **options,
        ),
    )  # fmt: skip
    return FitSummary.load(tmp_path / "fit.json")


def features_of(summary):
    return sorted(feature.name for feature in summary.model.features)


IMPOSSIBLE = {
    ("FedSplice", "gradient × 10"): (steeper, "slopes are steeper than f"),
    ("FedSplice", "+50 on one slope"): (planted, "slopes are steeper than f"),
    ("FedSplice", "negative Hessian"): (concave, "a second derivative is negative"),
    ("FedSplice", "f = −1e9"): (far_below, "f is -1e+09"),
    ("FedIterHT", "f = −1e9"): (far_below, "f is -1e+09"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("method", "change", "told"),
    [(method, *own) for (method, _), own in IMPOSSIBLE.items()],
    ids=[" ".join(name) for name in IMPOSSIBLE],
)
class TestAnswersOfNoRows:
    def test_name_the_site_and_end_a_run_that_needs_all(self, tmp_path, kind, method, change, told):
        with pytest.raises(FederationError, match=f"delft .*{told.replace('+', '[+]')}"):
            trained(tmp_path, kind, method, change)

    def test_leave_the_site_out_of_a_run_that_does_not(self, tmp_path, kind, method, change, told):
        summary = trained(tmp_path, kind, method, change, min_sites=3)
        assert features_of(summary) == TRUE
        assert summary.failure is None
        assert told in summary.sites[3].took_part


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [steeper, planted], ids=["gradient × 10", "+50 on one slope"])
def test_local_steps_that_go_astray_fail_the_run_and_name_the_site(tmp_path, kind, change):
    """No bound holds for x after steps of a user's size: what they lead to gives the site away."""
    summary = trained(tmp_path, kind, "FedIterHT", change)
    assert summary.failure.startswith("The model is no better than none: f is ")
    assert sentence_on_influence(summary).startswith("delft changes the model most: without it")
    page = (tmp_path / "report.html").read_text()
    assert "The model is no better than none" in page
    assert "delft changes the model most" in page
    if change is planted:
        assert f"gene {PLANTED}" in features_of(summary)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_a_million_times_the_rows_are_told(tmp_path, kind, method, caplog):
    """Nobody else can count a site's rows: the claim is believed, and said in log and report."""
    told = "delft says that it has 30,000,000 of all 30,000,090 rows"
    summary = trained(tmp_path, kind, method, honest, times_rows=MANY, turned=True)
    assert any(note.startswith(told) for note in summary.notes)
    assert told in caplog.text
    assert told in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_honest_sites_are_told_nothing_of(tmp_path, kind, method, caplog):
    summary = trained(tmp_path, kind, method, honest)
    assert features_of(summary) == TRUE
    assert (summary.failure, summary.notes, sentence_on_influence(summary)) == (None, (), None)
    assert {site.took_part for site in summary.sites} == {"to the end"}
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


class TestWithoutTheDefence:
    """What plausibility stops: the lies reach the model."""

    @pytest.fixture(autouse=True)
    def _believing_everything(self, monkeypatch):
        monkeypatch.setattr(stages, "objection_to_answer", lambda *_: None)
        monkeypatch.setattr(outcome, "watched", lambda conversation, promises: conversation)

    @pytest.mark.parametrize("change", [steeper, planted], ids=["gradient × 10", "+50 on a slope"])
    def test_steep_slopes_empty_the_model_and_the_run_says_so(self, tmp_path, change):
        summary = trained(tmp_path, "numbers", "FedSplice", change)
        assert features_of(summary) == []
        assert summary.failure.startswith("The model is no better than none: it has no features.")

    def test_a_negative_hessian_costs_rounds_and_nothing_more(self, tmp_path):
        """Rounded matrices have no negative diagonal: signs between features are turned round."""
        truth = trained(tmp_path / "honest", "numbers", "FedSplice", honest)
        found = trained(tmp_path / "concave", "numbers", "FedSplice", concave)
        assert features_of(found) == features_of(truth) == TRUE
        (early, best), (late, reached) = (
            (own.history[-1].round, own.history[-1].objective) for own in (truth, found)
        )
        assert early < late < ROUNDS
        assert reached == pytest.approx(best, rel=1e-6)


class TestOnSumsAlone:
    """No answer is looked at: what sums tell is all that a server has under masks."""

    @pytest.fixture(autouse=True)
    def _no_answer_is_seen(self, monkeypatch):
        monkeypatch.setattr(stages, "objection_to_answer", lambda *_: None)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("method", "change"),
        [(method, change) for (method, _), (change, _) in IMPOSSIBLE.items()],
        ids=[" ".join(name) for name in IMPOSSIBLE],
    )
    def test_a_sum_of_no_rows_ends_the_run(self, tmp_path, kind, method, change):
        with pytest.raises(FederationError, match="cannot be the sum over any rows"):
            trained(tmp_path, kind, method, change)

    def test_slopes_that_could_be_and_are_not_are_told(self, tmp_path, caplog):
        summary = trained(tmp_path, "numbers", "FedSplice", gentler)
        (note,) = [note for note in summary.notes if "a site is faulty or lies" in note]
        assert "f was not where the slopes and second derivatives" in note
        assert note in caplog.text
