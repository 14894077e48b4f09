"""Where products are worked out, and how much room there is."""

import torch

from fedsparse.errors import OptionError

_PROCESSOR_ROOM = 2**22
"""Bytes of what is worked out at a time on a processor, so that it stays in cache."""

_DEVICE_SHARE = 0.5
"""Of the free memory of a device, for what is worked out at a time."""


def open_device(name: str | None) -> torch.device:
    """The device of a name; a GPU by default if there is one.

    Examples
    --------
    >>> open_device("cpu")
    device(type='cpu')
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"there is no device {name!r}; use 'cpu', 'cuda' or 'cuda:1'") from None
    if device.type not in ("cpu", "cuda"):
        raise OptionError(f"device must be 'cpu' or 'cuda', not {name!r}")
    if device.type == "cuda":
        _check_gpu(device)
    return device


def _check_gpu(device: torch.device) -> None:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise OptionError("there is no GPU that torch can use here; use device='cpu'")
    if device.index is not None and device.index >= count:
        raise OptionError(f"there is no {str(device)!r}; the last is 'cuda:{count - 1}'")


def working_room(device: torch.device) -> int:
    """Bytes that may be worked on at a time."""
    if device.type == "cpu":
        return _PROCESSOR_ROOM
    return int(_DEVICE_SHARE * free_bytes(device))


def free_bytes(device: torch.device) -> int:
    """Of a GPU: what nobody uses, and what torch holds without need."""
    free, _ = torch.cuda.mem_get_info(device)
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + held


def check_room(needed: int, device: torch.device) -> None:
    """Refuse rows that do not fit a GPU."""
    if device.type == "cpu":
        return
    free = free_bytes(device)
    if needed > free:
        raise OptionError(
            f"the rows take {needed / 1e9:.1f} GB on {str(device)!r}, where {free / 1e9:.1f} GB "
            "are free; use device='cpu', or a larger GPU"
        )
