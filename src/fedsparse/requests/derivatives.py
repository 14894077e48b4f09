"""Values and derivatives of f_i: the objective, gradients, diagonals and Hessians on a support."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.compute import Clients
from fedsparse.compute.asked_entries import AskedEntries
from fedsparse.compute.class_curvature import class_curvature, joint_curvature, shared_curvature
from fedsparse.compute.curvature import hessians as hessians_on
from fedsparse.compute.matrices import AskedMatrices
from fedsparse.compute.stacks import DenseStack, SparseStack, Stack, flatten
from fedsparse.errors import OptionError
from fedsparse.requests.request import Fields, Request, Shapes

_NOTHING: Int64Array = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Evaluate(Request):
    """Ask for f_i(x).

    Parameters
    ----------
    x
        Where.
    is_penalized
        Whether the ℓ2 term is part of it.
    """

    is_round: ClassVar[bool] = False

    x: FloatArray
    is_penalized: bool = True

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number."""
        return {"objective": None}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective`` of each client."""
        values = clients.objectives if self.is_penalized else clients.mean_losses
        return {"objective": values(self.x, which)}


@dataclass(frozen=True)
class Gradient(Request):
    """Ask for ∇f_i(x), the ℓ2 term left out: the server can add λx by itself."""

    x: FloatArray

    def vectors(self) -> tuple[FloatArray, ...]:
        """x."""
        return (self.x,)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A vector like x."""
        return {"gradient": shape}

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``gradient`` of each client, as sparse as its columns."""
        return {"gradient": clients.mean_gradients(self.x, which)}


@dataclass(frozen=True)
class Slopes(Request):
    """Ask for f_i(x), ∇f_i(x) and the diagonal of ∇²f_i(x), the ℓ2 term left out of the latter two.

    Of everyone: what a server decides by sums of derivatives needs all of them.

    Parameters
    ----------
    x
        Where.
    support
        Entries of x on which all of ∇²f_i(x) is told beside, as by `Curvature`; none by default.
    units, bits
        As for `Curvature`; slopes and diagonal are then rounded to float32, too.
    with_diagonal
        Whether the diagonal is told. Of the squared loss it is the same everywhere.
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray
    support: Int64Array = field(default_factory=lambda: _NOTHING)
    units: FloatArray | None = None
    bits: int = 8
    with_diagonal: bool = True

    def __post_init__(self) -> None:
        _check_bits(self.bits)
        _check_units(self.units, self.support)

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, the support as a vector of ones, and units."""
        members = (_members(self.support, self.x.size),) if self.support.size else ()
        return (self.x, *members, *(() if self.units is None else (self.units,)))

    def telling_objective(self) -> "Slopes":
        """They do."""
        return self

    def matrices(self) -> AskedMatrices:
        """The Hessian on the support."""
        units = None if self.units is None else flatten(self.units)[self.support]
        is_known = np.zeros(self.support.size, dtype=np.bool_)
        asked = AskedEntries(is_known, units, self.bits)
        return AskedMatrices((asked,), units is not None)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, two vectors like x and the upper triangle of a matrix on the support."""
        told: dict[str, tuple[int, ...] | None] = {"objective": None, "gradient": shape}
        if self.with_diagonal:
            told["diagonal"] = shape
        if self.support.size:
            told["hessian"] = self.matrices().shape
        return told

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``diagonal`` of each client, as sparse as its columns.

        And its ``hessian`` if there is a support.
        """
        objectives, gradients, diagonals = clients.slopes(self.x, which)
        told: dict[str, Stack | FloatArray]
        told = {"objective": objectives, "gradient": gradients, "diagonal": diagonals}
        if not self.with_diagonal:
            del told["diagonal"]
        if self.support.size:
            told["hessian"] = _exact(clients, self.x, self.support, which, self.matrices())[2]
        return told if self.units is None else _shortened(told)


@dataclass(frozen=True)
class Curvature(Request):
    """Ask for f_i(x), and for ∇f_i(x) and ∇²f_i(x) restricted to a support, without the ℓ2 term.

    Parameters
    ----------
    x
        Where.
    support
        Entries of x in increasing order, those of a matrix numbered class · d + feature.
    known
        Those of the support between which second derivatives are not asked for again.
    units
        A positive number for each entry of the support, in a vector like x: about the root of its
        second derivative, summed over clients. Second derivatives are then told relative to these,
        in a few bits where sums are open, and slopes are rounded to float32.
    bits
        Of an entry then: 8 or 16.
    only_second
        Whether nothing but second derivatives is told, because x is not where the run stands.
    """

    of_everyone: ClassVar[bool] = True

    x: FloatArray
    support: Int64Array
    known: Int64Array = field(default_factory=lambda: _NOTHING)
    units: FloatArray | None = None
    bits: int = 8
    only_second: bool = False

    def __post_init__(self) -> None:
        _check_bits(self.bits)
        if not np.isin(self.known, self.support, assume_unique=True).all():
            raise OptionError("what is known of second derivatives must be part of the support")
        _check_units(self.units, self.support)

    def vectors(self) -> tuple[FloatArray, ...]:
        """x, the support and what is known of it as vectors of ones, and units."""
        known = (_members(self.known, self.x.size),) if self.known.size else ()
        units = () if self.units is None else (self.units,)
        return (self.x, _members(self.support, self.x.size), *known, *units)

    def telling_objective(self) -> "Curvature | None":
        """It does, if x is where the run stands."""
        return None if self.only_second else self

    def blocks(self) -> list[Int64Array]:
        """The support, in parts between which nothing is asked."""
        return [self.support]

    def matrices(self) -> AskedMatrices:
        """Which entries are asked for."""
        units = None if self.units is None else flatten(self.units)
        blocks = [
            AskedEntries(
                np.isin(own, self.known, assume_unique=True),
                None if units is None else units[own],
                self.bits,
            )
            for own in self.blocks()
        ]
        return AskedMatrices(tuple(blocks), units is not None)

    def answer_shapes(self, shape: tuple[int, ...]) -> Shapes:
        """A number, a vector on the support, and entries of matrices."""
        second = self.matrices().shape
        if self.only_second:
            return {"hessian": second}
        return {"objective": None, "gradient": self._gradient_shape(), "hessian": second}

    def _gradient_shape(self) -> tuple[int, ...]:
        return (self.support.size,)

    def answer(self, clients: Clients, which: Int64Array) -> Fields:
        """``objective``, ``gradient`` and ``hessian`` (of its upper triangle) of each client."""
        objectives, gradients, hessians = self._worked_out(clients, which)
        answer: dict[str, Stack | FloatArray] = {"hessian": hessians}
        if not self.only_second:
            answer = {"objective": objectives, "gradient": gradients, **answer}
        return answer if self.units is None else _shortened(answer)

    def _worked_out(self, clients: Clients, which: Int64Array) -> tuple[FloatArray, Stack, Stack]:
        return _exact(clients, self.x, self.support, which, self.matrices())


@dataclass(frozen=True)
class ClassCurvature(Curvature):
    """Ask for f_i(x), ∇f_i(x) on entries of a matrix x, and a matrix that bends f by each class.

    See `fedsparse.compute.class_curvature`. Parameters are those of `Curvature`.
    """

    def blocks(self) -> list[Int64Array]:
        """Class by class."""
        if self.x.ndim != 2:
            raise OptionError("curvature by class needs a loss with several classes")
        width, classes = self.x.shape
        return [self.support[self.support // width == label] for label in range(classes)]

    def _worked_out(self, clients: Clients, which: Int64Array) -> tuple[FloatArray, Stack, Stack]:
        return class_curvature(clients, self.x, self.support, which, self.matrices())


@dataclass(frozen=True)
class SharedCurvature(Curvature):
    """Ask for f_i(x), ∇f_i(x) on features of a matrix x, and one matrix that bends f by them.

    See `fedsparse.compute.class_curvature`; the support lists features, in increasing order, and
    units are those of features.
    """

    like_a_row: ClassVar[tuple[str, ...]] = ("units",)

    def _gradient_shape(self) -> tuple[int, ...]:
        return (self.support.size * self.x.shape[1],)

    def _worked_out(self, clients: Clients, which: Int64Array) -> tuple[FloatArray, Stack, Stack]:
        return shared_curvature(clients, self.x, self.support, which, self.matrices())


def _exact(
    clients: Clients,
    x: FloatArray,
    support: Int64Array,
    which: Int64Array,
    asked: AskedMatrices,
) -> tuple[FloatArray, Stack, Stack]:
    work = hessians_on if x.ndim == 1 else joint_curvature
    return work(clients, x, support, which, asked)


def _shortened(told: Fields) -> Fields:
    """Vectors rounded to float32; matrices are short already."""
    return {
        name: own.in_single() if isinstance(own, DenseStack | SparseStack) else own
        for name, own in told.items()
    }


def _check_bits(bits: int) -> None:
    if bits not in (8, 16):
        raise OptionError(f"second derivatives are told in 8 or 16 bits, not in {bits}")


def _check_units(units: FloatArray | None, support: Int64Array) -> None:
    if units is None or not support.size:
        return
    if support[-1] >= units.size or not bool((flatten(units)[support] > 0.0).all()):
        raise OptionError("units of features must be positive numbers")


def _members(support: Int64Array, size: int) -> FloatArray:
    members = np.zeros(size)
    members[support] = 1.0
    return members
