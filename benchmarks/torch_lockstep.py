"""All settings of the paper's K × γ grid in lockstep by batched products of torch.

On a processor (``--device cpu``, the default) beside the local engine, setting by setting, in the
same run: seconds a round and setting of both, and their ratio. Settings that diverge are left out
on both sides, so that all make the same rounds; coefficients are checked to agree.

On a GPU (``--device cuda``) the whole grids of three algorithms at the experiments' full length,
with the adaptive step and FedSplice: seconds, peak memory, and what share of the device's speed the
products of one local step reach. With ``--text FOLDER`` on the two text sets, too.
"""

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

import fedsparse as fs

LOCAL_STEPS = (3, 5, 8, 10)
STEP_SIZES = (10, 1, 0.6, 0.3, 0.1, 0.06, 0.03, 0.01, 0.001)
GRIDS = {"Distributed-IHT": fs.DistributedIHT, "Fed-HT": fs.FedHT, "FedIter-HT": fs.FedIterHT}
AGREES = 1e-9


@dataclass(frozen=True)
class Case:
    """A problem at the size of the paper's.

    Attributes
    ----------
    title, data, loss
        The problem.
    sparsity, rounds
        τ and T of its experiment.
    scale
        Steps are so much shorter, for the processor: with those of the grid most settings diverge.
    """

    title: str
    data: Callable[[], fs.FederatedData]
    loss: fs.Loss
    sparsity: int
    rounds: int
    scale: float = 1.0


def mnist_shaped(clients: int = 100, samples: int = 600, width: int = 784) -> fs.FederatedData:
    """Rows as wide and as empty as images of digits, two classes a client."""
    random = np.random.default_rng(0)
    centres = random.random((10, width)) * (random.random((10, width)) < 0.4)
    parts = []
    for client in range(clients):
        labels = (client + random.integers(0, 2, samples)) % 10
        rows = centres[labels] + 0.3 * random.standard_normal((samples, width))
        rows *= random.random((samples, width)) < 0.4
        rows[:, :60] = 0.0  # a border that nobody writes on
        parts.append((np.clip(rows, 0.0, 1.0), labels))
    return fs.FederatedData.from_clients(parts)


CASES = {
    "simulation-1": Case(
        "Simulation I", fs.datasets.simulation_1, fs.SquaredError(), 200, 100, 1e-4
    ),
    "simulation-2": Case("Simulation II", fs.datasets.simulation_2, fs.Logistic(), 200, 200, 1e-3),
    "mnist": Case("MNIST's shape", mnist_shaped, fs.Softmax(), 500, 100, 1e-2),
}


def grid(algorithm: type[fs.FedHT], sparsity: int, scale: float = 1.0) -> list[fs.FedHT]:
    """Every K with every γ; of Distributed-IHT, which has no K, every γ."""
    sizes = [scale * size for size in STEP_SIZES]
    if algorithm is fs.DistributedIHT:
        return [fs.DistributedIHT(sparsity, step_size=size) for size in sizes]
    return [
        algorithm(sparsity, local_steps=steps, step_size=size)
        for steps in LOCAL_STEPS
        for size in sizes
    ]


def seconds_of(work: Callable[[], object]) -> tuple[float, object]:
    """How long it takes, and what comes of it."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def beside_the_local_engine(case: Case, rounds: int) -> None:
    """The whole grid on this processor: in lockstep, and one by one."""
    data = case.data()
    local, torch_engine = fs.LocalEngine(data, case.loss), fs.TorchEngine(data, case.loss, "cpu")
    for name in ("Fed-HT", "FedIter-HT"):
        compare(case, name, local, torch_engine, rounds)
    torch_engine.close()
    local.close()


def compare(
    case: Case, name: str, local: fs.LocalEngine, torch_engine: fs.TorchEngine, rounds: int
) -> None:
    """One algorithm's grid, one by one and in lockstep."""
    settings = grid(GRIDS[name], case.sparsity, case.scale)
    for engine in (local, torch_engine):  # rows are made ready
        fs.run(settings[0], engine, rounds=1)
    lockstep, together = seconds_of(lambda: fs.run_together(settings, torch_engine, rounds=rounds))
    alone, apart = seconds_of(lambda: [fs.run(own, local, rounds=rounds) for own in settings])
    made = rounds_of(together)
    wrong = max(
        np.abs(one.coef - other.coef).max() / max(np.abs(other.coef).max(), 1e-300)
        for one, other in zip(together, apart, strict=True)
    )
    assert wrong < AGREES, f"coefficients differ by {wrong:.1e}"
    per = 1000 / made
    print(
        f"{case.title}, {name}: {len(settings)} settings × {rounds} rounds; "
        f"one by one {alone * per:.1f} ms a round and setting, in lockstep "
        f"{lockstep * per:.1f} ms, ratio {alone / lockstep:.1f}×; differ by {wrong:.0e}",
        flush=True,
    )


def rounds_of(results: Iterable[fs.Result]) -> int:
    """Rounds that runs made, all together."""
    return sum(result.records[-1].round for result in results)


def on_a_gpu(case: Case, device: str) -> float:
    """The grids at full length, the adaptive step and FedSplice; returns seconds altogether."""
    import torch

    data = case.data()
    torch.cuda.reset_peak_memory_stats(device)
    engine = fs.TorchEngine(data, case.loss, device)
    works = {name: grid(algorithm, case.sparsity) for name, algorithm in GRIDS.items()} | {
        "adaptive": [
            fs.FedIterHT(case.sparsity, local_steps=steps, server_step="adaptive")
            for steps in LOCAL_STEPS
        ],
        "FedSplice": [fs.FedSplice(case.sparsity)],
    }
    copied, _ = seconds_of(lambda: (fs.run(works["Fed-HT"][0], engine, rounds=1), synchronized()))
    print(f"{case.title}: {data!r}; copied and compiled in {copied:.1f} s", flush=True)
    total = 0.0
    for name, settings in works.items():
        own = settings
        seconds, results = seconds_of(
            lambda own=own: (fs.run_together(own, engine, rounds=case.rounds), synchronized())[0]
        )
        total += seconds
        made = rounds_of(results)
        print(
            f"  {name}: {len(settings)} settings, {made} rounds in all, {seconds:.2f} s; "
            f"lowest f {min(result.objective for result in results):.6g}",
            flush=True,
        )
    peak = torch.cuda.max_memory_allocated(device) / 1e9
    print(f"  {total:.1f} s altogether; peak device memory {peak:.1f} GB", flush=True)
    share_of_the_device(data, device)
    engine.close()
    return total


def synchronized() -> None:
    """Wait for the GPU."""
    import torch

    torch.cuda.synchronize()


def share_of_the_device(data: fs.FederatedData, device: str) -> None:
    """What the scores of 36 models reach, beside one large product and one copy.

    The other product of a step, of slopes and rows, is as large.
    """
    import torch

    if data.is_sparse:
        return
    clients, rows = len(data), int(data.counts.max())
    vectors = 36 * (10 if np.unique(data.targets).size == 10 else 1)
    Z = torch.rand(clients, rows, data.width, dtype=torch.float64, device=device)
    X = torch.rand(clients, vectors, data.width, dtype=torch.float64, device=device)
    square = torch.rand(8192, 8192, dtype=torch.float64, device=device)
    seconds = timed(lambda: X @ Z.mT)
    best = 2 * 8192**3 / timed(lambda: square @ square)
    speed = 2 * square.nbytes / timed(lambda: square.clone())
    arithmetic = 2 * clients * vectors * rows * data.width / seconds
    memory = (Z.nbytes + X.nbytes + 8 * clients * vectors * rows) / seconds
    print(
        f"  scores of {vectors} vectors a client: {1e3 * seconds:.2f} ms, "
        f"{arithmetic / 1e12:.1f} TFLOPS ({arithmetic / best:.0%} of a large product), "
        f"{memory / 1e12:.2f} TB/s ({memory / speed:.0%} of a large copy)"
    )
    magnitudes = X.abs().view(torch.int64)
    kept = min(data.width // 2, 500)
    seconds = timed(lambda: magnitudes.topk(kept, -1, sorted=False))
    print(f"  the τ-th largest of {vectors * clients} vectors: {1e3 * seconds:.2f} ms", flush=True)


def timed(work: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of one call, the best of some."""
    work()
    best = float("inf")
    for _ in range(repeats):
        synchronized()
        seconds, _ = seconds_of(lambda: (work(), synchronized()))
        best = min(best, seconds)
    return best


def text_cases(folder: str) -> dict[str, Case]:
    """The two text sets of the paper's experiments, read from a folder."""
    import os

    from fedsparse.research.experiments.problems import load_experiment

    os.environ["FEDSPARSE_DATA"] = folder
    cases = {}
    for name, loss in (("rcv1", fs.Logistic()), ("e2006", fs.SquaredError())):
        experiment = load_experiment(name)
        problem = experiment.problem(0)
        cases[name] = Case(experiment.title, lambda own=problem: own.data, loss, 200, 100)
    return cases


def main(*arguments: str) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks torch_lockstep")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", nargs="+", choices=list(CASES), default=None)
    parser.add_argument("--rounds", type=int, default=3, help="on a processor")
    parser.add_argument("--text", metavar="FOLDER", help="with the text sets; on a GPU")
    asked = parser.parse_args(arguments)
    if asked.device == "cpu":
        for name in asked.only or ("simulation-2", "mnist"):
            beside_the_local_engine(CASES[name], asked.rounds)
        return
    cases = {name: CASES[name] for name in asked.only or CASES}
    if asked.text:
        cases |= text_cases(asked.text)
    total = sum(on_a_gpu(case, asked.device) for case in cases.values())
    print(f"altogether {total:.1f} s")


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
