"""Rules by which a site sees to it that an answer speaks of many rows."""

import logging

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers
from fedsparse.engines.lens import Lens
from fedsparse.errors import DataError
from fedsparse.federation.sites.disclosure import is_dominated, weight_of_others, weights_told
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site_tables import open_table
from fedsparse.problem.rows import Rows
from fedsparse.problem.scaling import Scaling
from tests.attacks.victims import NotToldError, Server, secrets, site_with

ROWS, WIDTH = 30, 4
Z, LABELS = secrets(ROWS, WIDTH)
STEEP = np.array([1e6, 0.0, 0.0, 0.0, 0.0])
FLAT = np.zeros(WIDTH + 1)
EVERY_KIND = {
    "f": fs.Evaluate,
    "metrics": fs.Judge,
    "gradient": fs.Gradient,
    "diagonal": fs.Slopes,
    "Hessian": lambda x: fs.Curvature(x, np.arange(2)),
    "Hessian alone": lambda x: fs.Curvature(x, np.arange(2), only_second=True),
    "Hessian in units": lambda x: fs.Curvature(x, np.arange(2), units=np.ones(WIDTH + 1)),
    "steps": lambda x: fs.LocalSteps(x, steps=3, step_size=0.1),
    "batches": lambda x: fs.LocalSteps(x, steps=3, step_size=0.1, batch_size=6),
    "steps led by all, from here": lambda x: fs.CorrectedSteps(
        x, steps=1, step_size=0.1, snapshot=FLAT, gradient=FLAT
    ),
    "steps led by all, corrected here": lambda x: fs.CorrectedSteps(
        FLAT, steps=1, step_size=0.1, snapshot=x, gradient=FLAT
    ),
    "batches, and the gradient of all rows": lambda x: fs.CorrectedSteps(
        x, steps=1, step_size=0.1, snapshot=FLAT, gradient=FLAT, batch_size=6, with_gradient=True
    ),
    "corrected batches": lambda x: fs.LocalSteps(
        FLAT, steps=2, step_size=0.1, batch_size=6, snapshot=x
    ),
}


def server_of(loss=None, lens=None, **policy):
    server = Server(site_with(Z, LABELS, **policy), WIDTH, loss or fs.Logistic(l2=0.1))
    server.lens = lens or server.lens
    return server


class TestDominance:
    @pytest.mark.parametrize("request_", EVERY_KIND.values(), ids=EVERY_KIND)
    def test_nothing_is_told_where_few_rows_make_up_an_answer(self, request_):
        server = server_of()
        server.ask(request_(FLAT))
        with pytest.raises(NotToldError):
            server.ask(request_(STEEP))

    @pytest.mark.parametrize("request_", EVERY_KIND.values(), ids=EVERY_KIND)
    def test_a_policy_may_do_without_the_rule(self, request_):
        server_of(smallest_weight_of_others=0.0).ask(request_(STEEP))

    def test_the_log_names_the_rule_and_the_server_hears_what_a_site_without_rows_says(
        self, caplog
    ):
        with caplog.at_level(logging.WARNING), pytest.raises(NotToldError, match=r"^$"):
            server_of().ask(fs.Gradient(STEEP))
        assert "bari does not tell Gradient: fewer than 5 of the 30 rows shown" in caplog.text

    def test_a_gradient_of_many_rows_is_not_told_where_x_splits_them(self):
        """Slopes are of more rows than the rule asks for, curvatures of none."""
        clients = open_clients(
            fs.FederatedData.from_clients([(Z, LABELS)]), fs.Logistic(), Workers(1)
        )
        slopes = np.abs(fs.Logistic().derivative(clients.scores(STEEP[:-1], 0), LABELS))
        assert np.sort(slopes)[-6:].min() > 0.99
        assert is_dominated(fs.Gradient(STEEP[:-1]), clients, 0, 5, 0.01)

    def test_every_class_has_a_gradient_of_its_own(self):
        labels = np.arange(ROWS) % 3
        data = fs.FederatedData.from_clients([(Z, labels)])
        clients = open_clients(data, fs.Softmax(), Workers(1))
        x = np.zeros((WIDTH, 3))
        assert not is_dominated(fs.Gradient(x), clients, 0, 5, 0.01)
        x[0] = (1e3, -1e3, 0.0)
        assert is_dominated(fs.Gradient(x), clients, 0, 5, 0.01)

    def test_no_x_is_steep_for_the_squared_loss(self):
        """Its gradient anywhere follows from gradients elsewhere."""
        data = fs.FederatedData.from_clients([(Z, Z[:, 0])])
        clients = open_clients(data, fs.SquaredError(), Workers(1))
        assert not list(weights_told(fs.Gradient(1e6 * np.ones(WIDTH)), clients, 0))

    def test_steps_are_weighed_at_every_x_on_the_way(self):
        data = fs.FederatedData.from_clients([(Z, LABELS)])
        clients = open_clients(data, fs.Logistic(), Workers(1))
        steps = fs.LocalSteps(np.zeros(WIDTH), steps=4, step_size=0.5)
        assert len(list(weights_told(steps, clients, 0))) == 4
        walked = [x for x, _ in steps.walk(clients, 0)]
        told = steps.answer(clients, np.zeros(1, dtype=np.int64))["x"].total(np.ones(1))
        np.testing.assert_allclose(walked[-1], told, atol=1e-14)

    @pytest.mark.parametrize("weights", [np.zeros(9), np.full(9, np.inf), np.full(9, np.nan)])
    def test_what_tells_nothing_dominates_nothing(self, weights):
        assert weight_of_others(weights, weights, 5) == 1.0

    def test_a_site_that_may_tell_of_single_rows_looks_at_the_average(self):
        weights = np.array([1.0, 0.0, 0.0])
        assert weight_of_others(weights, weights, 1) == 1.0


class TestRatio:
    def test_a_hessian_has_at_most_a_third_as_many_features_as_rows(self):
        Z, labels = secrets(15, 8)
        server = Server(site_with(Z, labels), 8, fs.Logistic(l2=0.1))
        server.ask(fs.Curvature(np.zeros(9), np.arange(5)))
        with pytest.raises(NotToldError, match="curvature on 6 features tells too much"):
            server.ask(fs.Curvature(np.zeros(9), np.arange(6)))

    def test_features_count_that_are_known_unless_all_are(self):
        Z, labels = secrets(15, 8)
        server = Server(site_with(Z, labels), 8, fs.Logistic(l2=0.1))
        six = np.arange(6)
        server.ask(fs.Curvature(np.zeros(9), six, known=six))
        for only_second in (False, True):
            with pytest.raises(NotToldError, match="curvature on 6 features tells too much"):
                server.ask(fs.Curvature(np.zeros(9), six, six[:5], only_second=only_second))

    def test_known_features_count_for_the_smallest_support_as_well(self):
        policy = Policy(smallest_support=4)
        support = np.arange(4)
        for known in (support[:0], support[:3], support):
            asked = fs.Curvature(FLAT, support, known)
            assert policy.objection(asked, ROWS) is None
        assert "on 3 features" in policy.objection(fs.Curvature(FLAT, support[:3]), ROWS)
        assert "on 0 features" in policy.objection(fs.Curvature(FLAT, support[:0]), ROWS)

    def test_the_rows_that_a_lens_shows_count(self):
        halves = Lens(fs.Logistic(l2=0.1), Rows().part(0, of=2), server_of().lens.scaling)
        server = server_of(lens=halves)
        server.ask(fs.Curvature(FLAT, np.arange(5)))
        server = server_of(lens=halves, most_features_per_row=0.2)
        with pytest.raises(NotToldError, match="curvature on 5 features tells too much"):
            server.ask(fs.Curvature(FLAT, np.arange(5)))


class TestLenses:
    def test_classes_are_not_learnt_without_an_l2_term(self):
        with pytest.raises(NotToldError, match="its policy wants an ℓ2 weight of at least 1e-08"):
            server_of(fs.Logistic(l2=0.0)).ask(fs.Evaluate(FLAT))
        server_of(fs.Logistic(l2=0.0), smallest_l2=0.0).ask(fs.Evaluate(FLAT))

    @pytest.mark.parametrize(
        ("mean", "scale"),
        [
            (0.0, -1.0),
            (np.nan, 1.0),
            (0.0, np.nan),
        ],
        ids=["a negative scale", "no mean", "no scale"],
    )
    def test_columns_are_not_scaled_by_what_is_no_number(self, mean, scale):
        scaling = Scaling(np.full(WIDTH, mean), np.full(WIDTH, scale), 1.0)
        lens = Lens(fs.Logistic(l2=0.1), scaling=scaling)
        with pytest.raises(NotToldError, match="by numbers that are none"):
            server_of(lens=lens).ask(fs.Evaluate(FLAT))

    def test_a_tiny_scale_is_no_way_past_dominance(self):
        """It makes every x steep."""
        tiny = Scaling(np.zeros(WIDTH), np.full(WIDTH, 1e-9), 1.0)
        server = server_of(lens=Lens(fs.Logistic(l2=0.1), scaling=tiny))
        server.ask(fs.Evaluate(FLAT))
        with pytest.raises(NotToldError):
            server.ask(fs.Evaluate(np.eye(WIDTH + 1)[0]))

    def test_rows_are_cut_into_parts_at_most_twice(self):
        twice = Rows().but_part(0, of=5).but_part(0, of=5)
        scaling = server_of().lens.scaling
        server_of(lens=Lens(fs.Logistic(l2=0.1), twice, scaling)).ask(fs.Evaluate(FLAT))
        lens = Lens(fs.Logistic(l2=0.1), twice.but_part(0, of=5), scaling)
        with pytest.raises(NotToldError, match="it cuts rows into two or more parts, at most 2"):
            server_of(lens=lens).ask(fs.Evaluate(FLAT))

    def test_nor_are_other_cuts_made_without_end(self):
        rows = Rows()
        for client in range(1, 10):
            rows = rows.without(client)
        lens = Lens(fs.Logistic(l2=0.1), rows, server_of().lens.scaling)
        with pytest.raises(NotToldError, match="it cuts rows at most 8 times"):
            server_of(lens=lens).ask(fs.Evaluate(FLAT))

    def test_no_cut_takes_a_single_row_away(self):
        """With and without it, sums would tell that row."""
        Z, labels = secrets(9, WIDTH)
        for part in range(5):
            rows = Rows().but_part(part, of=5)
            lens = Lens(fs.Logistic(l2=0.1), rows, server_of().lens.scaling)
            server = Server(site_with(Z, labels), WIDTH, fs.Logistic(l2=0.1))
            server.lens = lens
            data = fs.FederatedData.from_clients([(Z, labels)])
            if rows.mask(data).sum() == 8:
                with pytest.raises(NotToldError, match=r"^$"):
                    server.ask(fs.Evaluate(FLAT))
            else:
                server.ask(fs.Evaluate(FLAT))

    def test_a_lens_of_more_features_than_there_are_is_not_read(self):
        wide = Scaling(np.zeros(2**20), np.ones(2**20), 1.0)
        with pytest.raises(NotToldError, match="The lens is malformed"):
            server_of(lens=Lens(fs.Logistic(l2=0.1), scaling=wide)).ask(fs.Evaluate(FLAT))


class TestOwnKinds:
    def test_a_site_says_which_numbers_are_categories(self, tmp_path):
        path = tmp_path / "bari.csv"
        path.write_text("ward,dose,outcome\n" + "1,0.5,1\n2,0.25,0\n" * 5)
        assert open_table(path, "outcome", (), ("ward",)).categories == ("ward",)
        with pytest.raises(DataError, match=r'no column "word" \(--category\); leave it out'):
            open_table(path, "outcome", (), ("word",))

    def test_an_agreement_does_not_make_categories_of_numbers(self):
        server = server_of()
        levels = sorted(map(str, Z[:, 0]))
        server.agree(columns=[{"name": "gene 0", "kind": "category", "levels": levels}])
        with pytest.raises(NotToldError, match="takes numbers for categories that it does not"):
            server.ask(fs.ColumnSums())

    def test_an_agreement_does_not_make_classes_of_numbers(self):
        site = site_with(Z, Z[:, 1] * 2.0)
        server = Server(site, WIDTH, fs.Softmax(l2=0.1))
        with pytest.raises(NotToldError, match="takes numbers for categories that it does not"):
            server.ask(fs.ColumnSums(classes=2))
