"""How asks reach clients and sums come back."""

from fedsparse.engines.conversation import Conversation, converse, together
from fedsparse.engines.engine import Ask, Engine
from fedsparse.engines.lens import Lens
from fedsparse.engines.local import LocalEngine

__all__ = ["Ask", "Conversation", "Engine", "Lens", "LocalEngine", "converse", "together"]
