"""Asking memory for values before they are needed."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from fedsparse.arrays import FloatArray
from fedsparse.compiling import compiled

CACHE_LINE = 8  # float64 values

_READ, _KEEP_IN_ALL_CACHES, _DATA = 0, 3, 1


def _typed(_: Any, array: Any, position: Any) -> Any:
    """Types and instructions of `_prefetch`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        bytes_at = ir.IntType(8).as_pointer()
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [bytes_at, number, number, number])
        fetch = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, kind, "llvm.prefetch"
        )
        address = builder.bitcast(builder.gep(values, [arguments[1]]), bytes_at)
        builder.call(fetch, [address, number(_READ), number(_KEEP_IN_ALL_CACHES), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, position), generate


_prefetch: Any = intrinsic(_typed)
"""Have the processor fetch the cache line of an array's position; nothing waits for it."""


@compiled
def prefetch(array: FloatArray, begin: int, end: int) -> None:
    """Have entries ``begin … end`` brought into cache while other work goes on."""
    for position in range(begin, end, CACHE_LINE):
        _prefetch(array, position)
