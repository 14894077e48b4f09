"""Data sets by name: simulated federations, and real tables to be given to clients."""

from fedsparse.research.data.mnist import load_mnist
from fedsparse.research.data.simulations import simulation_1, simulation_2
from fedsparse.research.data.text import load_e2006, load_rcv1
from fedsparse.tables.dataset import Dataset
from fedsparse.tables.svmlight import load_svmlight

__all__ = [
    "Dataset",
    "load_e2006",
    "load_mnist",
    "load_rcv1",
    "load_svmlight",
    "simulation_1",
    "simulation_2",
]
