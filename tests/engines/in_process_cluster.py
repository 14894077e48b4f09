"""Workers of a cluster in this process; what they say to each other is real."""

import pickle

from fedsparse.engines.ray_worker import RayWorker


def handed_over(told):
    """A copy that cannot be written to, as Ray hands things over."""
    buffers = []
    written = pickle.dumps(told, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(written, buffers=[bytes(buffer) for buffer in buffers])


class InProcessCluster:
    """Has the methods of `RayCluster`. A worker that is killed loses all but its rows."""

    nodes = (2,)

    def __init__(self, address=None, cores=1):
        self.workers = []

    def start(self, rows, threads):
        self.rows = rows
        self.workers = [RayWorker(n, len(rows), handed_over(own)) for n, own in enumerate(rows)]

    def kill(self, worker):
        self.workers[worker] = RayWorker(worker, len(self.rows), handed_over(self.rows[worker]))

    def __len__(self):
        return len(self.workers)

    def put(self, told):
        return handed_over(told)

    def ask(self, worker, method, *arguments, **options):
        return handed_over(getattr(self.workers[worker], method)(*arguments, **options))

    def wait_for(self, refs):
        return refs

    def close(self):
        self.workers = []
