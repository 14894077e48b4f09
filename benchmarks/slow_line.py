"""Two network namespaces with a line between them on which every packet takes a while."""

import fcntl
import os
import shutil
import struct
import subprocess
import threading
import time
from collections import deque
from contextlib import ExitStack, suppress

SERVER, SITES = "192.0.2.1", "192.0.2.2"  # addresses kept for documentation: nobody's

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_LONGEST_FRAME = 1 << 16


class SlowLine:
    """A namespace for the server, one for the sites, and the line between them.

    The kernel's netem holds packets back where there is one; else two TAP devices are joined by
    this process, which does the same. Needs root.

    Attributes
    ----------
    how
        What holds packets back.
    """

    def __init__(self, delay):
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise SystemExit("this benchmark makes network namespaces: run it as root, with ip")
        self._delay = delay
        self._stack = ExitStack()
        self._names = [f"fedsparse-{end}-{os.getpid()}" for end in ("server", "sites")]

    def __enter__(self):
        with ExitStack() as stack:
            for name in self._names:
                _ip("netns", "add", name)
                stack.callback(_ip, "netns", "del", name)
                self._ip_in(name, "link", "set", "lo", "up")
            devices = [f"fs{end}{os.getpid() % 1_000_000}" for end in "ab"]
            self.how = "netem" if self._by_netem(devices) else "TAP devices"
            if self.how != "netem":
                self._by_taps(devices, stack)
            for name, device, own in zip(self._names, devices, (SERVER, SITES), strict=True):
                self._ip_in(name, "address", "add", f"{own}/24", "dev", device)
                self._ip_in(name, "link", "set", device, "up")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def at_server(self):
        """What to start a command with so that it runs where the server is."""
        return ("ip", "netns", "exec", self._names[0])

    def at_sites(self):
        """The same for the sites."""
        return ("ip", "netns", "exec", self._names[1])

    def _ip_in(self, name, *arguments):
        _ip("-netns", name, *arguments)

    def _by_netem(self, devices):
        first, second = self._names
        _ip("link", "add", devices[0], "netns", first, "type", "veth",
            "peer", "name", devices[1], "netns", second)  # fmt: skip
        for name, device in zip(self._names, devices, strict=True):
            command = ["tc", "-netns", name, "qdisc", "add", "dev", device, "root", "netem"]
            delayed = [*command, "delay", f"{1e3 * self._delay:g}ms"]
            if subprocess.run(delayed, capture_output=True, check=False).returncode != 0:
                self._ip_in(first, "link", "del", devices[0])
                return False
        return True

    def _by_taps(self, devices, stack):
        ends = []
        for name, device in zip(self._names, devices, strict=True):
            end = os.open("/dev/net/tun", os.O_RDWR)
            stack.callback(os.close, end)
            kind = struct.pack("16sH22x", device.encode(), _IFF_TAP | _IFF_NO_PI)
            fcntl.ioctl(end, _TUNSETIFF, kind)
            _ip("link", "set", device, "netns", name)
            ends.append(end)
        for source, sink in (ends, ends[::-1]):
            _hold_back(source, sink, self._delay)


def _hold_back(source, sink, delay):
    """Pass frames on after a while, in their order."""
    waiting, ready = deque(), threading.Condition()

    def receive():
        with suppress(OSError):
            while True:
                frame = os.read(source, _LONGEST_FRAME)
                with ready:
                    waiting.append((time.monotonic() + delay, frame))
                    ready.notify()

    def send():
        with suppress(OSError):
            while True:
                with ready:
                    ready.wait_for(lambda: waiting)
                    due, frame = waiting.popleft()
                time.sleep(max(0.0, due - time.monotonic()))
                os.write(sink, frame)

    for work in (receive, send):
        threading.Thread(target=work, daemon=True).start()


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)
