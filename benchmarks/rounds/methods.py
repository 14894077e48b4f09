"""The federated methods that are compared."""

import warnings
from dataclasses import dataclass

import fedsparse as fs
from benchmarks.rounds.progress import tell
from benchmarks.rounds.settings import BEST
from benchmarks.rounds.steepness import smoothness
from fedsparse.algorithms import Algorithm
from fedsparse.research.experiments import Problem, read_settings
from fedsparse.research.experiments.experiment_plan import ALGORITHMS, Method, grid_of

ROUNDS = 100
EDSL_ROUNDS = 20
LATE_CLIENTS = 10
"""That come next together, of asynchronous SVRG-HT."""

BASELINE = "Distributed-IHT"
SPLICING = "FedSplice"


@dataclass(frozen=True)
class Entry:
    """A method under the name it has in the table, and how many rounds it may take."""

    label: str
    algorithm: Algorithm
    rounds: int = ROUNDS


def baselines(name: str, problem: Problem) -> list[Entry]:
    """Distributed-IHT, of which the better one sets the goal: best γ of the grid, and 1/l of f."""
    step_size = 1.0 / smoothness(problem)
    steep = fs.DistributedIHT(problem.sparsity, step_size=step_size)
    return [
        _of_the_paper(name, BASELINE, problem),
        Entry(f"{BASELINE}, γ = 1/l = {step_size:.3g}", steep),
    ]


def of_the_paper(name: str, problem: Problem) -> list[Entry]:
    """The paper's three, each with its best K and γ, and Distributed-IHT with γ = 1/l, too."""
    others = [_of_the_paper(name, own, problem) for own in ALGORITHMS if own != BASELINE]
    return [*baselines(name, problem), *others]


def without_tuning(problem: Problem) -> list[Entry]:
    """Fed-HT and FedIter-HT with steps that the server and the clients work out."""
    options = {"local_steps": 10, "step_size": "auto"}
    entries = [
        Entry(f"{name}, {step}", kind(problem.sparsity, server_step=step, **options))
        for step in ("extrapolated", "adaptive")
        for name, kind in (("Fed-HT", fs.FedHT), ("FedIter-HT", fs.FedIterHT))
    ]
    if has_curvature(problem):
        refit = fs.FedIterHT(problem.sparsity, server_step="adaptive", refit=True, **options)
        entries.append(Entry("FedIter-HT, adaptive, refit", refit))
    return entries


def second_order(problem: Problem) -> list[Entry]:
    """FedSplice and its rival, which needs a loss with second derivatives by a single score."""
    if not has_curvature(problem):
        return [splicing(problem)]
    return [splicing(problem), edsl(problem, refit=False), edsl(problem, refit=True)]


def pursuits(problem: Problem) -> list[Entry]:
    """Support pursuit: HTP with γ = 1/l of f itself, and GraSP, which needs no γ."""
    if not has_curvature(problem):
        return []  # refits need a single score; 3τ features of every class make a huge Hessian
    tau, step_size = problem.sparsity, 1.0 / smoothness(problem)
    is_squared = isinstance(problem.loss, fs.SquaredError)
    pursuit = Entry("CoSaMP", fs.CoSaMP(tau)) if is_squared else Entry("GraSP", fs.GraSP(tau))
    return [
        Entry(f"HTP, γ = 1/l = {step_size:.3g}", fs.HTP(tau, step_size=step_size)),
        pursuit,
        Entry(f"{pursuit.label}, debiased", fs.GraSP(tau, debias=True)),
    ]


def corrected(problem: Problem) -> list[Entry]:
    """Gradients corrected by those of all clients."""
    tau = problem.sparsity
    late = fs.AsyncSVRGHT(tau, clients_per_round=min(LATE_CLIENTS, len(problem.data)))
    return [
        Entry("SCAFFOLD-HT", fs.ScaffoldHT(tau)),
        Entry("SCAFFOLD-HT, H_τ at clients", fs.ScaffoldHT(tau, thresholds_locally=True)),
        Entry("SCAFFOLD-HT, adaptive", fs.ScaffoldHT(tau, server_step="adaptive")),
        Entry(f"asynchronous SVRG-HT, {late.clients_per_round} at a time", late),
    ]


def splicing(problem: Problem) -> Entry:
    return Entry(SPLICING, fs.FedSplice(problem.sparsity))


def edsl(problem: Problem, *, refit: bool) -> Entry:
    label = "EDSL, refit" if refit else "EDSL"
    return Entry(label, fs.EDSL(problem.sparsity, refit=refit), EDSL_ROUNDS)


def has_curvature(problem: Problem) -> bool:
    return not isinstance(problem.loss, fs.Softmax)


def run(entry: Entry, problem: Problem, rounds: int | None = None) -> fs.Result:
    """Run a method; that it may diverge is part of the comparison."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.DivergenceWarning)
        return fs.run(
            entry.algorithm, problem.data, loss=problem.loss, rounds=rounds or entry.rounds
        )


def _of_the_paper(name: str, algorithm: str, problem: Problem) -> Entry:
    known = {method.algorithm: method for method in BEST.get(name, ())}
    best = known.get(algorithm) or _search(name, algorithm, problem)
    return Entry(_label(best), best.build(problem.sparsity))


def _search(name: str, algorithm: str, problem: Problem) -> Method:
    """The best of the paper's grid, which is the same in all of its experiments."""
    tell(f"{name}: searching the grid for {algorithm}")
    runs = []
    for method in grid_of(read_settings("simulation-1"), algorithm):
        result = run(Entry(str(method), method.build(problem.sparsity)), problem)
        runs.append((result.diverged, result.objective, len(runs), method))
    return min(runs)[-1]


def _label(method: Method) -> str:
    steps = "" if method.algorithm == BASELINE else f"K = {method.local_steps}, "
    return f"{method.algorithm}, {steps}γ = {method.step_size:g}"
