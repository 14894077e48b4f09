"""Sites with times and counts, and a server that may ask them anything."""

import numpy as np
import polars as pl

import fedsparse as fs
from fedsparse.federation.sites.policy import Policy
from fedsparse.federation.sites.site import Site
from fedsparse.federation.sites.site_tables import NamedTable
from tests.attacks.victims import Server

TIME, EVENT = "months", "died"


def survivors(rows, width, seed=0):
    """Columns, and times that depend on the first; below 0 if censored."""
    random = np.random.default_rng(seed)
    Z = random.standard_normal((rows, width))
    times, ends = random.exponential(20 * np.exp(-0.5 * Z[:, 0])), random.uniform(5, 60, rows)
    return Z, np.where(times <= ends, times, -ends)


def survival_server(Z, signed, **policy):
    columns = {f"gene {place}": own for place, own in enumerate(Z.T)}
    frame = pl.DataFrame({**columns, TIME: np.abs(signed), EVENT: (signed > 0).astype(int)})
    table = NamedTable(frame, TIME, event=EVENT)
    site = Site("bari", table, Policy(open_sums=True, **policy), threads=1)
    server = Server(site, Z.shape[1], fs.Cox(l2=0.1), intercept=0.0)
    server.agree(task="survival", target=TIME, event=EVENT, classes=None)
    return server


def counts_server(Z, counts, **policy):
    columns = {f"gene {place}": own for place, own in enumerate(Z.T)}
    table = NamedTable(pl.DataFrame({**columns, "falls": counts}), "falls")
    site = Site("bari", table, Policy(open_sums=True, **policy), threads=1)
    server = Server(site, Z.shape[1], fs.Poisson(l2=0.1))
    server.agree(task="counts", target="falls", classes=None)
    return server
