"""Which site makes the model what it is; where nobody may know, at how many sites it fails."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.modelling.analysis import analysing
from fedsparse.modelling.influence import influences_of, sentence_on_influence
from fedsparse.modelling.model import Feature, Model
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import FitSummary, LeftOut, SiteCount, SitesJudged, Stability
from fedsparse.problem.rows import Without
from fedsparse.report.fit import fit_page
from fedsparse.requests import NoBetterThanNull
from tests.federation.federated_tables import NAMES, clients_of

CHOSEN = ("age", "bmi", "ldl", "sex")


def summary_of(left_out, at_sites=None):
    """A fit that chose four features, and what it chose without each site: (features, f)."""
    stability = Stability(
        subsamples=2, sparsity=4, threshold=0.75, expected_false=0.1, features=(), rounds=3,
        left_out=tuple(
            LeftOut(site=site, features=tuple(features), objective=objective)
            for site, (features, objective) in left_out.items()
        ),
    )  # fmt: skip
    model = Model(
        task="regression", target="y", intercepts=(0.0,), columns=(), settings={}, fingerprint="",
        versions={},
        features=tuple(
            Feature(name=name, column=name, coefficients=(1.0,), mean=0.0, scale=1.0)
            for name in CHOSEN
        ),
    )  # fmt: skip
    sites = tuple(SiteCount(name=name, rows=20) for name in ("aachen", "bari", "cork"))
    return FitSummary(
        title="", created="2025-01-31T12:00", model=model, source="", sites=sites, columns={},
        candidates=9, history=(), stability=stability, settings={}, at_sites=at_sites,
    )  # fmt: skip


SAME = (CHOSEN, 1.0)
OTHERS = ("age", "a", "b", "c")


def test_the_largest_change_comes_first():
    found = influences_of(summary_of({"aachen": SAME, "bari": (OTHERS, 1.0)}))
    assert [(own.site, own.kept, own.lost, own.added) for own in found] == [
        ("bari", 1, 3, 3), ("aachen", 4, 0, 0),
    ]  # fmt: skip
    assert found[0].distance == pytest.approx(6 / 7)


@pytest.mark.parametrize(
    ("left_out", "who"),
    [
        ({"aachen": SAME, "bari": SAME, "cork": SAME}, None),
        ({"aachen": SAME, "bari": (OTHERS, 1.0), "cork": SAME}, "bari"),
        ({"aachen": SAME, "bari": SAME, "cork": (CHOSEN, 0.01)}, "cork"),
        ({"aachen": (OTHERS, 1.0), "bari": (OTHERS, 1.0), "cork": SAME}, None),
        ({"aachen": SAME, "bari": (("age", "bmi", "ldl", "a"), 0.9), "cork": SAME}, None),
        ({"aachen": SAME, "bari": (OTHERS, 1.0)}, None),  # of two, either is the other one
    ],
    ids=["none", "other features", "lower f", "two do", "one feature", "two sites"],
)
def test_a_site_stands_out_if_no_other_comes_near(left_out, who):
    told = sentence_on_influence(summary_of(left_out))
    assert (told is None) == (who is None)
    assert who is None or told.startswith(f"{who} changes the model most: without it")


def test_the_page_tells_what_changes_without_each_site():
    page = fit_page(summary_of({"aachen": SAME, "bari": (OTHERS, 1.0), "cork": SAME})).html()
    assert "bari changes the model most: without it 1 of 4 features stay" in page
    assert "Others instead" in page
    calm = fit_page(summary_of({"aachen": SAME, "bari": SAME, "cork": SAME})).html()
    assert "Without any one of the sites the same features are found." in calm


def test_the_page_tells_at_how_many_sites_the_model_fails_where_no_site_may_be_named():
    page = fit_page(summary_of({}, SitesJudged(no_better=1, sites=5))).html()
    assert "At 1 of 5 sites the model predicts no better than guessing" in page
    assert "Others instead" not in page


class Watched(fs.LocalEngine):
    """Keeps what it was asked."""

    def exchange(self, asks):
        self.asked += asks
        return super().exchange(asks)


def analysed(*, can_single_out, **choice):
    """Five sites, the last of which has labels of its own making."""
    clients = clients_of("numbers")
    clients[-1] = (clients[-1][0], np.random.default_rng(9).permutation(clients[-1][1]))
    data = fs.FederatedData.from_clients(dict(zip(NAMES, clients, strict=True)))
    engine = Watched(data, "squared")
    engine.can_single_out = can_single_out
    engine.asked = []  # shared by all views of the engine
    asked = FitSpecification(**{"sparsity": 2, **choice}, stability=2, held_out="none")
    names = [str(place) for place in range(engine.width)]
    found = fs.converse(engine, analysing(engine, asked, names))
    engine.close()
    return found, engine.asked


def is_without_one(ask):
    return any(isinstance(cut, Without) for cut in ask.lens.rows.cuts)


def test_where_sites_may_not_be_singled_out_none_is_left_out():
    found, asked = analysed(can_single_out=False)
    assert not any(is_without_one(ask) or ask.which is not None for ask in asked)
    assert found.stability.left_out == ()
    assert {each.without_a_site for each in found.stability.features} == {None}
    assert found.at_sites == SitesJudged(no_better=1, sites=5)


def test_where_they_may_each_is_and_no_site_judges_for_itself():
    found, asked = analysed(can_single_out=True)
    assert any(is_without_one(ask) for ask in asked)
    assert [own.site for own in found.stability.left_out] == list(NAMES)
    assert found.at_sites is None
    assert not any(isinstance(ask.request, NoBetterThanNull) for ask in asked)


def test_of_a_model_without_features_it_is_known_that_it_does_nothing_at_any_site():
    found, asked = analysed(can_single_out=False, sparsity="cv", sparsities=(0,))
    assert found.sparsity == 0
    assert found.at_sites is None
    assert not any(isinstance(ask.request, NoBetterThanNull) for ask in asked)
