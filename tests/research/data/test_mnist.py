"""MNIST's IDX files: what is read, and that nothing but the published contents is taken."""

import bz2
import gzip
import hashlib
import os

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.research.data import mnist
from fedsparse.research.data.mnist import IdxFile, load_mnist

needs_data = pytest.mark.skipif(
    not os.environ.get("FEDSPARSE_DATA"), reason="FEDSPARSE_DATA names no folder with MNIST"
)

PIXELS = np.arange(3 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2) * 23
DIGITS = np.array([7, 0, 9], dtype=np.uint8)
IMAGES_NAME, LABELS_NAME = "tiny-images", "tiny-labels"


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.tobytes()


def published(name, array):
    content = idx(array)
    return IdxFile(name, array.shape, hashlib.md5(content).hexdigest(), "not looked at here")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A set of three images, published as MNIST is, in the user's folder."""
    files = (published(IMAGES_NAME, PIXELS), published(LABELS_NAME, DIGITS))
    monkeypatch.setattr(mnist, "PARTS", {"train": files})
    monkeypatch.setenv("FEDSPARSE_DATA", str(tmp_path))
    monkeypatch.setenv("FEDSPARSE_CACHE", str(tmp_path / "cache"))
    own = tmp_path / "mnist"
    own.mkdir()
    (own / f"{IMAGES_NAME}.gz").write_bytes(gzip.compress(idx(PIXELS)))
    (own / f"{LABELS_NAME}.gz").write_bytes(gzip.compress(idx(DIGITS)))
    return own


def refuse(folder, content, message):
    path = folder / f"{IMAGES_NAME}.gz"
    path.write_bytes(content)
    with pytest.raises(fs.DataError, match=message) as caught:
        load_mnist()
    assert str(path) in str(caught.value)
    assert path.exists()  # it is the user's, not a download


class TestReading:
    def test_pixels_are_scaled_to_one_and_digits_are_whole_numbers(self, folder):
        dataset = load_mnist()
        assert dataset.features.dtype == np.float32
        np.testing.assert_allclose(dataset.features, PIXELS.reshape(3, 4) / 255, rtol=1e-6)
        assert dataset.targets.dtype == np.int64
        assert dataset.targets.tolist() == [7, 0, 9]
        assert dataset.title == "MNIST"

    def test_plain_files_are_taken_too(self, folder):
        for file, array in ((IMAGES_NAME, PIXELS), (LABELS_NAME, DIGITS)):
            (folder / f"{file}.gz").unlink()
            (folder / file).write_bytes(idx(array))
        assert load_mnist().samples == 3

    def test_files_may_lie_directly_in_the_folder(self, folder):
        for file in list(folder.iterdir()):
            file.rename(folder.parent / file.name)
        assert load_mnist().samples == 3

    def test_other_compression_under_the_same_name_is_fine(self, folder):
        (folder / f"{IMAGES_NAME}.gz").write_bytes(bz2.compress(idx(PIXELS)))
        assert load_mnist().samples == 3


class TestRefusals:
    def test_wrong_magic_number(self, folder):
        refuse(folder, gzip.compress(b"\0\0\x0b\3" + idx(PIXELS)[4:]), "does not begin like an IDX")

    def test_wrong_shape(self, folder):
        refuse(folder, gzip.compress(idx(PIXELS[:2])), "IDX file of 3 × 2 × 2 bytes")

    def test_labels_in_place_of_images(self, folder):
        refuse(folder, gzip.compress(idx(DIGITS)), "does not begin like an IDX")

    @pytest.mark.parametrize("content", [b"", b"<html>"])
    def test_something_else(self, folder, content):
        refuse(folder, content, "does not begin like an IDX")

    def test_contents_that_end_too_early(self, folder):
        refuse(folder, gzip.compress(idx(PIXELS)[:-1]), "are 27 bytes, not 28")

    def test_compressed_file_that_ends_too_early(self, folder):
        refuse(folder, gzip.compress(idx(PIXELS))[:-9], "damaged or incomplete")

    def test_one_other_pixel(self, folder):
        refuse(folder, gzip.compress(idx(PIXELS)[:-1] + b"\0"), "published MD5 sum")

    def test_unknown_part(self):
        with pytest.raises(fs.OptionError, match="part must be 'train' or 'test', not 'all'"):
            load_mnist("all")


@needs_data
class TestRealSet:
    def test_training_images(self):
        dataset = load_mnist()
        assert (dataset.samples, dataset.width, dataset.stand_in) == (60_000, 784, "")
        counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert np.bincount(dataset.targets).tolist() == counts
        assert (dataset.features.min(), dataset.features.max()) == (0.0, 1.0)

    def test_test_images(self):
        dataset = load_mnist("test")
        assert (dataset.samples, dataset.width) == (10_000, 784)
        assert np.bincount(dataset.targets).tolist() == [
            980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009,
        ]  # fmt: skip
