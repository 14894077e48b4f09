"""``fedsparse federation check``: a site's administrator learns what is wrong before a run does."""

import re
import shutil
import socket
import time

import pytest
from typer.testing import CliRunner

import fedsparse.cli
from fedsparse.federation.folder import ServerFolder
from fedsparse.federation.keys import make_keys
from fedsparse.federation.sites.ledger import LEDGER
from tests.cli.federation.federations import TARGET, Federation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:`verify=<str>` is deprecated"),  # Flower's, in this process
]

SITES = ("bari", "cork", "delft")


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with Federation(tmp_path_factory.mktemp("check"), SITES) as running:
        running.wait_for_log("server", "may connect: bari")
        yield running


@pytest.fixture
def table(tmp_path):
    rows = "".join(f"{40 + row},{row % 7}.5\n" for row in range(30))
    path = tmp_path / "patients.csv"
    path.write_text(f"age,{TARGET}\n{rows}")
    return path


def check(federation, table, *more, keys=None, server=None):
    """What the command did, and what it said of each point."""
    done = CliRunner().invoke(
        fedsparse.cli.app,
        ["federation", "check", "--server", server or f"localhost:{federation.port}",
         "--keys", str(keys or federation.folder.package_of("bari")), "--data", str(table),
         "--target", TARGET, *map(str, more)],
    )  # fmt: skip
    lines = re.findall(r"^(ok|note|WRONG) +(\S+(?: sums)?) +(.*)$", done.output, re.MULTILINE)
    return done, {point: (mark, said) for mark, point, said in lines}


def test_all_is_well_where_a_site_could_start(federation, table):
    done, points = check(federation, table)
    assert done.exit_code == 0, done.output
    assert list(points) == [
        "keys", "roster", "secure sums", "network", "TLS", "clock", "server", "policy", "ledger",
        "questions", "table",
    ]  # fmt: skip
    assert points["table"] == ("ok", "30 rows that can be used")
    assert "with 2 others" in points["secure sums"][1]
    assert "compare it by telephone" in points["roster"][1]


def test_nothing_is_written_and_the_roster_is_not_accepted_by_looking(federation, table):
    folder = federation.folder.package_of("bari")
    before = sorted(folder.iterdir())
    check(federation, table)
    assert sorted(folder.iterdir()) == before


def test_a_server_that_is_not_there_ends_what_depends_on_it_alone(federation, table):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    done, points = check(federation, table, server=f"localhost:{port}")
    assert done.exit_code == 1
    assert points["network"][0] == "WRONG"
    assert "clock" not in points
    assert points["table"][0] == "ok"


def test_a_server_that_another_authority_vouches_for_is_told(federation, table, tmp_path):
    keys = tmp_path / "bari"
    shutil.copytree(federation.folder.package_of("bari"), keys)
    make_keys(ServerFolder(tmp_path / "elsewhere"), ["localhost"])
    shutil.copy(tmp_path / "elsewhere" / "ca.crt", keys)
    done, points = check(federation, table, keys=keys)
    assert done.exit_code == 1
    assert points["TLS"][0] == "WRONG"
    assert "ask its administrator for the right ca.crt" in points["TLS"][1]


def test_a_wrong_clock_is_told_with_its_difference(federation, table, monkeypatch):
    """The clock of a machine cannot be changed here: the process is told another time."""
    true_time = time.time
    monkeypatch.setattr(
        "fedsparse.federation.sites.checklist.time.time", lambda: true_time() + 3600
    )
    _, points = check(federation, table)
    assert points["clock"][0] == "WRONG"
    assert re.search(r"this machine's is 3,?[56]\d\d s ahead", points["clock"][1])


def test_everything_wrong_with_table_policy_and_ledger_is_told_at_once(federation, table, tmp_path):
    table.write_text(f"age,{TARGET}\n61,1.5\n47,-Infinity\n")
    policy = tmp_path / "policy.toml"
    policy.write_text("smallest_sample = 3\n")
    folder = tmp_path / "ledger"
    folder.mkdir()
    (folder / LEDGER).write_text('{"number":1}\n')
    done, points = check(federation, table, "--policy", policy, "--ledger", folder)
    assert done.exit_code == 1
    assert [points[point][0] for point in ("policy", "ledger", "table")] == ["WRONG"] * 3
    assert "smallest_sample" in points["policy"][1]
    assert "line 1" in points["ledger"][1]
    assert "fewer rows than the 5" in done.output
    assert "row 2 (the header not counted) is -inf" in done.output
    assert "Not ready" in done.output


def test_keys_of_a_site_that_is_not_in_the_roster_are_told(federation, table, tmp_path):
    done = CliRunner().invoke(
        fedsparse.cli.app, ["federation", "join", "elba", "--keys", str(tmp_path / "elba")]
    )
    assert done.exit_code == 0
    for path in federation.folder.for_sites.iterdir():
        shutil.copy(path, tmp_path / "elba")
    done, points = check(federation, table, keys=tmp_path / "elba")
    assert done.exit_code == 1
    assert "does not have elba; send" in points["keys"][1]
    assert points["server"][1].startswith("does not let this site in")


def test_options_that_do_not_go_together_are_refused(federation, table):
    done, _ = check(federation, table, "--time", "months")
    assert isinstance(done.exception, fedsparse.errors.OptionError)
