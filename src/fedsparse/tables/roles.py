"""What the columns of a table are for."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from fedsparse.errors import OptionError
from fedsparse.tables.sentences import Finding, error, listed, nearest


class Roles(BaseModel):
    """Names of columns with a part to play; every other column is a candidate feature.

    Examples
    --------
    >>> roles = Roles(target="relapse", site="hospital", drop=("name",))
    >>> roles.feature_columns(["hospital", "name", "age", "relapse"])
    ['age']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    target: str | None = None
    """What is to be predicted; None for LIBSVM files, which say it themselves."""
    site: str | None = None
    """Says which site a row belongs to; ``"qid"`` for the query numbers of a LIBSVM file."""
    drop: tuple[str, ...] = ()
    """Not to be used."""
    categories: tuple[str, ...] = ()
    """Categories even if they look like numbers."""
    keep: tuple[str, ...] = ()
    """Always part of the model."""

    def feature_columns(self, columns: Sequence[str]) -> list[str]:
        """The columns that may become features, in the order given."""
        taken = {self.target, self.site, *self.drop}
        return [name for name in columns if name not in taken]


def check_roles(roles: Roles) -> None:
    """Refuse roles that contradict each other.

    Examples
    --------
    >>> check_roles(Roles(target="relapse", drop=("relapse",)))
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: column "relapse" is named by both --target and --drop; choose one
    """
    claims = [
        ("--target", () if roles.target is None else (roles.target,)),
        ("--site", () if roles.site is None else (roles.site,)),
        ("--drop", roles.drop),
        ("--category", roles.categories),
        ("--keep", roles.keep),
    ]
    owners: dict[str, str] = {}
    for option, names in claims:
        for name in names:
            owner = owners.setdefault(name, option)
            if owner != option and owner != "--category":  # categories may be kept
                raise OptionError(
                    f'column "{name}" is named by both {owner} and {option}; choose one'
                )


def role_findings(columns: Sequence[str], where: str, roles: Roles) -> list[Finding]:
    """Errors about roles whose column a table lacks.

    Dropped columns may be absent: dropping is the way out where only some sites have a column.

    Examples
    --------
    >>> for finding in role_findings(["age", "relapse"], "bari.csv", Roles(target="relaps")):
    ...     print(finding.sentence)
    bari.csv has no column "relaps" (--target); did you mean "relapse"?
    """
    if roles.target is None:
        yet = listed(columns)
        return [error(f"no target is named; name a column of {where} with --target, such as {yet}")]
    wanted = [("--target", roles.target)]
    wanted += [("--site", roles.site)] if roles.site is not None else []
    wanted += [("--category", name) for name in roles.categories]
    wanted += [("--keep", name) for name in roles.keep]
    present = set(columns)
    return [
        error(f'{where} has no column "{name}" ({option}); {_advice(name, columns)}', name)
        for option, name in wanted
        if name not in present
    ]


def _advice(name: str, columns: Sequence[str]) -> str:
    near = nearest(name, columns)
    if near is not None:
        return f'did you mean "{near}"?'
    if len(columns) == 1:
        only = f"all it has is {listed(columns)}"
        return f"{only}: columns are separated by comma, semicolon or tabulator"
    return f"it has {listed(columns)}"
