"""Run all short benchmarks, or those named: ``python -m benchmarks [speed growth …]``.

``python -m benchmarks rounds [options]`` takes hours and has options of its own; ``python -m
benchmarks federation`` and ``python -m benchmarks lockstep`` need Flower and start servers.
"""

import sys

from benchmarks import clients, genes, growth, messages, objective, reading, speed, startup, wide

BENCHMARKS = {
    "speed": speed.main,
    "growth": growth.main,
    "clients": clients.main,
    "messages": messages.main,
    "startup": startup.main,
    "objective": objective.main,
    "genes": genes.main,
    "wide": wide.main,
    "reading": reading.main,
}


def main() -> int:
    chosen = sys.argv[1:] or list(BENCHMARKS)
    if chosen[0] == "rounds":
        from benchmarks.rounds.command import main as rounds

        rounds(chosen[1:])
        return 0
    if chosen == ["federation"]:
        from benchmarks.federation import main as federation

        federation()
        return 0
    if chosen == ["lockstep"]:
        from benchmarks.lockstep import main as lockstep

        lockstep()
        return 0
    unknown = [name for name in chosen if name not in BENCHMARKS]
    if unknown:
        known = ", ".join([*BENCHMARKS, "rounds", "federation", "lockstep"])
        print(f"unknown benchmark {unknown[0]!r}; there are {known}")
        return 2
    for name in chosen:
        BENCHMARKS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
