"""The paper's figures, and four of our own, drawn from tables alone."""

from fedsparse.report.convergence_charts import GAP, MEGABYTES
from fedsparse.report.figures.cluster_map import cluster_map
from fedsparse.report.figures.error_scaling import scaling_figure
from fedsparse.report.figures.method_comparison import comparison, costs, has_untuned, untuned
from fedsparse.report.figures.settings_grid import grid_figure, has_grid
from fedsparse.report.final_runs import finished
from fedsparse.report.network import Network
from fedsparse.report.pictures import Chart, save_picture
from fedsparse.research.experiments.experiment_tables import Tables

__all__ = ["figures", "save_picture"]

CLUSTERED = {"e2006": 1, "rcv1": 2}
"""Experiments whose clusters the paper draws, and the numbers of those figures."""


def figures(tables: Tables, network: Network | None = None) -> dict[str, Chart]:
    """Draw every figure the tables have rows for, by the name of its file.

    Figures 1 to 5 are the paper's: clusters of the text data, the grid of settings, and the
    algorithms compared on simulations and on real data. Figures 6 to 9 are ours: time on a
    network, errors against the theory's rates, bytes sent, and the adaptive server step beside
    FedSplice.

    Parameters
    ----------
    tables
        What was measured.
    network
        For the estimated times; the paper's delay of 150 ms, and 10 Mbit/s, by default.

    Examples
    --------
    >>> import polars as pl
    >>> results = pl.DataFrame({
    ...     "experiment": "simulation-1", "seed": 0, "stage": "final", "algorithm": "Fed-HT",
    ...     "server": "plain", "local_steps": 5, "step_size": 0.1, "diverged": False,
    ...     "round": [0, 1], "iterations": [0, 5], "objective": [8.0, 2.0], "nonzeros": [0, 20],
    ...     "bytes_down": [0, 900], "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> experiments = pl.DataFrame({
    ...     "experiment": ["simulation-1"], "title": ["Simulation I"], "stand_in": [""],
    ...     "loss": ["squared"], "sparsity": [20], "rounds": [1], "samples": [1000],
    ...     "width": [100], "clients": [10], "samples_mean": [100.0], "samples_sd": [0.0],
    ...     "paper_mean": [None], "paper_sd": [None]})
    >>> list(figures(Tables(results, experiments)))
    ['figure-4-simulations', 'figure-6-network-time', 'figure-8-bytes']
    """
    return {
        **_cluster_maps(tables),
        **_grids(tables),
        **_comparisons(tables, network or Network()),
        **_scaling(tables),
    }


def _cluster_maps(tables: Tables) -> dict[str, Chart]:
    mapped = set() if tables.clusters.is_empty() else set(tables.clusters["experiment"])
    return {
        f"figure-{number}-{experiment}-clusters": cluster_map(tables, experiment)
        for experiment, number in CLUSTERED.items()
        if experiment in mapped
    }


def _grids(tables: Tables) -> dict[str, Chart]:
    return {
        f"figure-3-{experiment}": grid_figure(tables, experiment)
        for experiment in tables.names()
        if has_grid(tables, experiment)
    }


def _comparisons(tables: Tables, network: Network) -> dict[str, Chart]:
    compared = finished(tables)
    if not compared:
        return {}
    simulations = [name for name in compared if name.startswith("simulation")]
    real = [name for name in compared if name not in simulations]
    drawn: dict[str, Chart] = {}
    if simulations:
        drawn["figure-4-simulations"] = comparison(tables, simulations, "Simulations")
    if real:
        drawn["figure-5-real-data"] = comparison(tables, real, "Real data", GAP)
    drawn["figure-6-network-time"] = costs(
        tables,
        compared,
        lambda name: network.axis(tables.clients(name)),
        f"Time on a network: {network.delay:g} ms a round, {network.bandwidth:g} Mbit/s per client",
    )
    drawn["figure-8-bytes"] = costs(tables, compared, lambda _: MEGABYTES, "Data sent")
    beyond = [name for name in compared if has_untuned(tables, name)]
    if beyond:
        drawn["figure-9-adaptive-and-fedsplice"] = untuned(
            tables, beyond, "Nothing tuned: adaptive server step, and FedSplice"
        )
    return drawn


def _scaling(tables: Tables) -> dict[str, Chart]:
    return {} if tables.scaling.is_empty() else {"figure-7-theory-scaling": scaling_figure(tables)}
