"""MNIST: handwritten digits, from the IDX files they are published in."""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedsparse.errors import DataError, OptionError
from fedsparse.research.data.sources import Source
from fedsparse.tables.compression import decompressed
from fedsparse.tables.dataset import Dataset

COLLECTION = "https://ossci-datasets.s3.amazonaws.com/mnist"

_UNSIGNED_BYTES = 8  # IDX's code for the type of the entries


@dataclass(frozen=True)
class IdxFile:
    """One of the published files: its name, shape, and checksums plain and compressed."""

    name: str
    shape: tuple[int, ...]
    md5: str
    md5_compressed: str

    @property
    def header(self) -> bytes:
        """First bytes of the plain file: a magic number and the shape."""
        magic = bytes([0, 0, _UNSIGNED_BYTES, len(self.shape)])
        return magic + np.array(self.shape, dtype=">u4").tobytes()


PARTS = {
    "train": (
        IdxFile(
            "train-images-idx3-ubyte",
            (60_000, 28, 28),
            "6bbc9ace898e44ae57da46a324031adb",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        ),
        IdxFile(
            "train-labels-idx1-ubyte",
            (60_000,),
            "a25bea736e30d166cdddb491f175f624",
            "d53e105ee54ea40749a09fcbcd1e9432",
        ),
    ),
    "test": (
        IdxFile(
            "t10k-images-idx3-ubyte",
            (10_000, 28, 28),
            "2646ac647ad5339dbf082846283269ea",
            "9fb629c4189551a2d022fa330f9573f3",
        ),
        IdxFile(
            "t10k-labels-idx1-ubyte",
            (10_000,),
            "27ae3e4e09519cfbb04c329615203637",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
}
"""Images and labels of each part."""


def load_mnist(part: Literal["train", "test"] = "train") -> Dataset:
    """Load MNIST: images of handwritten digits, 28 × 28 pixels.

    The IDX files are looked for in the folder FEDSPARSE_DATA, also in its folder ``mnist``, plain
    or compressed, then in the cache, and are downloaded if they are in neither. Their contents are
    checked against the published MD5 sums.

    Parameters
    ----------
    part
        ``"train"`` for 60,000 images or ``"test"`` for 10,000.

    Returns
    -------
    Dataset
        Dense float32 features, the pixels scaled to [0, 1], and the digits as targets for
        ``loss="softmax"``.

    Examples
    --------
    >>> load_mnist()  # doctest: +SKIP
    Dataset(MNIST, 60000 rows, 784 features, dense float32)
    """
    if part not in PARTS:
        raise OptionError(f"part must be 'train' or 'test', not {part!r}")
    images, labels = (_load(file) for file in PARTS[part])
    pixels = images.reshape(len(images), -1)
    return Dataset("MNIST", np.divide(pixels, np.float32(255)), labels.astype(np.int64))


def _load(file: IdxFile) -> NDArray[np.uint8]:
    source = Source("mnist", f"{file.name}.gz", COLLECTION, file.md5_compressed)
    with source.obtained() as path:
        return _read(file, path)


def _read(file: IdxFile, path: Path) -> NDArray[np.uint8]:
    with decompressed(path) as opened:
        content = opened.read()
    if not content.startswith(file.header):
        shape = " × ".join(str(length) for length in file.shape)
        raise DataError(
            f"{path} does not begin like an IDX file of {shape} bytes; get the file once more"
        )
    size = len(file.header) + math.prod(file.shape)
    if len(content) != size:
        raise DataError(
            f"the contents of {path} are {len(content)} bytes, not {size}; get the file once more"
        )
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != file.md5:
        raise DataError(
            f"the contents of {path} do not have the published MD5 sum; get the file once more"
        )
    return np.frombuffer(content, np.uint8, offset=len(file.header)).reshape(file.shape)
