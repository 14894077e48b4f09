"""A sparse linear model in plain NumPy, trained by Flower with the strategy FedIter-HT.

Any framework will do: what counts is that clients exchange named arrays, and call
`hard_threshold_arrays` after every local step.
"""

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsparse.federation.strategies import FedIterHT, hard_threshold_arrays

WIDTH, ROWS = 50, 200

server = ServerApp()
client = ClientApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and print which features the model uses."""
    config = context.run_config
    strategy = FedIterHT(sparsity=int(config["sparsity"]), dense=["bias"], fraction_evaluate=0.0)
    start = ArrayRecord({"weight": Array(np.zeros(WIDTH)), "bias": Array(np.zeros(1))})
    result = strategy.start(grid, start, num_rounds=int(config["rounds"]))
    weight = result.arrays["weight"].numpy()
    print("features used:", np.flatnonzero(weight).tolist())


@client.train()
def train(message: Message, context: Context) -> Message:
    """A few gradient steps, each followed by H_τ."""
    rows, targets = _data(context)
    arrays = {name: array.numpy() for name, array in message.content["arrays"].items()}
    config = message.content["config"]
    for _ in range(int(context.run_config["local-steps"])):
        residual = rows @ arrays["weight"] + arrays["bias"] - targets
        step = float(context.run_config["step-size"])
        arrays["weight"] = arrays["weight"] - step * rows.T @ residual / len(rows)
        arrays["bias"] = arrays["bias"] - step * residual.mean(keepdims=True)
        arrays = hard_threshold_arrays(arrays, int(config["sparsity"]), config["dense"])
    content = RecordDict(
        {
            "arrays": ArrayRecord({name: Array(own) for name, own in arrays.items()}),
            "metrics": MetricRecord({"num-examples": len(rows)}),
        }
    )
    return Message(content, reply_to=message)


def _data(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Rows of this client: drawn here, read from its own disk in earnest."""
    random = np.random.default_rng(int(context.node_config.get("partition-id", context.node_id)))
    rows = random.standard_normal((ROWS, WIDTH))
    truth = np.zeros(WIDTH)
    truth[:5] = (3.0, -2.0, 2.0, -1.0, 1.0)
    return rows, rows @ truth + 0.7 + 0.1 * random.standard_normal(ROWS)
