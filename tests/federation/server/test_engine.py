"""The server's side: results of one process, whatever sites do."""

import logging
import time
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import polars as pl
import pytest
from flwr.app import ConfigRecord, Error, RecordDict
from scipy import sparse

import fedsparse as fs
from fedsparse.compute.stacks import DenseStack
from fedsparse.errors import FederationError
from fedsparse.federation import payloads
from fedsparse.federation.payloads import Answered, Asks
from fedsparse.federation.server import correspondence, mailbox
from fedsparse.federation.server.agreement import Terms
from fedsparse.federation.server.conduct import Conduct
from fedsparse.federation.server.flower_engine import FlowerEngine
from fedsparse.federation.sites import site as site_module
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.modelling.fitting import FitOptions, prepare
from fedsparse.requests.wire.answer_bytes import encode_answer
from fedsparse.requests.wire.request_bytes import decode_request
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate
from tests.federation.grids import TARGET, Nodes, answering, site_named

NAMES = ("aachen", "bari", "cork", "delft")
TAU = 5
# Six rounds of: steps that average, with H_τ at sites, mini-batches, corrections, second order.
ALGORITHMS = {
    "FedHT": fs.FedHT(TAU, local_steps=3),
    "FedIterHT": fs.FedIterHT(TAU, local_steps=3),
    "adaptive": fs.FedIterHT(TAU, local_steps=3, server_step="adaptive"),
    "mini-batches": fs.FedIterHT(TAU, local_steps=3, step_size=0.05, batch_size=4),
    "SVRG": fs.SVRGHT(TAU, batch_size=4, step_size=0.02, clients_per_round=2),
    "samples": fs.FedHT(TAU, weights="samples", refit=False),
    "FedAvg": fs.FedAvg(local_steps=2),
    "FedProx": fs.FedProx(local_steps=2, proximal=0.3),
    "FedSplice": fs.FedSplice(TAU),
    "GraSP": fs.GraSP(TAU),
    "SCAFFOLD": fs.ScaffoldHT(TAU, local_steps=2),
    "asynchronous": fs.AsyncSVRGHT(TAU, clients_per_round=2, updates=3),
}
ONE_SCORE = {"refit": fs.FedHT(TAU, local_steps=2, refit=True)}
BY_CLASS = {"FedSplice, shared features": fs.FedSplice(fs.TopKRows(TAU))}
GENEROUS = Policy(open_sums=True, smallest_samples=1, most_features_per_row=100.0)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def sites_of(clients, storage="dense"):
    convert = sparse.csr_array if storage == "csr" else np.asarray
    return [
        site_named(name, convert(Z), y, policy=GENEROUS)
        for name, (Z, y) in zip(NAMES, clients, strict=True)
    ]


def grid_of(sites, **others):
    nodes = {7 * place + 3: answering(site) for place, site in enumerate(sites)}
    return Nodes(dict(sorted(nodes.items(), reverse=True)))


def engine_on(grid, loss="squared", terms=MappingProxyType({}), **conduct):
    conduct = {"sites": len(grid.nodes), "round_seconds": 30.0, "longest_wait": 1.0} | conduct
    task = "regression" if loss == "squared" else "classification"
    engine = FlowerEngine(grid, Terms(task=task, **terms), Conduct(**conduct))
    return engine.through(replace(engine.lens, loss=LOSS_OBJECTS[loss]))


def assert_same(result, expected):
    assert result.coef.tobytes() == expected.coef.tobytes()
    assert result.objective == expected.objective
    assert result.history.drop("seconds").equals(expected.history.drop("seconds"))


class TestAgreementWithOneProcess:
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize(
        ("name", "loss"),
        [
            (name, loss)
            for loss in LOSSES
            for name in ALGORITHMS | (BY_CLASS if loss == "softmax" else ONE_SCORE)
        ],
    )
    def test_bit_for_bit(self, name, loss, storage, monkeypatch):
        """Mini-batches but for their rows, which sites draw by themselves."""
        monkeypatch.setattr(site_module, "with_own_batches", lambda request, *_: request)
        algorithm = (ALGORITHMS | ONE_SCORE | BY_CLASS)[name]
        clients = clients_for(loss)
        engine = engine_on(grid_of(sites_of(clients, storage)), loss)
        result = fs.run(algorithm, engine, rounds=6, seed=5)
        data = federate(clients, storage)
        expected = fs.run(algorithm, data, loss=LOSS_OBJECTS[loss], rounds=6, seed=5, threads=2)
        assert_same(result, expected)

    def test_sites_come_in_the_order_of_their_names(self):
        assert engine_on(grid_of(sites_of(clients_for("squared"))[::-1])).names == NAMES

    def test_classes_are_those_of_the_federation_even_where_a_site_lacks_some(self):
        clients = clients_for("logistic")
        clients = [(Z, 2 * y - 1) for Z, y in clients]
        clients[1][1][:] = 1.0
        engine = engine_on(grid_of(sites_of(clients)), "logistic")
        result = fs.run(ALGORITHMS["FedHT"], engine, rounds=3)
        expected = fs.run(
            ALGORITHMS["FedHT"], federate(clients), loss=LOSS_OBJECTS["logistic"], rounds=3
        )
        assert_same(result, expected)
        assert engine.encoding.classes == ("-1", "1")

    def test_labels_may_be_text(self):
        clients = [(Z, np.array(["a", "b", "c"])[y.astype(int)]) for Z, y in clients_for("softmax")]
        engine = engine_on(grid_of(sites_of(clients)), "softmax")
        result = fs.run(fs.FedIterHT(2, local_steps=2), engine, rounds=2)
        assert engine.encoding.classes == ("a", "b", "c")
        assert result.coef.shape == (24, 3)

    def test_columns_may_come_in_another_order(self):
        clients = clients_for("squared")
        columns = tuple(f"gene {place}" for place in range(24))
        sites = [
            site_named(name, Z, y, columns, GENEROUS)
            for name, (Z, y) in zip(NAMES, clients, strict=True)
        ]
        backwards = np.arange(24)[::-1]
        Z, y = clients[2]
        names = tuple(columns[place] for place in backwards)
        sites[2] = site_named("cork", np.ascontiguousarray(Z[:, backwards]), y, names, GENEROUS)
        engine = engine_on(grid_of(sites))
        assert_same(
            fs.run(ALGORITHMS["FedHT"], engine, rounds=3),
            fs.run(ALGORITHMS["FedHT"], federate(clients), loss=LOSS_OBJECTS["squared"], rounds=3),
        )

    def test_numbered_columns_may_end_early(self):
        clients = clients_for("squared")
        clients[1][0][:, 20:] = 0.0
        sites = sites_of(clients, "csr")
        Z, y = clients[1]
        sites[1] = site_named("bari", sparse.csr_array(Z[:, :20]), y, policy=GENEROUS)
        assert_same(
            fs.run(ALGORITHMS["FedHT"], engine_on(grid_of(sites)), rounds=3),
            fs.run(
                ALGORITHMS["FedHT"],
                federate(clients, "csr"),
                loss=LOSS_OBJECTS["squared"],
                rounds=3,
            ),
        )

    def test_a_run_goes_on_from_its_checkpoint(self, tmp_path):
        clients = clients_for("squared")
        whole = fs.run(ALGORITHMS["adaptive"], engine_on(grid_of(sites_of(clients))), rounds=8)
        for rounds in (3, 8):
            engine = engine_on(grid_of(sites_of(clients)))
            path = tmp_path / "run.npz"
            result = fs.run(ALGORITHMS["adaptive"], engine, rounds=rounds, checkpoint=path)
        assert_same(result, whole)


def table(**columns):
    """Nine rows; what is not named is as at other sites."""
    usual = {
        "age": [31, 35, 44, 48, 52, 57, 63, 68, 70],
        "dose": [0.5, 1.5, 1, 2, 0.5, 1, 1.5, 2, 1],
        "ward": list("eeesssxxx"),
        TARGET: [1.5, 2.5, 0.5, 3, 1, 2, 2.5, 1.5, 0.5],
    }
    kept = {name: values for name, values in (usual | columns).items() if values is not None}
    return pl.DataFrame(kept)


def site_with(name, frame, target=TARGET):
    return Site(
        name, NamedTable(frame, target), Policy(open_sums=True, smallest_samples=3), threads=1
    )


NAMED = [site_with(name, table()) for name in ("aachen", "cork", "delft")]
NINE = list(range(9))
MISMATCHES = {
    "a column less": (table(dose=None), 'bari lacks "dose"'),
    "a column more": (table(bmi=NINE), 'only bari has "bmi"'),
    "another name": (table(dose=None, doze=NINE), 'bari lacks "dose"; only bari has "doze"'),
    "another kind": (table(dose=list("aaabbbccc")), '"dose" is a number at aachen, cork and delft'),
    "missing values": (table(age=[None, *NINE[1:]]), '1 value is missing: "age" 1 (bari 1)'),
    "labels for numbers": (
        table(outcome=list("aaabbbccc")),
        "the target holds numbers at aachen, cork and delft and labels at bari",
    ),
}


class TestAgreementBeforeTraining:
    @pytest.mark.parametrize(("frame", "told"), MISMATCHES.values(), ids=MISMATCHES)
    def test_what_does_not_match_is_listed_by_site_and_column(self, frame, told):
        grid = grid_of([*NAMED, site_with("bari", frame)])
        with pytest.raises(FederationError) as caught:
            FlowerEngine(grid, Terms(), Conduct(sites=4))
        assert told in str(caught.value)

    def test_everything_that_does_not_match_is_listed_at_once(self):
        frame = table(dose=None, age=[None, *NINE[1:]], **{TARGET: None, "result": NINE})
        grid = grid_of([*NAMED, site_with("bari", frame, "result")])
        with pytest.raises(FederationError) as caught:
            FlowerEngine(grid, Terms(keep=("doze",)), Conduct(sites=4))
        told = str(caught.value).splitlines()
        assert told == [
            'the target is called "outcome" at aachen, cork and delft and "result" at bari; rename '
            "the column at some sites",
            'no site has a column "doze" (--keep); leave it out',
            'the sites\' tables do not match: bari lacks "dose"; mend them, or leave columns out '
            "with --drop",
            '1 value is missing: "age" 1 (bari 1); fill or remove them, drop the columns with '
            "--drop, or fill means with --impute mean",
        ]

    def test_numbers_for_names_are_told(self):
        numbered = site_named("bari", sparse.csr_array(np.eye(9)), np.arange(9.0))
        with pytest.raises(FederationError, match="names at aachen, cork and delft and numbers at"):
            engine_on(grid_of([*NAMED, numbered]))

    def test_a_column_that_the_server_names_and_a_site_lacks_is_told(self):
        grid = grid_of(NAMED)
        with pytest.raises(
            FederationError, match=r'no column "dosis" \(--category\); did you mean'
        ):
            FlowerEngine(grid, Terms(categories=("dosis",)), Conduct(sites=3))

    def test_dropped_columns_are_not_described(self):
        engine = engine_on(grid_of(NAMED), terms={"drop": ("age",)})
        assert engine.encoding.feature_names == ("dose", "ward=e", "ward=s", "ward=x")
        assert "age" not in engine.members[0].description.model_dump_json().replace('["age"]', "")

    def test_a_site_with_too_few_rows_is_named(self):
        with pytest.raises(
            FederationError, match=r"aachen has 9 rows, fewer than 10; .*\ncork has"
        ):
            engine_on(grid_of(NAMED), terms={"minimum_rows": 10})

    def test_two_sites_of_one_name_are_told_apart_by_nobody(self):
        sites = [site_with("bari", table()) for _ in range(2)]
        with pytest.raises(FederationError, match="two sites are called 'bari'"):
            engine_on(grid_of(sites))

    def test_sites_that_do_not_come_are_counted(self):
        sites = sites_of(clients_for("squared"))[:3]
        with pytest.raises(FederationError, match="4 sites were expected and 3 came: aachen, bari"):
            engine_on(grid_of(sites), sites=4)

    def test_more_sites_than_expected_are_not_chosen_from(self):
        sites = sites_of(clients_for("squared"))
        with pytest.raises(FederationError, match=r"3 sites were expected and 4 came: .*--sites 4"):
            engine_on(grid_of(sites), sites=3)

    def test_a_node_that_says_nothing_is_waited_for_as_in_a_round(self):
        grid = grid_of(sites_of(clients_for("squared")))
        grid.nodes[99] = lambda payload: None
        assert engine_on(grid, sites=4, round_seconds=0.05).names == NAMES

    @pytest.mark.parametrize(
        "said",
        [b"", b"garbage", payloads.to_bytes(payloads.Described({"target": "y"}))],
        ids=["nothing", "garbage", "nonsense"],
    )
    def test_a_malformed_description_is_no_site(self, said):
        grid = grid_of(sites_of(clients_for("squared")))
        grid.nodes[99] = lambda payload: said
        with pytest.raises(FederationError, match="its description is malformed"):
            engine_on(grid, sites=5)
        assert engine_on(grid, sites=5, min_sites=4).names == NAMES

    def test_a_site_of_another_major_release_does_not_take_part(self):
        grid = grid_of(sites_of(clients_for("squared")))
        told = payloads.to_bytes(payloads.Described({"anything": "new"}, release="2.3.0"))
        grid.nodes[99] = lambda payload: told
        with pytest.raises(FederationError, match=r"a site has fedsparse 2.3.0, and this side has"):
            engine_on(grid, sites=5)

    def test_other_releases_are_noted(self, caplog):
        grid = grid_of(sites_of(clients_for("squared")))
        (node, answer), *_ = grid.nodes.items()

        def of_another_release(payload):
            said = payloads.from_bytes(answer(payload))
            is_told = isinstance(said, payloads.Described)
            return payloads.to_bytes(replace(said, release="1.99.0") if is_told else said)

        grid.nodes[node] = of_another_release
        assert engine_on(grid).names == NAMES
        assert "a site has fedsparse 1.99.0, the server" in caplog.text

    def test_a_site_whose_policy_forbids_it_does_not_take_part(self):
        grid = grid_of(sites_of(clients_for("squared")))
        rows = np.random.default_rng(0).standard_normal((9, 24))
        shy = site_named(
            "york", rows, rows[:, 0], policy=Policy(open_sums=True, smallest_samples=50)
        )
        grid.nodes[99] = answering(shy)
        told = "refused: york: it has fewer rows than the 50 its policy asks for.*see to those"
        with pytest.raises(FederationError, match=told):
            engine_on(grid, sites=5)

    def test_a_long_refusal_is_cut(self):
        grid = grid_of(sites_of(clients_for("squared")))
        grid.nodes[99] = lambda payload: payloads.to_bytes(payloads.Refused("no\n" * 10_000))
        with pytest.raises(FederationError) as caught:
            engine_on(grid, sites=5)
        assert len(str(caught.value)) < 1000
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "changes",
        [{"rows": 10**400}, {"rows": 8}, {"names": ["a"]}, {"numbers": {}}],
        ids=["huge", "contradictory", "names alone", "numbers without numbers"],
    )
    def test_a_description_that_cannot_be_right_is_no_site(self, changes):
        grid = grid_of(NAMED)

        def exaggerating(payload):
            said = payloads.from_bytes(NAMED[0].reply(payload, 1))
            said.told["description"] |= {"site": "york", **changes}
            return payloads.to_bytes(said)

        grid.nodes[99] = exaggerating
        with pytest.raises(FederationError, match="its description is malformed"):
            engine_on(grid, sites=4)

    @pytest.mark.parametrize("lost", [Error(code=5, reason="Node Unavailable"), None])
    def test_a_site_that_is_started_anew_is_greeted_again(self, lost):
        sites = sites_of(clients_for("squared"))
        grid = grid_of(sites)
        first = iter([lost])
        grid.nodes[17] = lambda payload: next(first, None) or sites[2].reply(payload, 1)
        if lost is None:
            silent = iter([True])
            grid.nodes[17] = lambda payload: (
                None if next(silent, False) else sites[2].reply(payload, 1)
            )
        engine = engine_on(grid, round_seconds=0.1, longest_wait=20.0)
        assert engine.names == NAMES


def misbehaving(site, after, fault):
    """A site that answers some messages and then shows a fault."""
    count = 0

    def reply(payload):
        nonlocal count
        count += 1
        said = site.reply(payload, run=1)
        return said if count <= after else fault(payload, said)

    return reply


def say(fields, mass=30.0):
    """A fault: these fields in answer to every request, for rows that weigh so much."""

    def fault(payload, said):
        requests = payloads.from_bytes(payload).requests
        return payloads.to_bytes(Answered(((encode_answer(fields), mass),) * len(requests)))

    return fault


def answer_with(**changes):
    """What a site answers to local steps, but for some fields."""
    usual = {"x": DenseStack(np.ones((1, 24)), (24,)), "objective": np.array([1.0])}
    return usual | changes


def once_too_few(payload, said):
    return payloads.to_bytes(Answered(payloads.from_bytes(said).answers[1:]))


FAULTS = {
    "garbage": (lambda payload, said: b"\x00\xff" * 9, "its answer cannot be used"),
    "a damaged answer": (lambda payload, said: said[:-9] + b"#" * 9, "its answer cannot be used"),
    "its question": (lambda payload, said: payload, "only a server says"),
    "another width": (
        say(answer_with(x=DenseStack(np.ones((1, 25)), (25,)))),
        "length 25, but length 24 was expected",
    ),
    "a matrix for a number": (
        say(answer_with(objective=DenseStack(np.ones((1, 24)), (24,)))),
        "instead of",
    ),
    "NaN": (say(answer_with(x=DenseStack(np.full((1, 24), np.nan), (24,)))), "NaN or infinity"),
    "infinity": (
        say(answer_with(x=DenseStack(np.full((1, 24), np.inf), (24,)))),
        "NaN or infinity",
    ),
    "no number": (say(answer_with(objective=np.array([np.nan]))), "NaN or infinity"),
    "an answer less": (
        once_too_few,
        "its answer cannot be used: There are not as many answers as there were requests.",
    ),
    "more rows than it described": (
        say(answer_with(), mass=31.0),
        "its answer cannot be used: It claims other rows than it described.",
    ),
    "no rows": (say(answer_with(), mass=0.0), "It claims other rows than it described."),
    "a mass that is no number": (
        say(answer_with(), mass=np.nan),
        "It claims other rows than it described.",
    ),
}
NO_SUMS = {
    "negative squares": {"squares": -1.0},
    "huge squares": {"squares": 1e250},
    "a huge sum": {"total": 1e200},
    "a huge target": {"target": 1e300},
    "rows taken away": {"rows": -2.0},
    "more rows than described": {"rows": 1e300},
    "half a row": {"rows": 0.5},
    "no rows": {"rows": 0.0},
    "more numbers than rows have": {"stored": 1e9},
    "NaN": {"target": np.nan},
}


class TestFaults:
    def poisoned(self, fault, after=4, **conduct):
        """A federation whose third site goes wrong once the first rounds are over."""
        sites = sites_of(clients_for("squared"))
        grid = grid_of(sites)
        grid.nodes[17] = misbehaving(sites[2], after, fault)
        return engine_on(grid, min_sites=3, **conduct)

    @pytest.mark.parametrize(("fault", "told"), FAULTS.values(), ids=FAULTS)
    def test_a_site_with_a_poisoned_answer_is_excluded_and_the_run_survives(
        self, fault, told, caplog
    ):
        engine = self.poisoned(fault)
        with caplog.at_level(logging.WARNING, "fedsparse.federation"):
            result = fs.run(fs.FedHT(TAU, local_steps=2, step_size=0.05), engine, rounds=4)
        assert np.isfinite(result.coef).all()
        assert result.records[-1].round == 4
        assert told in engine.members[2].excluded
        assert "cork takes no further part" in caplog.text
        assert result.history["absent"].to_list()[-1] > 0

    def test_an_excluded_site_leaves_the_model_of_the_others(self):
        """With the first answer poisoned already, the third site never counted."""
        engine = self.poisoned(FAULTS["garbage"][0], after=1)
        result = fs.run(ALGORITHMS["FedHT"], engine, rounds=5)
        clients = clients_for("squared")
        del clients[2]
        expected = fs.run(
            ALGORITHMS["FedHT"], federate(clients), loss=LOSS_OBJECTS["squared"], rounds=5
        )
        assert np.array_equal(result.coef, expected.coef)
        assert result.objective == expected.objective

    def test_a_site_that_falls_silent_is_left_out_and_may_come_back(self, caplog):
        sites = sites_of(clients_for("squared"))
        grid = grid_of(sites)
        alive = {"cork": True}
        grid.nodes[17] = lambda payload: sites[2].reply(payload, 1) if alive["cork"] else None
        engine = engine_on(grid, min_sites=3, round_seconds=0.05)

        def on_round(record):
            alive["cork"] = not 3 <= record.round < 6

        with caplog.at_level(logging.INFO, "fedsparse.federation"):
            result = fs.run(
                fs.FedHT(TAU, local_steps=2, step_size=0.05), engine, rounds=30, on_round=on_round
            )
        assert "cork is absent: no answer within" in caplog.text
        assert "cork is back" in caplog.text
        assert not engine.members[2].is_absent
        absent = result.history["absent"].to_list()
        assert absent[3] == 0
        assert 0 < absent[-1] < 25
        assert absent[-1] == absent[-2]

    def test_a_silent_site_holds_up_only_one_round(self):
        engine = self.poisoned(lambda payload, said: None, round_seconds=2.0)
        began = time.perf_counter()
        fs.run(fs.FedHT(TAU, local_steps=2, step_size=0.05), engine, rounds=20)
        assert time.perf_counter() - began < 10 * 2.0

    def test_too_few_answers_end_the_run_and_keep_what_was_reached(self, tmp_path):
        path = tmp_path / "run.npz"
        engine = self.poisoned(lambda payload, said: None, longest_wait=0.4)
        engine.conduct = engine._letters.conduct = Conduct(
            sites=4, round_seconds=0.1, longest_wait=0.4
        )
        algorithm = fs.FedHT(TAU, local_steps=2, step_size=0.05)
        with pytest.raises(FederationError, match=r"3 of the 4 sites needed .* cork \(absent\)"):
            fs.run(algorithm, engine, rounds=9, checkpoint=path, every=1)
        resumed = fs.run(
            algorithm,
            engine_on(grid_of(sites_of(clients_for("squared")))),
            rounds=9,
            checkpoint=path,
        )
        whole = fs.run(algorithm, engine_on(grid_of(sites_of(clients_for("squared")))), rounds=9)
        assert_same(resumed, whole)

    def test_the_log_says_again_and_again_for_whom_it_waits(self, monkeypatch, caplog):
        class Thinking(Nodes):
            looks = 0

            def pull_messages(self, message_ids):
                self.looks += 1
                return super().pull_messages(message_ids) if self.looks % 4 == 0 else []

        monkeypatch.setattr(correspondence, "EVERY", 0.0)
        caplog.set_level(logging.INFO, "fedsparse.federation")
        grid = grid_of(sites_of(clients_for("squared")))
        fs.run(fs.DistributedIHT(TAU), engine_on(Thinking(grid.nodes)), rounds=1)
        lines = [line for line in caplog.messages if "waiting for aachen" in line]
        assert len(lines) >= 3

    def test_waiting_for_an_absent_site_gives_the_result_of_all(self):
        sites = sites_of(clients_for("squared"))
        grid = grid_of(sites)
        silent = iter([False] * 5 + [True] * 3)
        grid.nodes[17] = lambda payload: None if next(silent, False) else sites[2].reply(payload, 1)
        engine = engine_on(grid, if_absent="wait", round_seconds=0.05, longest_wait=30.0)
        result = fs.run(ALGORITHMS["FedHT"], engine, rounds=6)
        expected = fs.run(
            ALGORITHMS["FedHT"],
            federate(clients_for("squared")),
            loss=LOSS_OBJECTS["squared"],
            rounds=6,
        )
        assert_same(result, expected)

    def test_a_site_started_anew_is_told_the_setup_again(self):
        clients = clients_for("squared")
        sites = sites_of(clients)
        grid = grid_of(sites)
        engine = engine_on(grid)
        fresh = sites_of(clients)[2]
        grid_nodes = grid.nodes

        def begin_anew(record):
            if record.round == 3:
                grid_nodes[17] = answering(fresh)

        result = fs.run(ALGORITHMS["FedHT"], engine, rounds=6, on_round=begin_anew)
        expected = fs.run(
            ALGORITHMS["FedHT"], federate(clients), loss=LOSS_OBJECTS["squared"], rounds=6
        )
        assert_same(result, expected)

    def test_errors_of_flower_itself_count_as_absence(self):
        engine = self.poisoned(lambda payload, said: Error(code=5, reason="Node Unavailable"))
        fs.run(fs.FedHT(TAU, local_steps=2, step_size=0.05), engine, rounds=3)
        assert engine.members[2].is_absent

    def test_a_message_without_our_bytes_counts_as_absence(self):
        engine = self.poisoned(lambda payload, said: RecordDict({"odd": ConfigRecord({"a": 1})}))
        fs.run(fs.FedHT(TAU, local_steps=2, step_size=0.05), engine, rounds=3)
        assert engine.members[2].is_absent

    def test_iterates_that_blow_up_at_all_sites_are_divergence_not_poison(self):
        engine = engine_on(grid_of(sites_of(clients_for("squared"))))
        with pytest.warns(fs.DivergenceWarning, match="diverged"):
            result = fs.run(fs.FedAvg(local_steps=500, step_size=1e9), engine, rounds=3)
        assert result.diverged
        assert all(member.excluded is None for member in engine.members)

    def test_the_only_site_asked_must_answer(self):
        engine = self.poisoned(lambda payload, said: payload, after=1)
        with pytest.raises(FederationError, match="0 of the 1 sites needed answered ShiftedLasso"):
            fs.run(fs.EDSL(TAU, solver=2), engine, rounds=2)


OPTIONS = FitOptions(fs.SquaredError())


class TestScales:
    def lying(self, changes):
        """A fault: sums of columns with other numbers in them."""

        def fault(payload, said):
            ((_, encoded),) = payloads.from_bytes(payload).requests
            shapes = decode_request(encoded, (24,)).answer_shapes((24,))
            usual = {
                "rows": 1.0, "stored": 24.0, "target": 0.0, "total": 1.0, "squares": 1.0,
            } | changes  # fmt: skip
            fields = {
                name: np.array([usual[name]])
                if shape is None
                else DenseStack(np.full((1, 24), usual[name]), (24,))
                for name, shape in shapes.items()
            }
            return say(fields)(payload, said)

        return fault

    @pytest.mark.parametrize("changes", NO_SUMS.values(), ids=NO_SUMS)
    def test_a_site_whose_sums_cannot_be_right_is_excluded(self, changes):
        clients = clients_for("squared")
        sites = sites_of(clients)
        grid = grid_of(sites)
        is_second = "squares" in changes  # they are asked for after the means are known
        grid.nodes[17] = misbehaving(sites[2], 1 + is_second, self.lying(changes))
        engine = engine_on(grid, min_sites=3)
        prepared = fs.converse(engine, prepare(engine, OPTIONS))
        is_nan = np.isnan([*changes.values()]).any()
        told = (
            "holds NaN or infinity" if is_nan else "cannot be used: It cannot be that of any rows"
        )
        assert f"its answer {told}" in engine.members[2].excluded
        if not is_second:
            others = fs.LocalEngine(
                federate([own for place, own in enumerate(clients) if place != 2])
            )
            expected = fs.converse(others, prepare(others, OPTIONS)).scaling
            assert np.array_equal(prepared.scaling.mean, expected.mean)
            assert np.array_equal(prepared.scaling.scale, expected.scale)

    def test_a_run_without_any_sums_ends(self):
        sites = sites_of(clients_for("squared"))[:1]
        grid = grid_of(sites)
        grid.nodes[3] = misbehaving(sites[0], 1, self.lying({"total": 1e300}))
        engine = engine_on(grid)
        with pytest.raises(FederationError, match="0 of the 1 sites needed answered ColumnSums"):
            fs.converse(engine, prepare(engine, OPTIONS))


class TestBytes:
    @pytest.mark.parametrize("count", [10**400, -1])
    def test_counts_that_cannot_be_right_are_not_believed(self, count):
        said = payloads.to_bytes(Answered((None,), payloads.Note((count, 1))))
        assert payloads.from_bytes(said) == Answered((None,))

    def test_the_setup_travels_once(self):
        engine = engine_on(grid_of(sites_of(clients_for("squared"))))
        asks = [engine.ask(fs.Evaluate(np.zeros(24)))]
        engine.exchange(asks)
        first = [member.bytes_down for member in engine.members]
        engine.exchange(asks)
        second = [
            member.bytes_down - before for member, before in zip(engine.members, first, strict=True)
        ]
        assert all(later < sooner - 50 for sooner, later in zip(first, second, strict=True))

    def test_no_message_holds_a_row_or_a_label(self):
        clients = clients_for("squared")
        said = []

        def overheard(site):
            def reply(payload):
                said.append(site.reply(payload, 1))
                return said[-1]

            return reply

        grid = Nodes(
            {place: overheard(site) for place, site in enumerate(sites_of(clients), start=1)}
        )
        fs.run(ALGORITHMS["FedIterHT"], engine_on(grid), rounds=5)
        for Z, y in clients:
            for number in [*Z[Z != 0], *y]:
                assert np.float64(number).tobytes() not in b"".join(said)


def test_a_message_for_another_federation_is_refused():
    (site,) = sites_of(clients_for("squared"))[:1]
    unknown = payloads.to_bytes(Asks("no such session", (("lens", b""),)))
    assert payloads.from_bytes(site.reply(unknown, 1)) == payloads.TellMe(("lens",))
    forged = payloads.to_bytes(Asks("0" * 32, (), b"{}"))
    assert "not the one" in payloads.from_bytes(site.reply(forged, 1)).reason
