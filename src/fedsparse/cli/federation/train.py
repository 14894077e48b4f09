"""``fedsparse federation train``: trains on the sites that are connected."""

from pathlib import Path
from typing import Annotated

import typer

from fedsparse.cli.federation.flower_options import (
    DEFAULT_FOLDER,
    DEFAULT_PORT,
    OUTCOME,
    Folder,
    Insecure,
    Port,
    folder_of_server,
    need_flower,
)
from fedsparse.cli.fit import check_out, end_with, print_fit
from fedsparse.cli.options import WithoutFields, offers_settings
from fedsparse.errors import OptionError
from fedsparse.federation.server.conduct import Conduct
from fedsparse.modelling.specification import FitSpecification


@offers_settings
def train(
    folder: Folder = DEFAULT_FOLDER,
    *,
    conduct: Conduct,
    specification: Annotated[FitSpecification, WithoutFields("sparsities", "folds", *OUTCOME)],
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

    Progress is shown as it is made, and every exchange is kept.
    """
    need_flower()
    from fedsparse.federation.server.runs import Address
    from fedsparse.federation.server.submission import submit
    from fedsparse.federation.server.training import Training
    from fedsparse.modelling.summary import FitSummary

    training = Training(
        **dict(specification.anywhere()),
        **dict(conduct),
        out=str(out.absolute()),
        resume=resume,
    )
    _check_results(out, overwrite, resume)
    training.terms()  # refuses options that contradict each other before anything is started
    training.algorithm()
    training.check_sums()
    place = folder_of_server(folder, insecure)
    submit(training, place, Address(port, insecure), tell=typer.echo, resume=resume)
    typer.echo()
    summary = FitSummary.load(out / "fit.json")
    print_fit(summary)
    typer.echo(f"Model:  {out / 'model.json'}\nReport: {out / 'report.html'}")
    end_with(summary)


def _check_results(out: Path, overwrite: bool, resume: bool) -> None:
    """Refuse to lose what an earlier run left behind, finished or not."""
    from fedsparse.federation.server.lock import LOCK, is_locked
    from fedsparse.federation.server.transcript import TRANSCRIPT

    transcript = out / TRANSCRIPT
    if resume:
        if not transcript.is_file() and not is_locked(out / LOCK):
            raise OptionError(
                f"there is no {transcript} to go on from; name the run's folder with --out, or "
                "leave --resume out"
            )
        return
    check_out(out, overwrite)
    if transcript.exists() and not overwrite:
        raise OptionError(
            f"{out} holds a run that was not finished; go on with --resume, begin anew with "
            "--overwrite, or choose another folder with --out"
        )
