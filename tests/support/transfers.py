"""Large files, and what a gateway's process holds while they pass: memory, descriptors, files on its disk."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.support.gateway import GatewayProcess
from tests.support.raw_client import chunk
from tests.support.raw_upstream import JSON, Script, Turn, counted
from tests.support.waiting import WAIT_SECONDS

MIB: Final = 1024 * 1024
BOUNDARY: Final = b"4858d12029c95cf3db925fba3f28cf5d"
FORM: Final = b"Content-Type: multipart/form-data; boundary=" + BOUNDARY
_STILL_SECONDS: Final = 0.25
_POLL_SECONDS: Final = 0.01


def file_of(size: int) -> bytes:
    """Return a file of which no two pieces are alike."""
    return random.Random(size).randbytes(size)


def form(*parts: tuple[str, bytes]) -> bytes:
    """Return a form of parts in this order, written as OpenAI's SDK does; the part ``file`` is a file."""
    written = []
    for name, content in parts:
        head = f'Content-Disposition: form-data; name="{name}"'
        if name == "file":
            head += '; filename="talk.wav"\r\nContent-Type: application/octet-stream'
        written.append(b"--%b\r\n%b\r\n\r\n%b\r\n" % (BOUNDARY, head.encode(), content))
    return b"".join([*written, b"--%b--\r\n" % BOUNDARY])


def taking(turn: Turn) -> None:
    """Take a body, and tell its hash."""
    turn.send(counted(b'"%b"' % sha256(turn.body).hexdigest().encode(), JSON))


def giving(data: bytes, *, chunked: bool) -> Script:
    """Return what gives a file, in one piece or in chunks."""

    def script(turn: Turn) -> None:
        if chunked:
            turn.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            turn.send(*(chunk(data[at : at + 100_000]) for at in range(0, len(data), 100_000)), chunk(b""))
        else:
            turn.send(counted(data, b"Content-Type: application/octet-stream"))

    return script


@dataclass
class Footprint:
    """What a gateway's process holds; its memory counts from when this is made.

    The level from which memory counts stays the same from test to test: what an earlier transfer left in the
    process does not make a later one cheaper.
    """

    gateway: GatewayProcess
    directory: Path
    """Where it keeps large bodies."""
    _young: int = field(init=False)

    def __post_init__(self) -> None:
        self.forget_peak()
        self._young = self._peak()

    def forget_peak(self) -> None:
        """Let the peak be what the process has now (proc(5), ``clear_refs``)."""
        self._proc("clear_refs").write_text("5")

    def extra(self) -> int:
        """Return the most resident memory since the peak was forgotten, beyond that of the beginning."""
        return self._peak() - self._young

    def bodies(self) -> list[str]:
        """Return what is open in the directory for large bodies: files that have no name any more."""
        found = []
        for entry in self._proc("fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found.append(os.readlink(entry))
        return [path for path in found if path.startswith(f"{self.directory}/")]

    def descriptors(self) -> int:
        """Return how many descriptors are open."""
        return len(os.listdir(self._proc("fd")))

    def wait_until_still(self) -> None:
        """Wait until the gateway takes no more memory: whoever it waits for has stopped."""
        still(self._peak)

    def _peak(self) -> int:
        lines = self._proc("status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def _proc(self, name: str) -> Path:
        return Path(f"/proc/{self.gateway.process.pid}/{name}")


def still(number: Callable[[], int]) -> None:
    """Wait until a number has stopped changing."""
    pause = threading.Event()
    last, same = number(), 0.0
    for _ in range(int(WAIT_SECONDS / _POLL_SECONDS)):
        pause.wait(_POLL_SECONDS)
        now = number()
        last, same = now, same + _POLL_SECONDS if now == last else 0.0
        if same >= _STILL_SECONDS:
            return
    raise AssertionError(f"waited in vain for {number} to stop at {last}")
