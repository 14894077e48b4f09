"""The app of a federation whose conversations are held one after the other, to compare with.

``benchmarks lockstep`` has the server run it in place of `fedsparse.federation.app`.
"""

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsparse.federation import app
from fedsparse.modelling import analysis, choosing, judging, stability

server = ServerApp()


def one_by_one(conversations):
    """In place of `fedsparse.engines.conversation.together`."""
    results = []
    for conversation in conversations:
        results.append((yield from conversation))
    return results


@server.main()
def main(grid: Grid, context: Context) -> None:
    """The same analysis, without lockstep."""
    for module in (analysis, choosing, judging, stability):
        module.together = one_by_one
    app.main(grid, context)
