"""What all tests share."""

import os

import pytest
from hypothesis import settings

# No limit depends on the clock: a busy machine holds a test up now and then.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session", autouse=True)
def _a_cache_of_its_own(tmp_path_factory):
    """Keep what tests parse or download out of the user's cache."""
    os.environ["FEDSPARSE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
