"""The one specification of a fit.

The command line's options, the estimators' parameters, a federation's run configuration and the
settings in a model file all come from the fields below: an option is declared, explained and
checked here and nowhere else.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from fedsparse.algorithms import Algorithm
from fedsparse.errors import OptionError
from fedsparse.modelling.methods import (
    METHOD_OPTIONS,
    arguments_of,
    located,
    loss_class,
    make_algorithm,
    titled,
)
from fedsparse.modelling.settings import Settings, Shown, as_option
from fedsparse.problem.losses import Loss
from fedsparse.tables.agreeing import MINIMUM_ROWS
from fedsparse.tables.cells import Task
from fedsparse.tables.encoding import Impute
from fedsparse.tables.inputs import Roles

Count = Annotated[int, Field(ge=1)]
Names = tuple[str, ...]

_COLUMNS = Shown(panel="Columns and rows")
_METHOD = Shown(panel="Method")


class TableSpecification(Settings):
    """How the sites' tables become one.

    Examples
    --------
    >>> TableSpecification(drop=("name",)).roles("relapse").drop
    ('name',)
    """

    drop: Annotated[Names, Field(description="Column not to use; may be repeated."), _COLUMNS] = ()
    category: Annotated[
        Names,
        Field(description="Column of categories although it looks like numbers; may be repeated."),
        _COLUMNS,
    ] = ()
    keep: Annotated[
        Names, Field(description="Column that must be in the model; may be repeated."), _COLUMNS
    ] = ()
    task: Annotated[
        Task,
        Field(description="What is predicted: classes, numbers, counts or times of an event."),
        _COLUMNS,
    ] = "auto"
    exposure: Annotated[
        str | None,
        Field(description="Of counts: column that says for how long, or of how many."),
        _COLUMNS,
    ] = None
    time: Annotated[
        str | None,
        Field(description="Of survival: column that says when the event was, or the last look."),
        _COLUMNS,
    ] = None
    event: Annotated[
        str | None,
        Field(
            description="Of survival: column that says whether the event was (1, yes, true) or not "
            "(0, no, false)."
        ),
        _COLUMNS,
    ] = None
    impute: Annotated[
        Impute,
        Field(
            description="Fill missing values with the mean of all sites; by default they are "
            "refused."
        ),
        _COLUMNS,
    ] = None
    minimum_rows: Annotated[
        Count, Field(description="Refuse a site with fewer rows."), _COLUMNS
    ] = MINIMUM_ROWS

    def roles(self, target: str | None = None, site: str | None = None) -> Roles:
        """What the columns are for; an OptionError if they do not suit the task."""
        check_outcome(self.task, target, self.exposure, self.time, self.event)
        return Roles(
            target=self.time or target,
            event=self.event,
            exposure=self.exposure,
            site=site,
            drop=self.drop,
            categories=self.category,
            keep=self.keep,
        )


def check_outcome(
    task: Task, target: str | None, exposure: str | None, time: str | None, event: str | None
) -> None:
    """Refuse columns of an outcome that do not suit the task.

    Parameters
    ----------
    task
        What is learnt.
    target, exposure, time, event
        Columns, as they were named.

    Examples
    --------
    >>> check_outcome("survival", None, None, time="months", event=None)
    Traceback (most recent call last):
        ...
    fedsparse.errors.OptionError: --task survival needs --event, a column of 0 and 1; name it
    """
    if task == "survival":
        if target is not None:
            raise OptionError(
                f'--task survival predicts --time and --event; leave --target "{target}" out'
            )
        for option, named, what in (
            ("--time", time, "a column of times"), ("--event", event, "a column of 0 and 1")
        ):  # fmt: skip
            if named is None:
                raise OptionError(f"--task survival needs {option}, {what}; name it")
    for option, named, needed in (
        ("--exposure", exposure, "counts"), ("--time", time, "survival"),
        ("--event", event, "survival"),
    ):  # fmt: skip
        if named is not None and task != needed:
            raise OptionError(
                f"{option} means nothing without --task {needed}; add that, or leave {option} out"
            )


class FitSpecification(TableSpecification):
    """What to fit, how, and what to find out about it.

    None is what was not given. Fields are explained by their descriptions, which are also the help
    of the command line.

    Examples
    --------
    >>> FitSpecification(sparsity=20, method="FedIterHT", local_steps=5).algorithm().local_steps
    5
    >>> FitSpecification(sparsity="aic")
    Traceback (most recent call last):
        ...
    fedsparse.modelling.settings.SettingError: sparsity must be a whole number of at least 1, "cv"
    or "ebic", not 'aic'
    """

    sparsity: Annotated[
        Count | Literal["cv", "ebic"],
        Field(description="How many features; 'cv' or 'ebic' let the data choose."),
        Shown(also="--features"),
    ] = "cv"
    sparsities: Annotated[
        tuple[Annotated[int, Field(ge=0)], ...] | None,
        Field(
            description="Numbers of features to choose from, and no others; by default a range, "
            "and more around the best."
        ),
    ] = None
    folds: Annotated[int, Field(ge=2, description="Parts of the rows that 'cv' takes in turn.")] = 5
    other_seeds: Annotated[
        int,
        Field(
            ge=0,
            description="How many other seeds 'cv' tries, to tell how often rows cut into other "
            "folds choose another number. Costs as many times the work, and hardly a round.",
        ),
    ] = 0
    held_out: Annotated[
        Literal["auto", "all", "fifth", "none"],
        Field(description="Rows to judge the model on: all in turn, a fifth of them, none."),
    ] = "auto"
    dense: Annotated[
        Literal["auto", "yes", "no"],
        Field(
            description="Whether to compare with a ridge on all features; by default if rows lie "
            "in one place and are few."
        ),
    ] = "auto"
    threshold: Annotated[
        float | None,
        Field(
            ge=0,
            le=1,
            description="Probability from which on a row is taken for a class, for sensitivity and "
            "specificity; by default 0.5.",
        ),
    ] = None
    stability: Annotated[
        int | None,
        Field(
            ge=0,
            description="Pairs of half-samples that tell how often a feature is found again. By "
            "default 25 of small data, 0 of large.",
        ),
    ] = None
    intervals: Annotated[
        Literal["auto", "yes", "no"],
        Field(
            description="Whether to tell how sure coefficients are: as if the features were chosen "
            "beforehand and, from the half-samples, valid after the choice. 'auto' does it with "
            "FedSplice, which asks sites for the same second derivatives."
        ),
    ] = "auto"
    l2: Annotated[
        float | None,
        Field(ge=0, description="Weight of the ℓ2 term; by default set by the number of rows."),
    ] = None
    loss: Annotated[
        str | None,
        Field(
            description="What is minimized, if not what the task says: a loss of your own as "
            "module:Class or file.py:Class, which sites on a network must know, too."
        ),
    ] = None
    standardize: Annotated[
        bool, Field(description="Scale columns by means and deviations of all sites.")
    ] = True
    intercept: Annotated[bool, Field(description="Give the model an intercept.")] = True
    rounds: Annotated[Count, Field(description="Most rounds of one model.")] = 100
    seed: Annotated[
        int,
        Field(ge=0, le=2**63 - 1, description="Fixes which rows are held out, and mini-batches."),
    ] = 0
    evaluate_every: Annotated[
        Count, Field(description="Rounds between two lines of a model's history.")
    ] = 1
    title: Annotated[str | None, Field(description="Title of the report.")] = None
    method: Annotated[
        str | None,
        Field(
            description="Algorithm: FedSplice, FedIterHT, FedHT, DistributedIHT, or your own as "
            "module:Class or file.py:Class; by default the one that takes fewest rounds."
        ),
        _METHOD,
    ] = None
    local_steps: Annotated[
        Count | None,
        Field(description="K: steps of a site a round; by default 10."),
        _METHOD,
    ] = None
    step_size: Annotated[
        float | None,
        Field(gt=0, description="γ; by default one that suits all sites."),
        _METHOD,
    ] = None
    batch_size: Annotated[
        Count | None, Field(description="Rows of a mini-batch; by default all rows."), _METHOD
    ] = None
    weights: Annotated[
        Literal["uniform", "samples"] | None,
        Field(description="Whether sites or their rows count the same; by default rows."),
        _METHOD,
    ] = None
    server_step: Annotated[
        Literal["average", "extrapolated", "adaptive"] | None,
        Field(description="How far the server moves; by default to the average."),
        _METHOD,
    ] = None

    @model_validator(mode="after")
    def _with_something_to_ask(self) -> Self:
        if self.other_seeds and self.sparsity != "cv":
            raise ValueError(
                "--other-seeds is for the folds of --sparsity cv; leave it out, or ask for that"
            )
        if self.threshold is not None and self.held_out == "none":
            raise ValueError(
                "--threshold is for rows that are held out, and --held-out none holds out none; "
                "leave one of them out"
            )
        return self

    def algorithm(self) -> Algorithm | None:
        """The method with its options, None for the one that suits the loss.

        The algorithm's sparsity is a placeholder: `fedsparse.modelling.fitting` puts the constraint
        there that τ, kept features and the intercept make.
        """
        given = {name: getattr(self, name) for name in METHOD_OPTIONS}
        given = {name: value for name, value in given.items() if value is not None}
        if self.method is None:
            if given:
                first = as_option(next(iter(given)))
                raise OptionError(f"{first} means nothing without --method; leave it out")
            return None
        if given.get("server_step") == "average":
            given["server_step"] = 1.0
        return make_algorithm(self.method, given)

    def own_loss(self) -> Loss | None:
        """The loss that is minimized instead of what the task says."""
        if self.loss is None:
            return None
        try:
            return loss_class(self.loss)()
        except OptionError:
            raise
        except Exception as error:  # a user's class may raise anything
            raise OptionError(
                f"--loss {self.loss} cannot be used: {type(error).__name__}: {error}; "
                "mend the class"
            ) from error

    def anywhere(self) -> "FitSpecification":
        """The same for a process that works in another folder."""
        own = {"method": self.method, "loss": self.loss}
        return self.model_copy(
            update={name: located(place) for name, place in own.items() if place is not None}
        )

    def told(
        self, loss: Loss, algorithm: Algorithm | None, *, sparsity: int, rounds: int
    ) -> dict[str, str]:
        """The settings as a model file and a report show them.

        Parameters
        ----------
        loss, algorithm
            What was fitted with; ``algorithm`` as `algorithm` gave it before.
        sparsity
            τ, given or chosen.
        rounds
            How many it took.

        Examples
        --------
        >>> from fedsparse.problem.losses import Logistic
        >>> told = FitSpecification(impute="mean").told(Logistic(), None, sparsity=7, rounds=9)
        >>> told["method"], told["number of features"], told["rounds"]
        ('FedSplice', '7, by cross-validation', '9 of at most 100')
        >>> told["missing values"]
        'filled with the mean of all sites'
        """
        how = {"cv": "by cross-validation", "ebic": "by EBIC"}.get(str(self.sparsity), "given")
        told = {
            "method": "FedSplice" if self.method is None else titled(self.method),
            "number of features": f"{sparsity}, {how}",
            "loss": loss.name,
            "ℓ2 weight": f"{loss.l2:.6g}",
            "standardized": "yes" if self.standardize else "no",
            "intercept": "yes" if self.intercept and loss.has_intercept else "no",
            "rounds": f"{rounds} of at most {self.rounds}",
            "seed": str(self.seed),
            "columns left out on request": ", ".join(self.drop),
            "columns taken as categories": ", ".join(self.category),
            "columns that must stay": ", ".join(self.keep),
            "missing values": "" if self.impute is None else "filled with the mean of all sites",
            **({} if algorithm is None else _method_options(algorithm)),
        }
        return {name: text for name, text in told.items() if text}


def _method_options(algorithm: Algorithm) -> dict[str, str]:
    """What a method was made with."""
    words: dict[str, dict[Any, str]] = {
        "step_size": {"auto": "one that suits all sites"},
        "batch_size": {None: "all rows"},
        "weights": {"samples": "rows count the same", "uniform": "sites count the same"},
        "server_step": {1.0: "average"},
    }
    values = {
        name: getattr(algorithm, name)
        for name in METHOD_OPTIONS
        if name in arguments_of(type(algorithm))
    }
    return {
        name.replace("_", " "): str(words.get(name, {}).get(value, value))
        for name, value in values.items()
    }
