"""The server's side: one file per family of algorithms."""

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.asynchronous import AsyncSVRGHT
from fedsparse.algorithms.averaging import FedAvg, FedProx
from fedsparse.algorithms.edsl import EDSL
from fedsparse.algorithms.hard_thresholding import (
    GDHT,
    HSGHT,
    HTP,
    SGDHT,
    SVRGHT,
    DistributedIHT,
    FedHT,
    FedIterHT,
)
from fedsparse.algorithms.matching_pursuit import CoSaMP, GraSP
from fedsparse.algorithms.scaffold import ScaffoldHT
from fedsparse.algorithms.splicing import FedSplice
from fedsparse.algorithms.step_sizes import GrowingBatch

__all__ = [
    "EDSL",
    "GDHT",
    "HSGHT",
    "HTP",
    "SGDHT",
    "SVRGHT",
    "Algorithm",
    "AsyncSVRGHT",
    "CoSaMP",
    "DistributedIHT",
    "FedAvg",
    "FedHT",
    "FedIterHT",
    "FedProx",
    "FedSplice",
    "GraSP",
    "GrowingBatch",
    "ScaffoldHT",
    "State",
]
