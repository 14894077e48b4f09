"""The server's side: one file per family of algorithms."""

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.averaging import FedAvg, FedProx
from fedsparse.algorithms.edsl import EDSL
from fedsparse.algorithms.hard_thresholding import (
    GDHT,
    HSGHT,
    SGDHT,
    SVRGHT,
    DistributedIHT,
    FedHT,
    FedIterHT,
)
from fedsparse.algorithms.splicing import FedSplice
from fedsparse.algorithms.step_sizes import GrowingBatch

__all__ = [
    "EDSL",
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
    "FedSplice",
    "GrowingBatch",
    "State",
]
