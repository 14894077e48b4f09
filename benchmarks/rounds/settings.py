"""The paper's methods at their best: K and γ by problem.

Source: the reproduction of the paper's experiments (``fedsparse reproduce``), which searches the
paper's grid on the first seed. A problem that is not in the table is searched when it is run.
"""

from fedsparse.research.experiments.experiment_plan import Method

BEST = {
    "simulation-1": (
        Method("Distributed-IHT", "plain", 1, 0.01),
        Method("Fed-HT", "plain", 5, 0.001),
        Method("FedIter-HT", "plain", 5, 0.001),
    ),
    "simulation-2": (
        Method("Distributed-IHT", "plain", 1, 0.01),
        Method("Fed-HT", "plain", 10, 0.03),
        Method("FedIter-HT", "plain", 10, 0.001),
    ),
    "e2006": (
        Method("Distributed-IHT", "plain", 1, 10),
        Method("Fed-HT", "plain", 5, 10),
        Method("FedIter-HT", "plain", 10, 10),
    ),
    "rcv1": (
        Method("Distributed-IHT", "plain", 1, 10),
        Method("Fed-HT", "plain", 10, 10),
        Method("FedIter-HT", "plain", 10, 10),
    ),
    "mnist": (
        Method("Distributed-IHT", "plain", 1, 1),
        Method("Fed-HT", "plain", 10, 0.6),
        Method("FedIter-HT", "plain", 10, 0.6),
    ),
}
