"""What the attacks on a federation share."""

import pytest

from fedsparse.federation.server import mailbox
from tests.federation.conftest import _a_task_of_flower  # noqa: F401


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(mailbox, "SHORTEST_PAUSE", 0.001)
