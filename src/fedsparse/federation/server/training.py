"""The settings of runs at sites, as Flower's run configuration holds them."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field

from fedsparse.engines.engine import FEWEST_IN_A_SUM
from fedsparse.errors import OptionError
from fedsparse.federation.server.agreement import Terms
from fedsparse.federation.server.conduct import SITES, Conduct
from fedsparse.modelling.settings import Flat
from fedsparse.modelling.specification import FitSpecification, TableSpecification
from fedsparse.tables.inputs import Roles, check_roles
from fedsparse.tables.sentences import counted

if TYPE_CHECKING:
    from fedsparse.federation.roster import Roster

_NOT_LEARNT = {"title"}
"""Settings of a fit that may change when a run goes on."""


class SitesRun(TableSpecification, Conduct):
    """What is done with the tables of sites on a network, whatever that is.

    Names in the run configuration are written with hyphens.
    """

    data: Annotated[
        str | None,
        Field(
            description="In Flower's simulation, the folder with a table for each site; else sites "
            "have their own."
        ),
    ] = None
    target: Annotated[
        str | None, Field(description="In Flower's simulation, the column to predict.")
    ] = None
    out: Annotated[
        str | None, Field(description="Folder for the results; nothing is written without one.")
    ] = None

    roster: Annotated[
        str | None, Field(description="File with the keys by which sites hide their answers.")
    ] = None

    @property
    @abstractmethod
    def once_more(self) -> str:
        """What to do when a run was stopped, in a sentence."""

    @classmethod
    def from_run_config(cls, config: Mapping[str, Any]) -> Self:
        """Read Flower's run configuration; an OptionError names what is wrong."""
        return cls.from_flat(config)

    def to_run_config(self) -> dict[str, Flat]:
        """All settings that were given or have a default, as `from_run_config` reads them."""
        return self.to_flat()

    def terms(self) -> Terms:
        """On which terms the sites' tables are put together."""
        check_roles(Roles(drop=self.drop, categories=self.category, keep=self.keep))
        return Terms(
            task=self.task,
            drop=self.drop,
            categories=self.category,
            keep=self.keep,
            impute=self.impute,
            minimum_rows=self.minimum_rows,
        )

    def conduct(self) -> Conduct:
        """How absent sites are dealt with."""
        return Conduct(**{name: getattr(self, name) for name in Conduct.model_fields})

    def check_sums(self) -> None:
        """Refuse sums that would not hide what they are made of."""
        if not self.open_sums and self.sites < FEWEST_IN_A_SUM:
            raise OptionError(
                f"with {counted(self.sites, 'site')} a sum does not hide what each answers: of "
                "two, each knows the other's; have three take part, or ask for --open-sums if "
                "all agree that the server's administrator may see their answers"
            )

    def known_sites(self) -> "Roster | None":
        """Keys by which sites hide their answers; None if sums are open."""
        # Here, because options are read where the packages for keys may not be installed.
        from fedsparse.federation.roster import read_roster

        self.check_sums()
        if self.open_sums:
            return None
        if self.roster is None:
            raise OptionError(
                "sites hide their answers by keys, and no roster of these is given; give roster, "
                "or ask for open sums"
            )
        return read_roster(Path(self.roster))

    def folder(self) -> Path | None:
        """Where results go."""
        return None if self.out is None else Path(self.out)


class Training(FitSpecification, SitesRun):
    """A fit at sites on a network.

    Examples
    --------
    >>> training = Training.from_run_config({"sparsity": 20, "sites": 5, "drop": '["name"]'})
    >>> training.terms().drop, training.conduct().fewest
    (('name',), 5)
    """

    resume: Annotated[bool, Field(description="Go on from the transcript in the folder.")] = False

    @property
    def once_more(self) -> str:
        """Go on, if there is something to go on from."""
        from fedsparse.federation.server.transcript import TRANSCRIPT  # needs what Flower brings

        folder = self.folder()
        if folder is None or (folder / TRANSCRIPT).exists():
            return "Go on from its transcript with --resume"
        return "It had reached nothing yet; train once more"

    def what_is_learnt(self) -> dict[str, Flat]:
        """The settings on which the model depends, and not who waits how long for whom."""
        learnt = FitSpecification.model_fields.keys() - _NOT_LEARNT
        return {
            name: value
            for name, value in self.to_flat().items()
            if name.replace("-", "_") in learnt
        }


class DryRun(SitesRun):
    """A look at the sites' tables, in which nothing is learnt.

    Examples
    --------
    >>> DryRun(sites=3).terms().wishes.dry_run
    True
    """

    dry_run: Annotated[Literal[True], Field(description="Tells it from training.")] = True
    longest_wait: Annotated[
        float, Field(gt=0, description="Seconds to wait for sites that are not there."), SITES
    ] = 30.0

    @property
    def once_more(self) -> str:
        """There is no more to it."""
        return "Inspect once more"

    def terms(self) -> Terms:
        """On which terms the sites' tables would be put together."""
        return super().terms().model_copy(update={"dry_run": True})
