"""What needs Flower or torch is left out where these are not installed."""

from importlib.util import find_spec

import pytest

NEEDED_BY = {
    "flwr": ["src/fedsparse/federation/*", "tests/federation/*", "tests/cli/federation/*"],
    "torch": [
        "src/fedsparse/compute/on_device/*",
        "src/fedsparse/engines/batches.py",
        "src/fedsparse/engines/torch_engine.py",
        "tests/compute/on_device/*",
    ],
}
MISSING = [name for name in NEEDED_BY if find_spec(name) is None]

collect_ignore_glob = [path for name in MISSING for path in NEEDED_BY[name]]


def pytest_report_header() -> str:
    """Say so at the top."""
    return "\n".join(f"{name} is not installed: its tests are skipped" for name in MISSING)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that have slow tests: last, they would keep one worker busy by itself."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)
