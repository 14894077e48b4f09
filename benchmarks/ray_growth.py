"""Rounds and memory with clients on a Ray cluster, beside one process: ``ray_growth [CLIENTS]``.

Every side is a process of its own, one after the other, with the same shards: 10 rows a client,
20 values a row, d = 10⁴, made from their number where they are needed. Seconds of processors
are told beside those of the clock, for machines that others use, too.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np

import fedsparse as fs
from benchmarks.measured import in_own_process, peak_bytes
from benchmarks.problems import sparse_rows
from benchmarks.tables import show
from fedsparse.engines.ray_engine import RayEngine
from fedsparse.engines.ray_worker import Shard

PER_SHARD, ROWS, WIDTH, PER_ROW = 10_000, 10, 10_000, 20
ROUNDS, TAU, STEPS = 5, 200, 5
SIDES = ("local, 1 thread", "Ray, 1 worker", "local, 2 threads", "Ray, 2 workers")
ALGORITHM = fs.FedIterHT(TAU, local_steps=STEPS, step_size=1.0)


def shard(path):
    """A shard from its number."""
    random = np.random.default_rng(int(path.name))
    rows = PER_SHARD * ROWS
    matrix, y = sparse_rows(random, rows, WIDTH, PER_ROW), random.random(rows) < 0.5
    first = int(path.name) * PER_SHARD
    sites = np.repeat([f"client {first + place:09}" for place in range(PER_SHARD)], ROWS)
    return Shard(fs.FederatedData.from_table(matrix, y.astype(float), sites))


def paths_of(clients):
    return [Path(str(number)) for number in range(clients // PER_SHARD)]


def timed_run(engine, processor_seconds):
    """Seconds of a round by the clock and of processors, without the first two, and the result."""
    marks = []

    def on_round(record):
        marks.append((record.seconds, processor_seconds()))

    result = fs.run(ALGORITHM, engine, rounds=ROUNDS, on_round=on_round)
    spent = np.diff(np.array(marks), axis=0)[2:]
    told = hashlib.sha256(result.coef.tobytes()).hexdigest()[:16]
    return {"clock": float(np.median(spent[:, 0])), "cpu": float(np.mean(spent[:, 1])), "x": told}


def measure_local(clients, threads):
    data = fs.FederatedData.joined([shard(path).data for path in paths_of(clients)])
    engine = fs.LocalEngine(data, "logistic", threads)
    found = timed_run(engine, time.process_time)
    return found | {"memory": [peak_bytes()]} | parts_of_a_round(engine)


def parts_of_a_round(engine):
    """Processor seconds of working answers out, and of adding them up."""
    state = ALGORITHM.start(engine.shape, 0, engine.lens.loss)
    state = state.step(np.where(np.arange(WIDTH) < TAU, 0.1, 0.0), 1)
    ask = engine.ask(ALGORITHM.request(state))
    began = time.process_time()
    ((prepared, _),) = engine.by_lens([ask])
    told = prepared.told(ask)
    worked_out = time.process_time()
    fs.Answers.of(*told)
    return {"answering": worked_out - began, "adding": time.process_time() - worked_out}


def measure_ray(clients, workers):
    engine = RayEngine.from_shards(paths_of(clients), shard, "logistic", workers=workers, threads=1)

    def processor_seconds():
        return time.process_time() + sum(own.processor_seconds for own in engine.workers())

    found = timed_run(engine, processor_seconds)
    found["memory"] = [own.most_memory for own in engine.workers()]
    found["message"] = seconds_of_a_message(engine)
    engine.close()
    return found


def seconds_of_a_message(engine):
    """What an exchange takes that hardly asks for anything: one client's gradient."""
    ask = engine.ask(fs.Gradient(np.zeros(WIDTH)), which=np.array([0]))
    spent = []
    for _ in range(30):
        began = time.perf_counter()
        engine.exchange([ask])
        spent.append(time.perf_counter() - began)
    return min(spent)


def measure(side, clients):
    kind, _, count = side.partition(", ")
    number = int(count.split()[0])
    return (measure_local if kind == "local" else measure_ray)(clients, number)


def main(clients="100000"):
    clients = int(clients)
    found = {side: in_own_process("benchmarks.ray_growth", side, clients) for side in SIDES}
    one = found[SIDES[0]]
    assert len({own["x"] for own in found.values()}) == 1, "not the same bits"
    show(
        f"{clients:,} clients of {ROWS} rows, {PER_ROW} values a row, d = {WIDTH:,}: FedIterHT, "
        f"K = {STEPS}; the same bits on all",
        ["side", "seconds a round", "× one thread", "processor seconds", "most memory [GB]"],
        [
            (
                side,
                f"{own['clock']:.2f}",
                f"{one['clock'] / own['clock']:.2f}",
                f"{own['cpu']:.2f}",
                " + ".join(f"{bytes_ / 1e9:.2f}" for bytes_ in own["memory"]),
            )
            for side, own in found.items()
        ],
    )
    messages = [found[f"Ray, {count}"]["message"] for count in ("1 worker", "2 workers")]
    on_paper(clients, one["answering"], one["adding"], *messages)


def on_paper(clients, answering, adding, of_one, of_two):
    """Answering is shared out; adding is not, and every further worker is one more hop."""
    hop = max(of_two - of_one, 0.0)
    print(
        f"\nA round of one thread: {answering:.2f} s of answering, {adding:.3f} s of adding. "
        f"A message to one worker takes {of_one * 1e3:.1f} ms, to two {of_two * 1e3:.1f} ms."
    )
    rows = []
    for workers in (1, 2, 10, 100):
        seconds = answering / workers + adding + of_one + (workers - 1) * hop
        speedup = (answering + adding) / seconds
        share = clients * ROWS * PER_ROW * 12 / workers / 1e9
        sums = 2 * 8 * WIDTH * workers / 1e6
        rows.append((workers, f"{seconds:.3f}", f"{speedup:.1f}", f"{share:.2f}", f"{sums:.2f}"))
    show(
        "On paper: answering / W + adding + messages",
        ["workers of one thread", "seconds a round", "× one thread", "rows each [GB]", "sums [MB]"],
        rows,
    )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
