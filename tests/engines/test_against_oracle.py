"""Every algorithm against the plain NumPy oracle: every loss, storage and weighting."""

import numpy as np
import pytest

import fedsparse as fs
from tests import oracle
from tests.builders import LOSS_OBJECTS, LOSSES, STORAGES, clients_for, federate

ROUNDS = 6
TAU = 5


def halving(round):
    return 0.2 * 0.5**round


# name, options of ours, options of the oracle. A new algorithm is one row.
FEDERATED = [
    ("FedHT", {"local_steps": 4}, {}),
    ("FedIterHT", {"local_steps": 4}, {}),
    ("DistributedIHT", {}, {}),
    ("FedAvg", {"local_steps": 4}, {}),
    ("FedProx", {"local_steps": 4, "proximal": 0.5}, {}),
]
VARIANTS = {
    "plain": ({}, {}),
    "auto step": ({"step_size": "auto"}, {}),
    "schedule": ({"step_size": halving}, {}),
    "mini-batch": ({"batch_size": 4}, {"batch": 4}),
    "growing batch": ({"batch_size": fs.GrowingBatch(2, 1.5)}, {"growing": (2, 1.5)}),
    "variance reduction": ({"batch_size": 4, "variance_reduction": True}, {"batch": 4}),
    "snapshot of 3 rounds": ({"batch_size": 4, "variance_reduction": 3}, {"batch": 4}),
    "server step 0.7": ({"server_step": 0.7}, {}),
    "extrapolated": ({"server_step": "extrapolated"}, {}),
    "two clients a round": ({"clients_per_round": 2}, {}),
    "given weights": ({"weights": (0.1, 0.2, 0.3, 0.4)}, {}),
}
ONLY_OURS = ("batch_size",)


def both(name, loss, storage, options, oracle_options, clients=None):
    """Final coefficients and objective: ours, then the oracle's."""
    clients = clients or clients_for(loss)
    options = {"step_size": 0.1} | options
    if name not in ("FedAvg", "FedProx"):
        options["sparsity"] = TAU
    l2 = LOSS_OBJECTS[loss].l2
    result = fs.run(
        getattr(fs, name)(**options),
        federate(clients, storage),
        loss=LOSS_OBJECTS[loss],
        rounds=ROUNDS,
        seed=11,
        threads=1,
    )
    shared = {key: value for key, value in options.items() if key not in ONLY_OURS}
    expected = oracle.run(
        name, clients, loss=loss, rounds=ROUNDS, l2=l2, seed=11, **shared, **oracle_options
    )[-1]
    objective = oracle.objective(clients, expected, loss, l2, options.get("weights", "uniform"))
    return result, expected, objective


def assert_agrees(result, expected, objective):
    assert not result.diverged
    np.testing.assert_allclose(result.coef, expected, rtol=0, atol=1e-9)
    assert result.objective == pytest.approx(objective, abs=1e-9)


@pytest.mark.parametrize("weights", ["uniform", "samples"])
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("name", "options", "oracle_options"), FEDERATED)
def test_algorithm_equals_the_oracle(name, options, oracle_options, loss, storage, weights):
    options = options | {"weights": weights}
    assert_agrees(*both(name, loss, storage, options, oracle_options))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("name", "options", "oracle_options"), FEDERATED)
def test_variant_equals_the_oracle(name, options, oracle_options, loss, storage, variant):
    ours, theirs = VARIANTS[variant]
    assert_agrees(*both(name, loss, storage, options | ours, oracle_options | theirs))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("name", "options", "oracle_options"),
    [
        ("GDHT", {}, {}),
        ("SGDHT", {"batch_size": 7}, {"batch": 7}),
        ("HSGHT", {"batch_size": fs.GrowingBatch(3, 1.4)}, {"growing": (3, 1.4)}),
        ("SVRGHT", {"batch_size": 5, "local_steps": 6}, {"batch": 5}),
    ],
)
def test_centralized_preset_equals_the_oracle(name, options, oracle_options, loss, storage):
    pooled = clients_for(loss, rows=(40,))
    assert_agrees(*both(name, loss, storage, options, oracle_options, pooled))


SCAFFOLD = {"rounds": 5, "local_steps": 4, "step_size": 0.1}
ASYNC = {"rounds": 14, "step_size": 0.1, "clients_per_round": 2, "updates": 5}
# algorithm, its options, the oracle's function, its options; a rival is one row.
RIVALS = {
    "GraSP": (fs.GraSP, {}, oracle.grasp, {"iterations": 3}, 6),
    "GraSP, debiased": (fs.GraSP, {"debias": True}, oracle.grasp, {"iterations": 3}, 6),
    "ScaffoldHT": (fs.ScaffoldHT, {}, oracle.scaffold, SCAFFOLD, 5),
    "ScaffoldHT, H_τ at clients": (
        fs.ScaffoldHT, {"thresholds_locally": True}, oracle.scaffold, SCAFFOLD, 5,
    ),
    "ScaffoldHT, extrapolated": (
        fs.ScaffoldHT, {"server_step": "extrapolated"}, oracle.scaffold, SCAFFOLD, 5,
    ),
    "ScaffoldHT, mini-batches": (
        fs.ScaffoldHT, {"batch_size": 4}, oracle.scaffold, SCAFFOLD | {"batch": 4}, 5,
    ),
    "AsyncSVRGHT": (fs.AsyncSVRGHT, {"staleness": 3}, oracle.async_svrg, ASYNC, 14),
    "AsyncSVRGHT, never late": (fs.AsyncSVRGHT, {"staleness": 0}, oracle.async_svrg, ASYNC, 14),
    "AsyncSVRGHT, mini-batches": (
        fs.AsyncSVRGHT, {"staleness": 3, "batch_size": 4}, oracle.async_svrg,
        ASYNC | {"batch": 4}, 14,
    ),
}  # fmt: skip
NOT_OPTIONS = ("rounds", "iterations", "batch")


@pytest.mark.parametrize("weights", ["uniform", (0.1, 0.2, 0.3, 0.4)], ids=str)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", RIVALS)
def test_rival_equals_the_oracle(name, loss, storage, weights):
    kind, own, reference, shared, rounds = RIVALS[name]
    shared = shared | {"sparsity": TAU, "weights": weights}
    options = own | {key: value for key, value in shared.items() if key not in NOT_OPTIONS}
    clients, l2 = clients_for(loss), LOSS_OBJECTS[loss].l2
    result = fs.run(
        kind(**options),
        federate(clients, storage),
        loss=LOSS_OBJECTS[loss],
        rounds=rounds,
        seed=11,
        threads=1,
    )
    theirs = {key: value for key, value in own.items() if key not in ONLY_OURS} | shared
    if reference is not oracle.grasp:
        theirs["seed"] = 11
    expected = reference(clients, loss=loss, l2=l2, **theirs)
    assert_agrees(result, expected, oracle.objective(clients, expected, loss, l2, weights))


@pytest.mark.parametrize("storage", STORAGES)
def test_pursuits_of_least_squares_equal_the_oracle(storage):
    clients, options = clients_for("squared"), {"iterations": 3, "sparsity": TAU, "l2": 0.05}
    expected = {
        fs.CoSaMP(TAU): oracle.grasp(clients, loss="squared", **options),
        fs.HTP(TAU, step_size=0.2): oracle.htp(clients, step_size=0.2, **options),
    }
    for algorithm, x in expected.items():
        data, loss = federate(clients, storage), LOSS_OBJECTS["squared"]
        result = fs.run(algorithm, data, loss=loss, rounds=6)
        assert_agrees(result, x, oracle.objective(clients, x, "squared", 0.05))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["FedHT", "FedIterHT"])
def test_clients_too_large_for_cache_blocks_equal_the_oracle(name, loss):
    """More than 2^17 entries a client: rows are used instead of columns or Gram matrices."""
    clients = clients_for(loss, rows=(300, 260), width=520, density=0.02)
    assert_agrees(*both(name, loss, "dense", {"local_steps": 3}, {}, clients))


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("name", ["FedHT", "FedIterHT", "DistributedIHT"])
def test_float32_data_are_computed_in_float64(name, storage):
    rounded = [(Z.astype(np.float32).astype(float), y) for Z, y in clients_for("squared")]
    options = {"step_size": 0.1, "sparsity": TAU}
    if name != "DistributedIHT":
        options["local_steps"] = 4
    result = fs.run(
        getattr(fs, name)(**options),
        federate(rounded, storage, np.float32),
        loss=LOSS_OBJECTS["squared"],
        rounds=ROUNDS,
    )
    expected = oracle.run(name, rounded, loss="squared", l2=0.05, rounds=ROUNDS, **options)[-1]
    np.testing.assert_allclose(result.coef, expected, rtol=0, atol=1e-9)


def test_negative_shrink_factors_do_not_upset_lazy_steps():
    """γλ > 1 flips the sign of the lazily kept factor every step; γλ = 1 makes it zero."""
    clients = clients_for("logistic")
    for step_size in (1.0, 1.5):
        loss = fs.Logistic(l2=1.0)
        options = {"sparsity": TAU, "local_steps": 4, "step_size": step_size}
        result = fs.run(
            fs.FedHT(batch_size=4, **options), federate(clients, "csr"), loss=loss, rounds=ROUNDS
        )
        expected = oracle.run(
            "FedHT", clients, loss="logistic", l2=1.0, rounds=ROUNDS, batch=4, **options
        )[-1]
        np.testing.assert_allclose(result.coef, expected, rtol=0, atol=1e-9)


def test_wide_rows_whose_columns_far_outnumber_the_support_equal_the_oracle():
    """The clients look the support up in their columns instead of reading x at all of them."""
    clients = clients_for("logistic", rows=(40, 35), width=600, density=0.1)
    for name in ("FedHT", "FedIterHT"):
        options = {"sparsity": 3, "local_steps": 3, "step_size": 0.5}
        result = fs.run(
            getattr(fs, name)(**options),
            federate(clients, "csr"),
            loss=LOSS_OBJECTS["logistic"],
            rounds=ROUNDS,
        )
        expected = oracle.run(name, clients, loss="logistic", l2=0.05, rounds=ROUNDS, **options)
        np.testing.assert_allclose(result.coef, expected[-1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("rows", [(6, 8), (300, 260)])
def test_ties_between_equal_columns_go_to_the_lower_index(rows, storage):
    """Every column stands there twice, so that H_τ with an odd τ always meets a tie."""
    half = clients_for("squared", rows=rows, width=260, density=0.05)
    clients = [(np.hstack([Z, Z]), y) for Z, y in half]
    options = {"sparsity": 7, "local_steps": 3, "step_size": 0.05}
    result = fs.run(
        fs.FedIterHT(**options), federate(clients, storage), loss="squared", rounds=ROUNDS
    )
    expected = oracle.run("FedIterHT", clients, loss="squared", rounds=ROUNDS, **options)[-1]
    np.testing.assert_allclose(result.coef, expected, rtol=0, atol=1e-9)
    assert np.count_nonzero(result.coef) == 7


@pytest.fixture(scope="module", params=["Simulation I", "ten clients of Simulation II"])
def simulation(request):
    """Of the paper's size: data, the loss with its λ, and the clients for the oracle."""
    if request.param == "Simulation I":
        data, loss = fs.datasets.simulation_1(), fs.SquaredError()
    else:
        data, loss = fs.datasets.simulation_2(clients=10), fs.Logistic(l2=1e-4)
    parts = [data.client(client) for client in range(len(data))]
    return data, loss, [(part.features, part.targets) for part in parts]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("DistributedIHT", {"step_size": 0.01}),
        ("FedHT", {"step_size": 0.001, "local_steps": 3}),
        ("FedIterHT", {"step_size": 0.001, "local_steps": 3}),
    ],
)
def test_the_first_rounds_of_a_simulation_agree_to_nine_digits(simulation, name, options):
    data, loss, clients = simulation
    kind = "squared" if isinstance(loss, fs.SquaredError) else "logistic"
    result = fs.run(getattr(fs, name)(200, **options), data, loss=loss, rounds=4)
    expected = oracle.run(name, clients, loss=kind, l2=loss.l2, rounds=4, sparsity=200, **options)[
        -1
    ]
    np.testing.assert_allclose(result.coef, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    objective = oracle.objective(clients, expected, kind, loss.l2, "uniform")
    assert result.objective == pytest.approx(objective, rel=1e-9)
