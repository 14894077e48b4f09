"""``fedsparse federation train``: trains on the sites that are connected."""

from pathlib import Path
from typing import Annotated

import click
import typer

from fedsparse.cli.federation.flower import (
    DEFAULT_FOLDER,
    DEFAULT_PORT,
    Folder,
    Insecure,
    Port,
    folder_of_server,
    need_flower,
)
from fedsparse.cli.fit import check_out, print_fit
from fedsparse.cli.options import Category, Drop, Impute, Keep, MinimumRows, Task
from fedsparse.errors import OptionError


def train(
    sparsity: Annotated[
        int,
        typer.Option("--sparsity", "--features", min=1, help="τ: most features the model may use."),
    ],
    sites: Annotated[int, typer.Option(min=1, help="How many sites to wait for.")],
    folder: Folder = DEFAULT_FOLDER,
    rounds: Annotated[int, typer.Option(min=1, help="Most communication rounds.")] = 100,
    task: Task = "auto",
    drop: Drop = None,
    category: Category = None,
    keep: Keep = None,
    impute: Impute = "no",
    minimum_rows: MinimumRows = 5,
    standardize: Annotated[
        bool, typer.Option(help="Scale columns by means and deviations of all sites.")
    ] = True,
    intercept: Annotated[bool, typer.Option(help="Give the model an intercept.")] = True,
    l2: Annotated[
        float | None,
        typer.Option(min=0.0, help="Weight of the ℓ2 term; by default set by the number of rows."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            click_type=click.Choice(["auto", "FedSplice", "FedIterHT", "FedHT", "DistributedIHT"]),
            help="Algorithm; the default takes fewest rounds.",
        ),
    ] = "auto",
    local_steps: Annotated[int, typer.Option(min=1, help="K: steps of a site a round.")] = 10,
    step_size: Annotated[
        float, typer.Option(min=0.0, help="γ; 0 for one that suits all sites.")
    ] = 0.0,
    batch_size: Annotated[
        int, typer.Option(min=0, help="Rows of a mini-batch; 0 for all rows.")
    ] = 0,
    weights: Annotated[
        str,
        typer.Option(
            click_type=click.Choice(["uniform", "samples"]),
            help="Whether sites or their rows count the same.",
        ),
    ] = "samples",
    server_step: Annotated[
        str,
        typer.Option(
            click_type=click.Choice(["average", "extrapolated", "adaptive"]),
            help="How far the server moves.",
        ),
    ] = "average",
    seed: Annotated[int, typer.Option(min=0, help="Fixes mini-batches.")] = 0,
    evaluate_every: Annotated[
        int, typer.Option(min=1, help="Rounds between two looks at the objective.")
    ] = 10,
    min_sites: Annotated[
        int, typer.Option(min=0, help="Fewest sites to go on with; 0 for all.")
    ] = 0,
    if_absent: Annotated[
        str,
        typer.Option(
            click_type=click.Choice(["continue", "wait"]),
            help="Go on without an absent site, or wait for it.",
        ),
    ] = "continue",
    round_seconds: Annotated[
        float, typer.Option(min=1.0, help="Seconds after which a site counts as absent.")
    ] = 120.0,
    longest_wait: Annotated[
        float, typer.Option(min=1.0, help="Seconds after which a run gives up waiting.")
    ] = 3600.0,
    title: Annotated[str, typer.Option(help="Title of the report.", show_default=False)] = "",
    out: Annotated[Path, typer.Option(help="Folder for model.json and report.html.")] = Path(
        "trained"
    ),
    overwrite: Annotated[bool, typer.Option(help="Replace a model already there.")] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Follow the run that writes to the folder, or go on where it ended."
        ),
    ] = False,
    port: Port = DEFAULT_PORT,
    insecure: Insecure = False,
) -> None:
    """Train on the server's machine, and write model.json and report.html.

    Progress is shown as it is made, and saved every round.
    """
    need_flower()
    from fedsparse.engines.flower.server.runs import Address
    from fedsparse.engines.flower.server.submission import submit
    from fedsparse.engines.flower.server.training import Training
    from fedsparse.models import FitSummary

    options = {
        name: value
        for name, value in locals().items()
        if name in Training.model_fields and value is not None
    }
    training = Training.from_run_config({**options, "out": str(out.absolute())})
    _check_results(out, overwrite, resume)
    training.terms()  # refuses options that contradict each other before anything is started
    training.algorithm()
    training.conduct()
    place = folder_of_server(folder, insecure)
    submit(training, place, Address(port, insecure), tell=typer.echo)
    typer.echo()
    print_fit(FitSummary.load(out / "fit.json"))
    typer.echo(f"Model:  {out / 'model.json'}\nReport: {out / 'report.html'}")


def _check_results(out: Path, overwrite: bool, resume: bool) -> None:
    """Refuse to lose what an earlier run left behind, finished or not."""
    from fedsparse.engines.flower.server.lock import LOCK, is_locked
    from fedsparse.engines.flower.server.outcome import CHECKPOINT

    checkpoint = out / CHECKPOINT
    if resume:
        if not checkpoint.is_file() and not is_locked(out / LOCK):
            raise OptionError(
                f"there is no {checkpoint} to go on from; name the run's folder with --out, or "
                "leave --resume out"
            )
        return
    check_out(out, overwrite)
    if checkpoint.exists() and not overwrite:
        raise OptionError(
            f"{out} holds a run that was not finished; go on with --resume, begin anew with "
            "--overwrite, or choose another folder with --out"
        )
