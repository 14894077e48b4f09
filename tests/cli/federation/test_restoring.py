"""A site's folder comes back from a copy, and what a copy may have forgotten."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from tests.cli.commands import fedsparse
from tests.cli.federation.federations import TARGET, Federation, write_table

pytestmark = pytest.mark.slow

SITES = ("bari", "cork", "delft")


class Sites:
    """Three sites that train under masks, and can be ended and started again."""

    def __init__(self, federation, root):
        random = np.random.default_rng(0)
        self.federation = federation
        self.tables = {}
        for name in SITES:
            rows = random.standard_normal((60, 3)).round(3)
            targets = rows[:, 0] + 0.5 * random.standard_normal(60)
            self.tables[name] = write_table(root / f"{name}.csv", rows, targets)

    def start(self):
        for name, table in self.tables.items():
            self.federation.start_site(name, table)

    def end(self):
        for name in SITES:
            assert self.federation.programs.end(name) == 0

    def train(self, out):
        run = self.federation.train(
            sites=3, sparsity=1, rounds=2, held_out="none", stability=0, out=out
        )
        return run, run.finish()

    def check(self, name):
        """What ``federation check`` says of each point, and its exit code."""
        done = fedsparse(
            "federation", "check", "--server", f"localhost:{self.federation.port}",
            "--keys", self.federation.folder.package_of(name), "--data", self.tables[name],
            "--target", TARGET,
        )  # fmt: skip
        lines = re.findall(r"^(ok|note|WRONG) +(\S+(?: sums)?) +(.*)$", done.stdout, re.MULTILINE)
        return done.returncode, {point: (mark, said) for mark, point, said in lines}


def verified(folder):
    done = fedsparse("federation", "ledger", folder / "ledger", "--verify")
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_site_takes_part_again_from_the_copy_of_its_folder(tmp_path):
    with Federation(tmp_path, SITES, is_secure=True) as federation:
        sites = Sites(federation, tmp_path)
        sites.start()
        run, code = sites.train("first")
        assert code == 0, run.text
        sites.end()
        bari = federation.folder.package_of("bari")
        written, copy = verified(bari), tmp_path / "bari.tar"
        subprocess.run(["tar", "--create", "--file", copy, bari.name], cwd=bari.parent, check=True)
        shutil.rmtree(bari)
        subprocess.run(["tar", "--extract", "--file", copy], cwd=bari.parent, check=True)

        assert verified(bari) == written
        code, points = sites.check("bari")
        assert (code, points["roster"][0]) == (0, "ok")  # it is remembered that it was accepted
        assert re.match(r"\d+ records, none changed", points["ledger"][1])
        told = r"the last of [-\d]+ [:\d]+ UTC, with the hash (\w{12})"
        last = re.search(told, points["ledger"][1])
        assert last[1] in written
        assert re.match(r"\d+ questions remembered", points["questions"][1])

        (bari / "questions.jsonl").rename(tmp_path / "kept.jsonl")
        code, points = sites.check("bari")
        assert (code, points["questions"][0]) == (0, "note")
        assert "restore its last copy" in points["questions"][1]
        (tmp_path / "kept.jsonl").rename(bari / "questions.jsonl")

        sites.start()
        run, code = sites.train("again")
        assert code == 0, run.text
        assert run.model.features


def test_questions_that_are_damaged_are_named(tmp_path):
    with Federation(tmp_path, SITES) as federation:
        sites = Sites(federation, tmp_path)
        (federation.folder.package_of("cork") / "questions.jsonl").write_text('["cork"]\n')
        code, points = sites.check("cork")
        assert (code, points["questions"][0]) == (1, "WRONG")
        assert re.match(r"line 1 of \S+/questions.jsonl is damaged", points["questions"][1])
