"""A site, as a process, that sends NaN once training is under way: what a fault or a foe would do.

Arguments: name, table, target, folder with keys, port.
"""

import sys
import threading
from pathlib import Path

import numpy as np

from fedsparse.compute.stacks import DenseStack
from fedsparse.federation.folder import SiteFolder
from fedsparse.federation.payloads import Answered, from_bytes, to_bytes
from fedsparse.federation.sites.connection import serve
from fedsparse.federation.sites.line import Access
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import open_table
from fedsparse.requests.wire.answer_bytes import encode_answer

HEALTHY_ANSWERS = 6


class PoisonedSite(Site):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._count = 0

    def reply(self, message, run, crossed=None):
        said = from_bytes(super().reply(message, run, crossed))
        self._count += 1
        if not isinstance(said, Answered) or self._count <= HEALTHY_ANSWERS:
            return to_bytes(said)
        width = self._table.frame.width  # the target's place is taken by the intercept
        poison = {
            "x": DenseStack(np.full((1, width), np.nan), (width,)),
            "objective": np.array([np.nan]),
        }
        rows = float(self._table.rows)
        return to_bytes(Answered(((encode_answer(poison), rows),) * len(said.answers)))


def main():
    name, table, target, keys, port = sys.argv[1:]
    folder = SiteFolder(Path(keys))
    site = PoisonedSite(name, open_table(Path(table), target), Policy(open_sums=True), 1)
    access = Access(f"localhost:{port}", folder.authority, folder.key)
    serve(site, access, patience=60.0, poll=0.1, stop=threading.Event())


if __name__ == "__main__":
    main()
