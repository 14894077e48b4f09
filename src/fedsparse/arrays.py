"""Names for the array types that signatures use."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
UInt32Array = NDArray[np.uint32]
UInt64Array = NDArray[np.uint64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]
