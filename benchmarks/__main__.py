"""Run all short benchmarks, or those named: ``python -m benchmarks [speed growth …]``.

One of the others is run by itself, with options of its own: ``python -m benchmarks killing 10``.
They take long, or need Flower and start servers and sites.
"""

import sys
from importlib import import_module

SHORT = (
    "speed", "growth", "clients", "messages", "startup", "objective", "genes", "dominance", "wide",
    "reading", "answers", "server_algebra",
)  # fmt: skip

OTHERS = {
    "rounds": "rounds.command",
    "classes": "classes",
    "coverage": "coverage",
    "outcomes": "outcomes",
    "correlated": "correlated",
    "tails": "tails",
    "pooled_speed": "pooled_speed",
    "federation": "federation",
    "lockstep": "lockstep",
    "killing": "killing",
    "secure": "secure",
    "secure-analysis": "secure_analysis",
    "secure-load": "secure_load",
    "secure-drops": "secure_drops",
    "secure-exact": "secure_exact",
    "metric_coverage": "metric_coverage",
    "permuted": "permuted",
    "overshoot": "overshoot",
    "torch_lockstep": "torch_lockstep",
    "drift": "drift",
    "readings": "readings",
    "ray_growth": "ray_growth",
}
"""By name, the module whose ``main`` takes what else the command line says."""


def main() -> int:
    chosen = sys.argv[1:] or list(SHORT)
    if chosen[0] in OTHERS:
        import_module(f"benchmarks.{OTHERS[chosen[0]]}").main(*chosen[1:])
        return 0
    unknown = [name for name in chosen if name not in SHORT]
    if unknown:
        print(f"unknown benchmark {unknown[0]!r}; there are {', '.join([*SHORT, *OTHERS])}")
        return 2
    for name in chosen:
        import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
