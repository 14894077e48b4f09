"""The transcript of a run: going on from wherever it was cut, and working the model out again."""

import json
import random
import shutil

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from typer.testing import CliRunner

import fedsparse as fs
from fedsparse.cli import app
from fedsparse.errors import CheckpointError, DataError, FederationError
from fedsparse.federation.server import mailbox, transcript
from fedsparse.federation.server.outcome import OUTCOME, train
from fedsparse.federation.server.replay import replay
from fedsparse.federation.server.training import Training
from fedsparse.federation.server.transcript import TRANSCRIPT, Exchange, Transcript
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from fedsparse.modelling.summary import FitSummary
from fedsparse.requests import Answers
from tests.federation.federated_tables import assert_same_analysis
from tests.federation.grids import TARGET, Nodes, answering

NAMES = ("aachen", "bari", "cork")
GENEROUS = Policy(open_sums=True, most_features_per_row=100.0)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)


def table_of(name, rows=15):
    numbers = np.random.default_rng(len(name)).standard_normal((rows, 5))
    columns = {f"gene {place}": column for place, column in enumerate(numbers.T)}
    outcome = numbers @ [2.0, 0.0, -1.0, 0.0, 0.0] + 0.5 * numbers[:, 1] ** 2
    return pl.DataFrame({**columns, TARGET: outcome})


def grid_of(names=NAMES, table_of=table_of):
    sites = [Site(name, NamedTable(table_of(name), TARGET), GENEROUS, 1) for name in names]
    return Nodes({place: answering(site) for place, site in enumerate(sites, start=1)})


def training_to(out, **options):
    usual = {"sparsity": "cv", "held_out": "fifth", "stability": 1}
    conduct = {"sites": 3, "min_sites": 2, "round_seconds": 30.0, "longest_wait": 1.0}
    return Training(open_sums=True, **usual | conduct | options, out=str(out))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run, not to be changed, and what it found."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)
        return folder, train(grid_of(), training_to(folder))


@pytest.fixture
def copied(finished, tmp_path):
    """A copy of its folder."""
    return shutil.copytree(finished[0], tmp_path / "copied")


@pytest.fixture
def written(finished):
    """Its transcript."""
    return (finished[0] / TRANSCRIPT).read_bytes()


@pytest.fixture
def head(finished, tmp_path):
    """How many bytes say what it is about."""
    with Transcript.open(finished[0] / TRANSCRIPT) as read:
        about = read.about
    with Transcript.begin(tmp_path / "head", about):
        return (tmp_path / "head").stat().st_size


@pytest.fixture
def resumed(copied, monkeypatch):
    """Goes on with a transcript, and writes no report."""
    monkeypatch.setattr("fedsparse.report.fit.save_fit", lambda summary, folder: None)

    def resume(content, grid=None, **options):
        (copied / TRANSCRIPT).write_bytes(content)
        return train(grid or grid_of(), training_to(copied, resume=True, **options))

    return resume


def exchanges_in(path):
    with Transcript.open(path) as read:
        return list(iter(read.next, None))


def assert_one_sentence(error):
    told = str(error)
    assert "\n" not in told
    assert told.count("; ") == 1  # what is wrong, and what to do
    assert "begin anew" in told


class TestCut:
    def test_a_run_cut_anywhere_goes_on_to_the_same_bits(self, finished, written, head, resumed):
        _, whole = finished
        draw = random.Random(0)
        cuts = [head, len(written) - 1, len(written)]
        cuts += [draw.randrange(head, len(written)) for _ in range(9)]
        for cut in cuts:
            assert_same_analysis(resumed(written[:cut]), whole)

    def test_what_goes_on_writes_the_transcript_of_the_whole_run(
        self, finished, copied, written, resumed
    ):
        resumed(written[: len(written) // 2])
        before, after = exchanges_in(finished[0] / TRANSCRIPT), exchanges_in(copied / TRANSCRIPT)
        assert [own.asked for own in after] == [own.asked for own in before]
        for one, other in zip(before, after, strict=True):
            assert told(one) == told(other)

    def test_sites_are_asked_only_what_is_not_written(self, written, head, resumed):
        questions = []

        def overheard(site):
            return lambda payload: questions.append(payload) or answering(site)(payload)

        sites = [Site(name, NamedTable(table_of(name), TARGET), GENEROUS, 1) for name in NAMES]
        grid = Nodes({place: overheard(site) for place, site in enumerate(sites, start=1)})
        resumed(written, grid)
        assert len(questions) == 6  # a hello to each, and the model

    @pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
    def test_one_that_is_cut_in_its_head_is_refused(self, copied, written, head, resumed, share):
        content = written[: int(share * head)]
        with pytest.raises(CheckpointError) as caught:
            resumed(content)
        assert_one_sentence(caught.value)
        assert (copied / TRANSCRIPT).read_bytes() == content

    def test_whoever_reads_a_transcript_changes_nothing(self, copied, written):
        content = written[:-5]
        (copied / TRANSCRIPT).write_bytes(content)
        (copied / TRANSCRIPT).chmod(0o400)
        with pytest.raises(CheckpointError, match="before the run did"):
            replay(copied)
        assert (copied / TRANSCRIPT).read_bytes() == content


class TestRefusal:
    def test_a_changed_byte_is_found_wherever_it_is(self, copied, written):
        draw = random.Random(1)
        for place in [*range(30), *(draw.randrange(len(written)) for _ in range(300))]:
            changed = bytearray(written)
            changed[place] ^= 1 << draw.randrange(8)
            (copied / TRANSCRIPT).write_bytes(changed)
            with pytest.raises(CheckpointError) as caught:
                exchanges_in(copied / TRANSCRIPT)
            assert_one_sentence(caught.value)
            assert (copied / TRANSCRIPT).read_bytes() == changed

    def test_a_run_does_not_go_on_from_a_changed_one(self, copied, written, resumed):
        middle = len(written) // 2
        changed = written[:middle] + bytes([written[middle] ^ 1]) + written[middle + 1 :]
        with pytest.raises(CheckpointError, match=r"changed or damaged at exchange \d+; restore"):
            resumed(changed)
        assert (copied / TRANSCRIPT).read_bytes() == changed
        assert "changed or damaged" in json.loads((copied / OUTCOME).read_text())["message"]

    def test_an_exchange_cannot_be_taken_out(self, tmp_path, finished):
        """Each is hashed with the one before."""
        ends = []
        path = tmp_path / TRANSCRIPT
        with Transcript.begin(path, {}) as begun:
            for own in exchanges_in(finished[0] / TRANSCRIPT)[:3]:
                ends.append(path.stat().st_size)
                begun.append(own)
        whole = path.read_bytes()
        path.write_bytes(whole[: ends[1]] + whole[ends[2] :])
        with pytest.raises(CheckpointError, match="changed or damaged at exchange 2;"):
            exchanges_in(path)

    def test_that_of_another_release_is_refused(self, copied, written, resumed, monkeypatch):
        monkeypatch.setattr(transcript, "__version__", "0.0.1")
        with pytest.raises(CheckpointError) as caught:
            resumed(written)
        assert_one_sentence(caught.value)
        assert f"was written by fedsparse {fs.__version__}, this is 0.0.1" in str(caught.value)
        assert (copied / TRANSCRIPT).read_bytes() == written

    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            ({"sparsity": 3}, "began with --sparsity cv and cannot go on with --sparsity 3;"),
            ({"seed": 7}, "began with --seed 0 and cannot go on with --seed 7;"),
            ({"l2": 0.5}, "began without --l2 and cannot go on with --l2 0.5;"),
            ({"stability": None}, "began with --stability 1 and cannot go on without --stability;"),
            ({"method": "FedIterHT"}, "began without --method and cannot go on with --method "),
        ],
        ids=["sparsity", "seed", "l2", "stability", "method"],
    )
    def test_other_options_are_refused(self, copied, written, resumed, changes, told):
        with pytest.raises(CheckpointError) as caught:
            resumed(written, **changes)
        assert_one_sentence(caught.value)
        assert told in str(caught.value)
        assert (copied / TRANSCRIPT).read_bytes() == written

    def test_what_the_model_does_not_depend_on_may_change(self, finished, written, resumed):
        found = resumed(written, title="Another", if_absent="wait", round_seconds=9.0)
        assert_same_analysis(found, finished[1])

    @pytest.mark.parametrize(
        ("grid", "told"),
        [
            (
                lambda: grid_of(NAMES[:2]),
                "the run began with aachen, bari and cork, and now there are aachen and bari;",
            ),
            (
                lambda: grid_of(("aachen", "bari", "dover")),
                "the run began with aachen, bari and cork, and now there are aachen, bari and "
                "dover;",
            ),
            (
                lambda: grid_of(table_of=lambda name: table_of(name, rows=16)),
                "the sites' tables are not those that the run began with;",
            ),
        ],
        ids=["fewer sites", "other sites", "other tables"],
    )
    def test_other_sites_and_tables_are_refused(self, copied, written, resumed, grid, told):
        with pytest.raises(CheckpointError) as caught:
            resumed(written, grid())
        assert_one_sentence(caught.value)
        assert told in str(caught.value)
        assert (copied / TRANSCRIPT).read_bytes() == written

    def test_without_sites_nothing_is_lost(self, copied, written, resumed):
        with pytest.raises(FederationError, match="3 sites were expected and 1 came"):
            resumed(written, grid_of(NAMES[:1]))
        assert (copied / TRANSCRIPT).read_bytes() == written


class TestReplay:
    def test_a_finished_run_is_worked_out_again_bit_for_bit(self, finished):
        folder, whole = finished
        found = replay(folder)
        assert found.exchanges == whole.exchanges
        assert found.differing == ()
        told = CliRunner().invoke(app, ["federation", "replay", str(folder)])
        assert told.exit_code == 0
        assert told.output.startswith(f"{whole.exchanges} exchanges were replayed: coefficients,")
        assert "the same, bit for bit" in told.output.replace("\n", " ")

    def test_an_unfinished_run_is_told(self, copied, written):
        (copied / TRANSCRIPT).write_bytes(written[: len(written) // 2])
        with pytest.raises(CheckpointError) as caught:
            replay(copied)
        told = str(caught.value)
        assert "before the run did; go on with fedsparse federation train --resume" in told
        assert f"ends after exchange {len(exchanges_in(copied / TRANSCRIPT))}," in told

    @pytest.mark.parametrize("file", ["model.json", "fit.json"])
    def test_a_changed_coefficient_is_named(self, copied, file):
        summary = FitSummary.load(copied / "fit.json")
        first, *others = summary.model.features
        near = (float(np.nextafter(first.coefficients[0], 0.0)),)
        features = (first.model_copy(update={"coefficients": near}), *others)
        model = summary.model.model_copy(update={"features": features})
        if file == "model.json":
            model.save(copied / file)
        else:
            summary.model_copy(update={"model": model}).save(copied / file)
        assert replay(copied).differing == (f"coefficients in {file}",)
        told = CliRunner().invoke(app, ["federation", "replay", str(copied)])
        assert told.exit_code == 1
        assert f"these differ: coefficients in {file}." in told.output.replace("\n", " ")

    @pytest.mark.parametrize("file", ["model.json", "fit.json"])
    def test_a_file_changed_by_hand_is_named(self, copied, file):
        content = (copied / file).read_text()
        (copied / file).write_text(content.replace("gene 0", "gene 1"))
        with pytest.raises(DataError, match=rf"{file} was changed after it was saved"):
            replay(copied)

    def test_other_changes_are_named(self, copied):
        summary = FitSummary.load(copied / "fit.json")
        points = summary.selection.points
        worse = points[0].model_copy(update={"score": points[0].score + 1.0})
        changes = {
            "model": summary.model.model_copy(update={"intercepts": (7.0,)}),
            "selection": summary.selection.model_copy(update={"points": (worse, *points[1:])}),
            "evaluation": summary.evaluation.model_copy(update={"held_out": "some"}),
            "stability": None,
        }
        summary.model_copy(update=changes).save(copied / "fit.json")
        assert replay(copied).differing == (
            "intercepts in fit.json",
            "choice of the number of features",
            "held-out metrics",
            "stability",
        )

    def test_a_folder_without_a_transcript_is_told(self, tmp_path):
        with pytest.raises(CheckpointError, match=r"there is no .*transcript.bin to go on from"):
            replay(tmp_path)


SUMS = st.dictionaries(
    st.text(max_size=5),
    arrays_of.arrays(np.float64, arrays_of.array_shapes(min_dims=0, max_dims=2, min_side=0)),
    max_size=3,
)
COUNTS = st.integers(0, 2**62)
ANSWERS = st.builds(
    Answers,
    SUMS,
    st.floats(),
    COUNTS,
    COUNTS,
    COUNTS,
    st.floats(allow_nan=False, allow_infinity=False),
)
STANDING = st.dictionaries(
    st.text(max_size=5), st.dictionaries(st.text(max_size=5), st.none() | COUNTS, max_size=3)
)


def told(exchange):
    """What tells an exchange from others but for the time it took, to the last bit."""
    return [
        [
            (own.weight.hex(), own.count, own.asked),
            *((name, total.shape, total.tobytes("F")) for name, total in own.sums.items()),
        ]
        for own in exchange.answers
    ]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.builds(Exchange, st.binary(max_size=9), st.tuples(ANSWERS), STANDING), max_size=3)
)
def test_exchanges_are_read_as_they_were_written(tmp_path_factory, exchanges):
    path = tmp_path_factory.mktemp("transcript") / TRANSCRIPT
    with Transcript.begin(path, {"sites": ["bari"]}) as begun:
        for own in exchanges:
            begun.append(own)
        assert begun.count == len(exchanges)
    with Transcript.open(path) as read:
        assert read.about["sites"] == ["bari"]
        for own in exchanges:
            found = read.next()
            assert (found.asked, found.sites, told(found)) == (own.asked, own.sites, told(own))
            assert [one.seconds for one in found.answers] == [one.seconds for one in own.answers]
            assert [one.bytes_up for one in found.answers] == [one.bytes_up for one in own.answers]
        assert read.next() is None
