"""Does SCAFFOLD help where clients drift? ``python -m benchmarks drift [EXPERIMENT [ROUNDS]]``.

K local steps of γ = 1/max l_i, plain and corrected, beside one step of Kγ along the gradient of all
clients: Distributed-IHT with that step. The experiment is Simulation I unless another is named.
"""

from collections.abc import Iterator

import numpy as np

import fedsparse as fs
from benchmarks.rounds import methods
from benchmarks.rounds.methods import Entry
from benchmarks.rounds.progress import LiveTable
from fedsparse.research.experiments import Problem, load_experiment

LOCAL_STEPS = (3, 10, 30)


def main(name: str = "simulation-1", rounds: str = "100") -> None:
    problem = load_experiment(name).problem(0)
    table = LiveTable(f"{problem.title}: f after {rounds} rounds", ["method", "f"])
    for entry in entries(problem):
        result = methods.run(entry, problem, int(rounds))
        label = entry.label + (" (diverged)" if result.diverged else "")
        table.add([label, f"{result.objective:.5g}"])


def entries(problem: Problem) -> Iterator[Entry]:
    """By K: plain, corrected, and what the latter comes to."""
    step_size = 1.0 / largest_smoothness(problem)
    for steps in LOCAL_STEPS:
        tau, options = problem.sparsity, {"local_steps": steps, "step_size": step_size}
        inside = fs.ScaffoldHT(tau, thresholds_locally=True, **options)
        yield Entry(f"Fed-HT, K = {steps}", fs.FedHT(tau, **options))
        yield Entry(f"FedIter-HT, K = {steps}", fs.FedIterHT(tau, **options))
        yield Entry(f"SCAFFOLD-HT, K = {steps}", fs.ScaffoldHT(tau, **options))
        yield Entry(f"SCAFFOLD-HT, H_τ at clients, K = {steps}", inside)
        once = fs.DistributedIHT(tau, step_size=steps * step_size)
        yield Entry(f"Distributed-IHT, {steps} γ", once)


def largest_smoothness(problem: Problem) -> float:
    """Max l_i."""
    engine = fs.LocalEngine(problem.data, problem.loss)
    places = range(len(problem.data))
    asks = [engine.ask(fs.Smoothness(), which=np.array([place])) for place in places]
    return max(answers.average("smoothness") for answers in engine.exchange(asks))
