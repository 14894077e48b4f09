"""The page of ``fedsparse federation watch`` as browsers and others see it, for tests."""

import http.client
import json
import re
import subprocess
from html import unescape
from urllib.parse import urlsplit

from tests import chromium
from tests.chromium import CHROMIUM

# The page asks every two seconds.
FLAGS = (*chromium.FLAGS, "--hide-scrollbars", "--virtual-time-budget=5000")


class WatchedPage:
    """The page at an address."""

    def __init__(self, url):
        self.url = url
        self.host, self.path = urlsplit(url).netloc, urlsplit(url).path
        self.port = self.host.partition(":")[2]
        self.token = self.path.strip("/")

    def asked(self, path=None, method="GET", hosts=None):
        """Status, headers and content of what comes back."""
        line = http.client.HTTPConnection(self.host, timeout=60)
        line.putrequest(method, self.path if path is None else path, skip_host=True)
        for host in [self.host] if hosts is None else hosts:
            line.putheader("Host", host)
        line.endheaders()
        reply = line.getresponse()
        told = reply.status, reply.headers, reply.read()
        line.close()
        return told

    def state(self):
        return json.loads(self.asked(f"{self.path}state.json")[2])

    def run_writing_to(self, out):
        return next(run for run in self.state()["runs"] if run["folder"] == str(out))

    def drawn(self, folder, path="", *flags):
        return drawn(self.url + path, folder, *flags)


def drawn(url, folder, *flags):
    """The document as a browser has drawn it; its console has nothing to say."""
    done = subprocess.run(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, "--dump-dom", url],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout


def text_of(document):
    """What people read, in one line."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", document, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", body)).split())
