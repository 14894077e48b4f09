"""The server's side: one file per family of algorithms."""

from fedsparse.algorithms.averaging import FedAvg, FedProx
from fedsparse.algorithms.base import Algorithm, State
from fedsparse.algorithms.hard_thresholding import (
    GDHT,
    HSGHT,
    SGDHT,
    SVRGHT,
    DistributedIHT,
    FedHT,
    FedIterHT,
)
from fedsparse.algorithms.options import GrowingBatch

__all__ = [
    "GDHT",
    "HSGHT",
    "SGDHT",
    "SVRGHT",
    "Algorithm",
    "DistributedIHT",
    "FedAvg",
    "FedHT",
    "FedIterHT",
    "FedProx",
    "GrowingBatch",
    "State",
]
