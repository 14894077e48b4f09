"""What needs Flower is left out where it is not installed."""

from importlib.util import find_spec

HAS_FLOWER = find_spec("flwr") is not None

collect_ignore_glob = (
    []
    if HAS_FLOWER
    else ["src/fedsparse/federation/*", "tests/federation/*", "tests/cli/federation/*"]
)


def pytest_report_header() -> str:
    """Say so at the top."""
    return "" if HAS_FLOWER else "Flower is not installed: its tests are skipped"
