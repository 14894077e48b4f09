"""Without Flower there is nothing to test here."""

import pytest

pytest.importorskip("flwr", reason="Flower is not installed; install fedsparse[flower]")
