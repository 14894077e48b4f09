"""Data sets by name: simulated federations, and real tables to be given to clients."""

from fedsparse.data.dataset import Dataset
from fedsparse.data.libsvm import load_svmlight
from fedsparse.data.mnist import load_mnist
from fedsparse.data.simulations import simulation_1, simulation_2
from fedsparse.data.text import load_e2006, load_rcv1

__all__ = [
    "Dataset",
    "load_e2006",
    "load_mnist",
    "load_rcv1",
    "load_svmlight",
    "simulation_1",
    "simulation_2",
]
