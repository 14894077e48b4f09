"""Use an installed fedsparse without any extra, in an empty folder: run, fit, predict, pages."""

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fedsparse as fs

ROWS, WIDTH = 240, 40
RELEVANT = [3, 14, 31]
COMMAND = Path(sys.executable).with_name("fedsparse")


def command(*arguments: str, code: int = 0) -> str:
    """What a command says; it ends with this code and, if that is one of failure, in one line."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    assert code == 0 or done.stderr.count("\n") == 1, done.stderr
    return done.stdout + done.stderr


def refusal(engine: str, data: fs.FederatedData) -> str:
    """Why an engine cannot be opened."""
    try:
        fs.run(fs.FedSplice(3), data, engine=engine)
    except fs.OptionError as error:
        return str(error)
    raise AssertionError(f"{engine} is installed")


def main() -> None:
    """Every step or an error."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, WIDTH))
    y = X[:, RELEVANT] @ [2.0, -1.0, 0.5] + 0.1 * random.standard_normal(ROWS)
    sites = np.arange(ROWS) % 4
    data = fs.FederatedData.from_clients(
        [(X[sites == site], y[sites == site]) for site in range(4)]
    )
    assert np.flatnonzero(fs.run(fs.FedSplice(3), data).coef).tolist() == RELEVANT
    for extra in ("ray", "torch"):
        assert f"pip install 'fedsparse[{extra}]'" in refusal(extra, data)

    header = ",".join(["site", *(f"c{place}" for place in range(WIDTH)), "ill"])
    rows = [
        ",".join([f"s{site}", *map(str, row.round(4)), "yes" if target > 0 else "no"])
        for site, row, target in zip(sites, X, y, strict=True)
    ]
    Path("t.csv").write_text("\n".join([header, *rows]))
    assert fs.__version__ in command("--version")
    command("inspect", "t.csv", "--target", "ill", "--site", "site")
    command("fit", "t.csv", "--target", "ill", "--site", "site", "--out", "m", "--stability", "10")
    command("predict", "m", "t.csv", "--out", "p.csv")
    command("evaluate", "m", "t.csv", "--site", "site")
    command("report", "m", "--forest", "forest.png")
    assert Path("forest.png").read_bytes().startswith(b"\x89PNG")
    assert "pip install 'fedsparse[flower]'" in command("federation", "join", "a", code=2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        main()
    print(f"fedsparse {fs.__version__} on Python {sys.version.split()[0]} does all it should")
