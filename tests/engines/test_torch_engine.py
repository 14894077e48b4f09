"""What is particular to the torch engine: devices, memory, batches, precision."""

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.engines import torch_engine
from tests.builders import LOSS_OBJECTS, STORAGES, clients_for, federate

torch = pytest.importorskip("torch")
from fedsparse.compute.on_device import device_rows, device_steps  # noqa: E402
from fedsparse.engines import batches  # noqa: E402

ALGORITHMS = [
    fs.FedIterHT(5, local_steps=steps, step_size=size)
    for steps in (2, 4)
    for size in (0.1, 0.3, 0.05)
]


def runs(engine, rounds=3):
    return [own.coef for own in fs.run_together(ALGORITHMS, engine, rounds=rounds)]


def expected(data):
    local = fs.LocalEngine(data, LOSS_OBJECTS["logistic"])
    return [fs.run(own, local, rounds=3).coef for own in ALGORITHMS]


@pytest.fixture(params=STORAGES)
def data(request):
    return federate(clients_for("logistic"), request.param)


@pytest.fixture
def engine(data):
    opened = fs.TorchEngine(data, LOSS_OBJECTS["logistic"], device="cpu")
    yield opened
    opened.close()


def test_without_torch_the_extra_is_named(data, monkeypatch):
    monkeypatch.setattr(torch_engine, "find_spec", lambda name: None)
    with pytest.raises(fs.OptionError, match=r"pip install 'fedsparse\[torch\]'"):
        fs.run(fs.FedAvg(), data, engine="torch")


@pytest.mark.parametrize("device", ["quantum", "meta"])
def test_a_device_that_nobody_knows_is_refused(data, device):
    with pytest.raises(fs.OptionError, match=f"'{device}'"):
        fs.run(fs.FedAvg(), data, engine="torch", device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named_with_the_way_out(data):
    with pytest.raises(fs.OptionError, match="no GPU that torch can use here; use device='cpu'"):
        fs.run(fs.FedAvg(), data, engine="torch", device="cuda")


def test_clients_share_a_block_as_far_as_padding_costs_nothing(data, monkeypatch):
    sizes = np.array([3, 20, 4, 19]), np.full(4, 10)
    assert [own.tolist() for own in device_rows._groups(*sizes, 0)] == [[1, 3], [2, 0]]
    assert [own.tolist() for own in device_rows._groups(*sizes, 500)] == [[1, 3, 2, 0]]
    monkeypatch.setattr(device_rows.DeviceRows, "_spare", 10**6)
    engine = fs.TorchEngine(data, LOSS_OBJECTS["logistic"], device="cpu")
    for own, other in zip(runs(engine), expected(data), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-9, atol=1e-12)
    engine.close()


def test_an_unknown_precision_is_refused(data):
    with pytest.raises(fs.OptionError, match="precision must be 'float64' or 'float32'"):
        fs.TorchEngine(data, "logistic", "cpu", precision="float16")


def test_models_in_lockstep_share_one_pass(engine, monkeypatch):
    asked = []
    plain = batches.local_steps

    def counted(rows, steps, which, workers):
        asked.append(len(steps.plans))
        return plain(rows, steps, which, workers)

    monkeypatch.setattr(batches, "local_steps", counted)
    runs(engine)
    assert asked == [len(ALGORITHMS)] * 3


def test_where_memory_does_not_do_fewer_are_worked_on_at_a_time(data, engine, monkeypatch):
    """First fewer clients, then fewer models; what comes of it is the same."""
    plain, rooms, models = batches.local_steps, [], []

    def short_of_memory(rows, asked, which, workers):
        told = plain(rows, asked, which, workers)
        rooms.append(rows.room)
        if rows.room > rows.needed or len(asked.plans) > 2:
            raise torch.OutOfMemoryError("no memory")
        models.append(len(asked.plans))
        return told

    monkeypatch.setattr(batches, "local_steps", short_of_memory)
    found = runs(engine)
    assert rooms[0] > rooms[-1]
    assert set(models) <= {1, 2}
    for own, other in zip(found, expected(data), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-12)


def test_one_client_and_model_too_large_for_memory_are_refused(engine, monkeypatch):
    def out_of_memory(rows, asked, which, workers):
        rows.parts(which, lambda height, width: 5_000_000_000)
        raise torch.OutOfMemoryError("no memory")

    monkeypatch.setattr(batches, "local_steps", out_of_memory)
    with pytest.raises(fs.OptionError, match=r"one client and one model take 5\.0 GB"):
        fs.run(ALGORITHMS[0], engine, rounds=1)


def test_rows_that_do_not_stay_written_out_are_written_when_needed(monkeypatch):
    monkeypatch.setattr(device_rows, "_KEPT_ON_PROCESSOR", 0)
    data = federate(clients_for("logistic"), "csr")
    opened = fs.TorchEngine(data, LOSS_OBJECTS["logistic"], device="cpu")
    for own, other in zip(runs(opened), expected(data), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("keep", [(), (3, 23)])
def test_dense_rows_are_thresholded_on_a_device_without_compiled_loops_alike(keep, monkeypatch):
    data = federate(clients_for("softmax"))
    algorithm = fs.FedIterHT(fs.TopKPerClass(5, keep=keep), local_steps=3)
    options = {"loss": LOSS_OBJECTS["softmax"], "rounds": 3}
    local = fs.run(algorithm, data, **options)
    monkeypatch.setattr(device_steps, "_has_compiled_loops", lambda device: False)
    found = fs.run(algorithm, data, engine="torch", device="cpu", **options)
    np.testing.assert_allclose(found.coef, local.coef, rtol=0, atol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
def test_what_is_asked_of_some_clients_is_told_of_these(storage):
    data = federate(clients_for("logistic"), storage)
    engines = [own(data, LOSS_OBJECTS["logistic"]) for own in (fs.LocalEngine, fs.TorchEngine)]
    x = np.linspace(-1.0, 1.0, data.width)
    for request in (fs.Gradient(x), fs.Slopes(x), fs.Slopes(x, units=np.ones(x.size))):
        for weights in ("samples", [0.0, 0.5, 0.0, 0.0]):
            local, own = [
                each.exchange([each.ask(request, weights, np.array([0, 3]))])[0] for each in engines
            ]
            assert (own.count, own.weight, own.bytes_up) == (2, local.weight, local.bytes_up)
            for name, total in local.sums.items():
                np.testing.assert_allclose(own.sums[name], total, rtol=1e-9, atol=1e-12)


def test_float32_is_right_to_about_six_digits(data):
    opened = fs.TorchEngine(data, LOSS_OBJECTS["logistic"], "cpu", precision="float32")
    for own, other in zip(runs(opened), expected(data), strict=True):
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-5)
