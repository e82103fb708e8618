"""Running gateways on this machine, found in ``/proc`` by a file that each keeps open.

A process is a gateway if it has the file of :mod:`mgw.ops.reload_status`, and this names it: a command line
proves nothing.  The process is held by a file of its own (``pidfd_open(2)``) before that is looked at, so
that a signal never reaches another process that has got its number since.
"""

from __future__ import annotations

import os
import pwd
import re
import select
import signal
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mgw.ops.reload_status import LINK, ReloadStatus, read_status

PROC: Final = Path("/proc")
_MAX_BYTES: Final = 1024 * 1024
"""The most that is read of a command line, an environment or a status, which the kernel bounds as well."""
_COMMANDS: Final = re.compile(
    rb"\0(?:[^\0]*/)?mgw\0run\0|\0-m\0mgw\.cli\.main\0run\0|\0(?:[^\0]*/)?twistd\0.*\0mgw\0", re.DOTALL
)
"""What gateways are started with."""


@dataclass(slots=True)
class RunningGateway:
    """A running gateway."""

    pid: int
    process: int
    """The file that stands for its process."""
    descriptor: int
    """The file with its status."""
    status: ReloadStatus
    is_contained: bool
    """Whether it runs in a container, where files have other places."""
    proc: Path = PROC

    def refresh(self) -> ReloadStatus:
        """Return its status of now, or the last one that could be read."""
        self.status = read_status(self.descriptor) or self.status
        return self.status

    def ends_within(self, seconds: float) -> bool:
        """Wait for the end of its process, and say whether it has come."""
        return bool(select.select([self.process], [], [], seconds)[0])

    def ask_to_reload(self) -> None:
        """Send it SIGHUP.

        :raises OSError: it has ended, or this user may not.
        """
        signal.pidfd_send_signal(self.process, signal.SIGHUP)

    def environment(self) -> Mapping[str, str] | None:
        """Return what it was started with; ``None``: this user may not know."""
        try:
            found = _read(self.proc / str(self.pid) / "environ")
        except OSError:
            return None
        pairs = (os.fsdecode(entry).partition("=") for entry in found.split(b"\0") if b"=" in entry)
        return {name: value for name, _, value in pairs}

    def folder(self) -> str | None:
        """Return its current folder, to which relative names of files refer; ``None``: as above."""
        try:
            return os.readlink(self.proc / str(self.pid) / "cwd")
        except OSError:
            return None


@dataclass(frozen=True, slots=True)
class Concealed:
    """A process that looks like a gateway, and of which this user may know no more."""

    pid: int
    user: str


@dataclass(slots=True)
class Processes:
    """What was found."""

    gateways: list[RunningGateway] = field(default_factory=list)
    concealed: list[Concealed] = field(default_factory=list)


def find_gateways(proc: Path = PROC) -> Processes:
    """Look at every process.

    :raises OSError: there is no ``/proc``.
    """
    found = Processes()
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdecimal()):
        with suppress(ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
            _look_at(pid, proc, found)
    return found


def _look_at(pid: int, proc: Path, found: Processes) -> None:
    folder = proc / str(pid)
    try:
        if not _status_links(folder):
            return
        process = os.pidfd_open(pid)
        gateway = _gateway_of(pid, process, folder)  # all of it again, now that the process is held
    except PermissionError:
        if _COMMANDS.search(_command_of(folder)):
            found.concealed.append(Concealed(pid, _user_of(folder)))
        return
    if gateway is None:
        os.close(process)
    else:
        found.gateways.append(gateway)


def _gateway_of(pid: int, process: int, folder: Path) -> RunningGateway | None:
    """Return a process as a gateway, if it is one.

    :raises PermissionError: that is not for this user to know.
    """
    numbers = _numbers_of(folder)
    for link in _status_links(folder):
        descriptor = os.open(link, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = read_status(descriptor) if stat.S_ISREG(os.fstat(descriptor).st_mode) else None
        if status is not None and status.pid == numbers[-1]:  # else a gateway has forked it
            is_contained = len(numbers) > 1
            return RunningGateway(pid, process, descriptor, status, is_contained, folder.parent)
        os.close(descriptor)
    return None


def _status_links(folder: Path) -> list[Path]:
    found = []
    for name in os.listdir(folder / "fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(folder / "fd" / name) == LINK:
                found.append(folder / "fd" / name)
    return found


def _command_of(folder: Path) -> bytes:
    try:
        return b"\0" + _read(folder / "cmdline")
    except PermissionError:  # some systems show nobody the processes of others (hidepid)
        return b""


def _numbers_of(folder: Path) -> list[int]:
    """Return the number of a process here, and in each container around it, the innermost last."""
    for line in _read(folder / "status").splitlines():
        if line.startswith(b"NSpid:"):
            return [int(number) for number in line.split()[1:]]
    return [int(folder.name)]  # kernels before 4.1


def _user_of(folder: Path) -> str:
    user = folder.stat().st_uid
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_MAX_BYTES)
