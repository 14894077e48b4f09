"""How a server deals with sites that are late, absent or wrong."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsparse.modelling.settings import Settings, Shown

SITES = Shown(panel="Sites")


class Conduct(Settings):
    """Rules of a run, whatever is learnt.

    Examples
    --------
    >>> Conduct(sites=5).fewest
    5
    """

    sites: Annotated[int, Field(ge=1, description="How many sites to wait for."), SITES]
    min_sites: Annotated[
        int | None, Field(ge=1, description="Fewest sites to go on with; by default all."), SITES
    ] = None
    if_absent: Annotated[
        Literal["continue", "wait"],
        Field(description="Go on without an absent site, or wait for it."),
        SITES,
    ] = "continue"
    round_seconds: Annotated[
        float, Field(gt=0, description="Seconds after which a site counts as absent."), SITES
    ] = 120.0
    longest_wait: Annotated[
        float, Field(gt=0, description="Seconds after which a run gives up waiting."), SITES
    ] = 3600.0

    open_sums: Annotated[
        bool,
        Field(
            description="Let the server see each site's answers instead of their sum alone; sites "
            "must allow it."
        ),
        SITES,
    ] = False

    @model_validator(mode="after")
    def _has_enough_sites(self) -> Self:
        if self.min_sites is not None and self.min_sites > self.sites:
            raise ValueError(
                f"min_sites is {self.min_sites}, more than the {self.sites} sites; lower it"
            )
        return self

    @property
    def fewest(self) -> int:
        """Fewest sites whose answers make a round."""
        return self.sites if self.min_sites is None else self.min_sites
