"""Downloads from a real server on this machine: what is kept, what is removed, what is said."""

import bz2
import gzip
import hashlib
import io
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest

import fedsparse as fs
from fedsparse.research.data import mnist, text
from fedsparse.research.data.mnist import IdxFile, load_mnist
from fedsparse.research.data.sources import Source
from fedsparse.research.data.text import load_e2006, load_rcv1

RCV1_PATH = "/binary/rcv1_train.binary.bz2"
RCV1 = bz2.compress(b"".join(b"%+d 1:1\n" % (1 - 2 * (row % 2)) for row in range(20_242)))
E2006 = bz2.compress(b"-3.5 1:1\n" * 3_308)


class Site(ThreadingHTTPServer):
    """Serves ``files`` by path and remembers what was asked for."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = {}
        self.asked = []
        self.withheld = 0  # bytes promised but not sent

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) - self.server.withheld])

    def log_message(self, *_):
        pass


@pytest.fixture
def site(monkeypatch):
    """A web site in place of LIBSVM's and MNIST's."""
    server = Site()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(text, "COLLECTION", server.address)
    monkeypatch.setattr(mnist, "COLLECTION", server.address)
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no folder of the user's own."""
    monkeypatch.delenv("FEDSPARSE_DATA", raising=False)
    monkeypatch.setenv("FEDSPARSE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def files_in(folder):
    return [file for file in folder.rglob("*") if file.is_file()]


class TestDownload:
    def test_first_load_downloads_and_the_second_does_not(self, site, cache):
        site.files[RCV1_PATH] = RCV1
        assert load_rcv1().title == "RCV1"
        assert load_rcv1().samples == 20_242
        assert site.asked == [RCV1_PATH]
        assert (cache / "rcv1" / "rcv1_train.binary.bz2").read_bytes() == RCV1

    def test_every_set_has_its_address(self, site):
        site.files["/regression/E2006.test.bz2"] = E2006
        assert load_e2006().targets.tolist() == [-3.5] * 3_308

    def test_user_folder_without_the_file_is_passed_over(self, site, tmp_path, monkeypatch):
        monkeypatch.setenv("FEDSPARSE_DATA", str(tmp_path))
        site.files[RCV1_PATH] = RCV1
        assert load_rcv1().samples == 20_242

    def test_user_folder_with_the_file_spares_the_download(self, site, tmp_path, monkeypatch):
        monkeypatch.setenv("FEDSPARSE_DATA", str(tmp_path))
        (tmp_path / "rcv1_train.binary.bz2").write_bytes(RCV1)
        assert load_rcv1().samples == 20_242
        assert site.asked == []

    def test_nothing_is_drawn_where_there_is_no_terminal(self, site, capsys):
        site.files[RCV1_PATH] = RCV1
        load_rcv1()
        printed = capsys.readouterr()
        assert "━" not in printed.out + printed.err

    def test_terminal_shows_progress(self, site, monkeypatch):
        terminal = io.StringIO()
        terminal.isatty = lambda: True
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", terminal)
        site.files[RCV1_PATH] = RCV1
        load_rcv1()
        assert "rcv1_train.binary.bz2" in terminal.getvalue()
        assert "━" in terminal.getvalue()


class TestFailedDownload:
    def refuse(self, site, cache, *parts):
        with pytest.raises(fs.DataError) as caught:
            load_rcv1()
        for part in ("rcv1_train.binary.bz2", f"{site.address}{RCV1_PATH}", *parts):
            assert part in str(caught.value)
        assert "\n" not in str(caught.value)
        assert files_in(cache) == []

    def test_file_the_server_does_not_have(self, site, cache):
        self.refuse(site, cache, "404", "set FEDSPARSE_DATA to a folder that holds it as rcv1/")

    def test_no_server(self, cache, monkeypatch, site):
        monkeypatch.setattr(text, "COLLECTION", "http://127.0.0.1:9/nothing")
        with pytest.raises(fs.DataError, match=r"127\.0\.0\.1:9/nothing.*there is no connection"):
            load_rcv1()
        assert files_in(cache) == []

    def test_user_folder_is_named_as_the_place_for_the_file(self, site, tmp_path, monkeypatch):
        monkeypatch.setenv("FEDSPARSE_DATA", str(tmp_path / "own"))
        with pytest.raises(fs.DataError, match=f"put it into the folder {tmp_path}/own/rcv1"):
            load_rcv1()

    def test_connection_that_breaks_off(self, site, cache):
        site.files[RCV1_PATH] = RCV1
        site.withheld = 7
        self.refuse(site, cache, "the connection broke off")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"<html>sign in first</html>", "line 1: the target '<html>sign' is not a number"),
            (RCV1[:-7], "damaged or incomplete"),
            (E2006, "has 3308 rows, not 20242"),
            (b"", "has no rows"),
        ],
    )
    def test_bad_download_is_removed_and_a_retry_mends_it(self, site, cache, content, message):
        site.files[RCV1_PATH] = content
        self.refuse(site, cache, message, "the next call downloads it anew")
        site.files[RCV1_PATH] = RCV1
        assert load_rcv1().samples == 20_242

    def test_cache_folder_that_cannot_be_made(self, site, tmp_path, monkeypatch):
        (tmp_path / "file").touch()
        monkeypatch.setenv("FEDSPARSE_CACHE", str(tmp_path / "file"))
        site.files[RCV1_PATH] = RCV1
        with pytest.raises(fs.DataError, match=f"cannot be kept in {tmp_path}/file/rcv1"):
            load_rcv1()


class TestChecksum:
    @pytest.fixture
    def images(self, site, monkeypatch):
        """One image and its label, published as MNIST's are."""
        image, label = np.full((1, 2, 2), 51, np.uint8), np.array([4], np.uint8)
        files = []
        for name, array in (("images", image), ("labels", label)):
            header = IdxFile(name, array.shape, "", "").header
            content = header + array.tobytes()
            compressed = gzip.compress(content, mtime=0)
            site.files[f"/{name}.gz"] = compressed
            sums = (hashlib.md5(part).hexdigest() for part in (content, compressed))
            files.append(IdxFile(name, array.shape, *sums))
        monkeypatch.setattr(mnist, "PARTS", {"train": tuple(files)})
        return site.files["/images.gz"]

    def test_mnist_is_downloaded_and_read(self, images, site):
        features, targets = load_mnist()
        np.testing.assert_allclose(features, np.full((1, 4), 0.2), rtol=1e-6)
        assert targets.tolist() == [4]
        load_mnist()
        assert site.asked == ["/images.gz", "/labels.gz"]

    def test_download_with_a_wrong_checksum_is_not_kept(self, images, site, cache):
        site.files["/images.gz"] = gzip.compress(gzip.decompress(images)[:-1] + b"\0")
        with pytest.raises(fs.DataError, match=r"images\.gz.*published MD5 sum"):
            load_mnist()
        assert files_in(cache) == []

    def test_file_spoiled_in_the_cache_is_removed(self, images, cache):
        load_mnist()
        kept = cache / "mnist" / "images.gz"
        kept.write_bytes(gzip.compress(gzip.decompress(images)[:-1] + b"\0"))
        with pytest.raises(fs.DataError, match=r"published MD5 sum.*downloads it anew"):
            load_mnist()
        assert not kept.exists()
        assert load_mnist().samples == 1


def test_errors_that_are_not_about_the_file_leave_it_in_the_cache(site, cache):
    site.files["/a.bz2"] = b"content"
    with pytest.raises(KeyError), Source("letters", "a.bz2", site.address).obtained():
        raise KeyError("something else")
    assert (cache / "letters" / "a.bz2").read_bytes() == b"content"
