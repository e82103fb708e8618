"""What a gateway reports to ``mgw reload``: the file that it uses, and the outcome of each reload.

It stands in a file in memory (``memfd_create(2)``) that has a name and no place: nothing is left on any disk,
it ends with the process, and whoever may send the process a signal finds it among its open files.  No other
program has a file of that name, so it also tells a gateway from all other processes.  A first line with a
checksum guards against a text that is read while it is being written.

Where the system has no such files there is none, and only ``kill -HUP`` is left.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from zlib import crc32

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode
from msgspec.structs import replace

from mgw import __version__

NAME: Final = "mgw-status"
LINK: Final = f"/memfd:{NAME} (deleted)"
"""The target of such a file's link in ``/proc/PID/fd`` (``proc(5)``)."""
MAX_BYTES: Final = 256 * 1024
"""More than any status has: a character of JSON has at most six bytes."""
MAX_PROBLEMS: Final = 16 * 1024
MAX_NOTES: Final = 16 * 1024
"""How many characters of problems and notes are kept; the log has all of them."""
_CHECKSUM_BYTES: Final = 9
_MFD_NOEXEC_SEAL: Final = 8
"""A flag that some systems require (``vm.memfd_noexec``) and that kernels before 6.3 do not know."""


class ReloadPhase(StrEnum):
    """What the gateway does at the moment."""

    SERVING = "serving"
    RELOADING = "reloading"
    STOPPING = "stopping"


class ReloadStatus(Struct, frozen=True):
    """What a gateway says of itself."""

    pid: int
    """The process id as the gateway knows it; in a container it differs from the one outside."""
    file: str
    """The absolute path of the configuration file."""
    version: str = __version__
    addresses: tuple[str, ...] = ()
    state: ReloadPhase = ReloadPhase.SERVING
    generation: int = 1
    asked: int = 0
    """How often a reload was asked for."""
    answered: int = 0
    """How many of these requests the last reload has answered, as it began after them."""
    problems: str = ""
    """Why the last reload changed nothing; empty: it worked, or there was none."""
    notes: tuple[str, ...] = ()
    """The changes of the last reload that need a restart."""


def read_status(descriptor: int) -> ReloadStatus | None:
    """Return what an open file says; ``None``: nothing, or it is being written.

    :raises OSError: it cannot be read.
    """
    found = os.pread(descriptor, MAX_BYTES, 0)
    text = found[_CHECKSUM_BYTES:]
    if found[:_CHECKSUM_BYTES] != _checksum(text):
        return None
    try:
        return decode(text, type=ReloadStatus)
    except DecodeError:
        return None


def _checksum(text: bytes) -> bytes:
    return b"%08x\n" % crc32(text)


def _create() -> int | None:
    """Return a new file; ``None`` where the system has none to give."""
    if not hasattr(os, "memfd_create"):  # Linux alone has it
        return None
    for flags in (_MFD_NOEXEC_SEAL, 0):
        try:
            return os.memfd_create(NAME, os.MFD_CLOEXEC | flags)
        except OSError as error:
            if error.errno != errno.EINVAL:
                return None
    return None


@dataclass(slots=True, eq=False, repr=False)
class ReloadReporter:
    """Keeps the status of this process; until :meth:`publish`, for nobody."""

    create: Callable[[], int | None] = _create
    status: ReloadStatus = field(default_factory=lambda: ReloadStatus(0, ""))
    descriptor: int | None = None
    _file: str = ""
    _answering: int = 0
    """How many requests the reload at work answers."""

    def publish(self, file: str) -> None:
        """Tell, from the next :meth:`ready` on, what becomes of reloads of this configuration file."""
        self._file = file

    def ask(self) -> None:
        """A reload is asked for."""
        self._write(asked=self.status.asked + 1)

    def begin(self) -> None:
        """A reload begins, and answers all that was asked for."""
        self._answering = self.status.asked
        self._write(state=ReloadPhase.RELOADING, problems="", notes=())

    def fail(self, problems: str) -> None:
        """The reload at work changes nothing."""
        self._write(problems=problems[:MAX_PROBLEMS])

    def note(self, text: str) -> None:
        """Something in the configuration needs a restart."""
        free = MAX_NOTES - sum(map(len, self.status.notes))
        if len(text) <= free:
            self._write(notes=(*self.status.notes, text))

    def ready(self, generation: int, addresses: Sequence[str]) -> None:
        """The gateway serves, and the reload at work has come to its end."""
        if self.descriptor is None and self._file:
            self.descriptor = self.create()
        self._write(
            pid=os.getpid(),  # only now: a daemon has forked
            file=self._file,
            state=ReloadPhase.SERVING,
            generation=generation,
            addresses=tuple(addresses),
            answered=self._answering,
        )

    def stopping(self) -> None:
        """The gateway stops, and reloads no more."""
        self._write(state=ReloadPhase.STOPPING)

    def close(self) -> None:
        """Tell nothing more."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _write(self, **changes: object) -> None:
        self.status = replace(self.status, **changes)
        if self.descriptor is None:
            return
        text = encode(self.status)
        whole = _checksum(text) + text
        try:
            os.pwrite(self.descriptor, whole, 0)
            os.ftruncate(self.descriptor, len(whole))
        except OSError:  # no memory is left: nothing here depends on it
            self.close()
