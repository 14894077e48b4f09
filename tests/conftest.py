"""What all tests share."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _a_cache_of_its_own(tmp_path_factory):
    """Keep what tests parse or download out of the user's cache."""
    os.environ["FEDSPARSE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
