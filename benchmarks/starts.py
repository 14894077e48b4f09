"""Where FedSplice begins: one gradient answer ranked, or the support of a few FedIter-HT rounds.

Needs the paper's data sets in the folder that FEDSPARSE_DATA names.
"""

import warnings

import fedsparse as fs
from benchmarks.rounds.cases import gene_expression
from benchmarks.tables import show
from fedsparse.research.experiments import load_experiment

EXPERIMENTS = ("simulation-1", "simulation-2", "e2006", "rcv1")
FIRST_ROUNDS = 5


def problems():
    for name in EXPERIMENTS:
        yield load_experiment(name).problem(0)
    yield next(gene_expression(0)).problem


def outcome(result, rounds_before=0):
    return result.objective, rounds_before + result.records[-1].round


def compare(problem):
    """Final f and rounds of both starts."""
    data, loss, sparsity = problem.data, problem.loss, problem.sparsity
    ranked = fs.run(fs.FedSplice(sparsity), data, loss=loss)
    first = fs.FedIterHT(sparsity, server_step="adaptive")
    warm = fs.run(first, data, loss=loss, rounds=FIRST_ROUNDS).coef
    warmed = fs.run(fs.FedSplice(sparsity, start_at=warm), data, loss=loss)
    return outcome(ranked), outcome(warmed, FIRST_ROUNDS)


def main():
    warnings.simplefilter("ignore", fs.DivergenceWarning)
    rows = []
    for problem in problems():
        (ranked, ranked_rounds), (warmed, warmed_rounds) = compare(problem)
        rows.append(
            (
                problem.title,
                f"{ranked:.5g} in {ranked_rounds}",
                f"{warmed:.5g} in {warmed_rounds}",
                f"{ranked / warmed:.4f}×",
            )
        )
    show(
        "FedSplice: final f and rounds from either first support",
        ["problem", "gradient ranked", f"{FIRST_ROUNDS} rounds of FedIter-HT", "ratio of f"],
        rows,
    )


if __name__ == "__main__":
    main()
