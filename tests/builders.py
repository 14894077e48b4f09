"""Tiny problems that tests share."""

import numpy as np
from scipy import sparse

import fedsparse as fs
from fedsparse.compute import open_clients
from fedsparse.compute.workers import Workers

LOSSES = ("squared", "logistic", "softmax")
STORAGES = ("dense", "csr")
LOSS_OBJECTS = {
    "squared": fs.SquaredError(l2=0.05),
    "logistic": fs.Logistic(l2=0.05),
    "softmax": fs.Softmax(l2=0.05),
}
CLASSES = 3


def clients_for(loss, *, rows=(5, 9, 30, 6), width=24, density=0.4, seed=0):
    """Dense client pairs: ragged, partly empty columns, labels that fit the loss."""
    random = np.random.default_rng(seed)
    clients = []
    for count in rows:
        Z = random.standard_normal((count, width)) * (random.random((count, width)) < density)
        score = Z[:, :3].sum(axis=1) + 0.3 * random.standard_normal(count)
        if loss == "squared":
            y = score
        elif loss == "logistic":
            y = (score > 0).astype(float)
        else:
            y = np.digitize(score, [-0.4, 0.4]).astype(float)
        clients.append((Z, y))
    if loss == "softmax":
        clients[0][1][:CLASSES] = np.arange(CLASSES)
    return clients


def federate(clients, storage="dense", dtype=np.float64):
    """The same clients as FederatedData."""
    convert = sparse.csr_array if storage == "csr" else np.asarray
    return fs.FederatedData.from_clients([(convert(Z.astype(dtype)), y) for Z, y in clients])


def heavy_tailed(seed):
    """Two logistic clients whose features have outliers: quadratic models mislead there."""
    random = np.random.default_rng(seed)
    truth = np.concatenate([random.standard_normal(4), np.zeros(8)])
    clients = []
    for _ in range(2):
        Z = random.standard_t(1.4, (30, 12))
        y = (random.random(30) < 1 / (1 + np.exp(-np.sign(Z) @ truth))).astype(float)
        y[:2] = 0.0, 1.0
        clients.append((Z, y))
    return clients


def fields_of(request, data, loss, *, which=None, threads=1):
    """What every client answers: below an engine, which tells nothing but sums."""
    workers = Workers(threads)
    try:
        everyone = np.arange(len(data))
        opened = open_clients(data, loss, workers)
        return request.answer(opened, everyone if which is None else np.asarray(which))
    finally:
        workers.close()


def answers_of(request, data, loss, weights="uniform"):
    """Sums over all clients, as an engine tells them."""
    engine = fs.LocalEngine(data, loss, 1)
    (answers,) = engine.exchange([engine.ask(request, weights)])
    return answers
