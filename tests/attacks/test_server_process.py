"""Nothing but sums: the memory and the files of a real server hold nothing of any one site.

Server and five sites are processes, with TLS and keys. While a run is under way and when it is over
the server's processes are stopped and all their memory is searched for one site's rows, labels,
moments, and every answer that it gave, in every form that `tests.attacks.needles` knows. Its files,
its logs, and what the site handed to Flower are searched alike. In a run with open sums the same
search finds the site's answers.
"""

import json
import time

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.compute.stacks import Stack
from fedsparse.federation.server.transcript import TRANSCRIPT, Transcript
from fedsparse.modelling import tables_in_one_place
from fedsparse.modelling.specification import FitSpecification
from fedsparse.requests.wire.frame import unpacked
from fedsparse.tables import Roles, load_tables
from tests.attacks.needles import Haystack, forms_of, needles_of, numbers_of
from tests.attacks.process_memory import family, memory_of, standing_still
from tests.cli.federation.federations import SECONDS, TARGET, Federation, write_table
from tests.federation.federated_tables import NAMES, WIDTH, clients_of

pytestmark = pytest.mark.slow

WATCHED = NAMES[0]
FIT = {"sparsity": 3, "held_out": "none", "stability": 0}
PAUSE = 3.0
"""Seconds between two looks into the memory."""


def asked_in(tables, sums):
    """All that a run asks: that of one process on the same rows is the same, bit for bit."""
    asked = []

    class Listening(fs.LocalEngine):
        def exchange(self, asks):
            asked.extend(asks)
            return super().exchange(asks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables_in_one_place, "LocalEngine", Listening)
        loaded = load_tables(tables, Roles(target=TARGET))
        tables_in_one_place.analyse(loaded, FitSpecification(**FIT), sums=sums)
    return asked


def answers_to(asks, client):
    """What one site answers, as it is and weighted by its rows."""
    engine = fs.LocalEngine(fs.FederatedData.from_clients({WATCHED: client}))
    found = {}
    for place, ask in enumerate(asks):
        fields, mass = engine.answer_of(ask.lens, ask.request)
        for name, field in fields.items():
            own = np.concatenate([np.ravel(each) for each in _each(field)])
            found[f"{name} of answer {place}"] = own
            found[f"{name} of answer {place}, weighted"] = mass * own
    engine.close()
    return found


def _each(field):
    return field.each() if isinstance(field, Stack) else [field]


class Search:
    """Runs with real processes, in which one site's numbers are searched for.

    Attributes
    ----------
    in_memory, in_files, in_replies
        Needles that were found.
    looks
        How often the memory was searched while a run was under way.
    sample
        A piece of the server's memory.
    """

    def __init__(self, federation, tables, client, sums):
        self._federation = federation
        own = numbers_of(client, np.zeros(WIDTH)) | answers_to(asked_in(tables, sums), client)
        self.haystack = Haystack(needles_of(own))
        self.in_memory, self.in_files, self.in_replies = set(), set(), set()
        self.looks, self.bytes, self.sample = 0, 0, b""

    def follow(self, out, folder):
        """Train, and search until the run is over."""
        run = self._federation.train(sites=len(NAMES), out=out, **FIT)
        end = time.monotonic() + SECONDS
        while not (folder / "over").exists():
            assert run.process.poll() is None, run.finish()
            assert time.monotonic() < end
            time.sleep(PAUSE)
            if self.looks == 0:
                self.looks += self._look(run)
        self.looks += self._look(run)
        (folder / "go on").touch()
        assert run.finish() == 0, run.text
        self._look(run)
        logs = [self._federation.log("server"), run.text]
        for written in (*_contents(self._federation, run.out), *(own.encode() for own in logs)):
            self.in_files |= self.haystack.hits(written)
        self.in_replies = self.haystack.hits((folder / "replies").read_bytes())

    def _look(self, run):
        """Search the memory of the server, of what trains there, and of the command."""
        pids = family(self._federation.pid("server"))
        pids += [run.process.pid] if run.process.poll() is None else []
        with standing_still(pids) as present:
            regions = [own for pid in present for own in memory_of(pid)]
        self.bytes += sum(map(len, regions))
        for own in regions:
            self.in_memory |= self.haystack.hits(own)
        self.sample = max(regions, key=len)[: 2**22]
        return 1


def _contents(federation, out):
    """Files that the server can read, transcripts with their headers inflated."""
    for path in [*federation.folder.root.rglob("*"), *out.rglob("*")]:
        if path.is_file():
            yield path.read_bytes()
    with Transcript.open(out / TRANSCRIPT) as transcript:
        while (exchange := transcript.next()) is not None:
            yield json.dumps([exchange.sites, unpacked(exchange.asked)[0]]).encode()


@pytest.fixture(scope="module")
def clients():
    return clients_of("numbers")


@pytest.fixture(scope="module")
def searched(tmp_path_factory, clients):
    """Gives the search through a run, secure or open."""
    found = {}

    def search(sums):
        if sums not in found:
            root = tmp_path_factory.mktemp(sums)
            with Federation(root, NAMES, is_secure=sums == "secure") as federation:
                found[sums] = _searched(federation, root, clients, sums)
        return found[sums]

    return search


def _searched(federation, root, clients, sums):
    tables = [
        write_table(root / f"{name}.csv", *own) for name, own in zip(NAMES, clients, strict=True)
    ]
    for name, table in zip(NAMES[1:], tables[1:], strict=True):
        federation.start_site(name, table)
    folder = root / "recorded"
    folder.mkdir()
    federation.start_altered_site(
        "tests.cli.federation.recording_site", folder, name=WATCHED, table=tables[0]
    )
    search = Search(federation, tables, clients[0], "fixed" if sums == "secure" else "float")
    search.follow("trained", folder)
    return search


def test_nothing_of_a_site_is_in_the_memory_of_the_server(searched):
    search = searched("secure")
    assert search.looks >= 2
    assert search.bytes > 10**8
    assert search.in_memory == set()


def test_nothing_of_a_site_is_in_files_and_logs_of_the_server(searched):
    assert searched("secure").in_files == set()


def test_nothing_of_a_site_is_in_what_it_hands_to_flower(searched):
    assert searched("secure").in_replies == set()


def test_the_same_search_finds_what_is_planted_into_that_memory(searched, clients):
    search, targets = searched("secure"), clients[0][1]
    for name, form in forms_of(targets[:2]).items():
        planted = max(form & needles_of({"targets": targets[:2]}))
        middle = len(search.sample) // 2 + 3
        written = search.sample[:middle] + planted + search.sample[middle:]
        assert planted in search.haystack.hits(written), name


def test_the_same_search_finds_a_sites_answers_in_a_run_with_open_sums(searched):
    search = searched("open")
    assert len(search.in_replies) > WIDTH
    assert len(search.in_memory) > WIDTH
