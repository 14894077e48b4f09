"""What needs Flower is left out where it is not installed."""

from importlib.util import find_spec

import pytest

HAS_FLOWER = find_spec("flwr") is not None

collect_ignore_glob = (
    []
    if HAS_FLOWER
    else ["src/fedsparse/federation/*", "tests/federation/*", "tests/cli/federation/*"]
)


def pytest_report_header() -> str:
    """Say so at the top."""
    return "" if HAS_FLOWER else "Flower is not installed: its tests are skipped"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that have slow tests: last, they would keep one worker busy by itself."""
    slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow)
