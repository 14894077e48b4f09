"""Who carries requests to clients and answers back."""

from fedsparse.engines.base import Engine
from fedsparse.engines.local import LocalEngine

__all__ = ["Engine", "LocalEngine"]
