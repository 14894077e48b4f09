"""What the tests of the Flower engine share."""

import pytest
from flwr.supercore.task_identity import TaskIdentity


@pytest.fixture(scope="session", autouse=True)
def _a_task_of_flower():
    """Messages can only be made within a task; here that is the test."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
