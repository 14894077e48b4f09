"""How asks reach clients and sums come back."""

from fedsparse.engines.conversation import Conversation, converse, together
from fedsparse.engines.engine import Ask, Engine
from fedsparse.engines.lens import Lens
from fedsparse.engines.local import LocalEngine
from fedsparse.engines.opening import open_engine
from fedsparse.engines.ray_engine import RayEngine
from fedsparse.engines.torch_engine import TorchEngine

__all__ = [
    "Ask",
    "Conversation",
    "Engine",
    "Lens",
    "LocalEngine",
    "RayEngine",
    "TorchEngine",
    "converse",
    "open_engine",
    "together",
]
