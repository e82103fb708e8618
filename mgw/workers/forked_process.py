"""The fork server's own side, and what each fork does before it becomes a worker.

The server is a copy of the process that started it, without its open files: it waits in one blocking loop for
requests and for the ends of its forks.  A fork is a copy of that, with a reactor of its own: nothing that was
made before may be used with the old one, which belongs to another process.

A file that a copy is not meant to have is replaced with the null device rather than closed, so that its
number is not given to another one: some Python object still owns it, and would close that one day.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import twisted.internet
from twisted.internet.main import installReactor

MAX_MESSAGE_BYTES: Final = 64
BUG_EXIT_CODE: Final = 70
"""What a worker exits with that ended by an exception (``EX_SOFTWARE`` of ``sysexits.h``)."""
OOM_SCORE: Final = 100
"""How much sooner the kernel ends a worker than the supervisor, in thousandths of the memory there is."""

_REACTOR: Final = "twisted.internet.reactor"
_STANDARD_STREAMS: Final = (0, 1, 2)
_LEFT_TO_THE_SUPERVISOR: Final = (signal.SIGINT, signal.SIGHUP)
"""A terminal sends them to all processes of a group."""


@dataclass(frozen=True, slots=True)
class WorkerStart:
    """What a fork begins with."""

    slot: int
    channel: socket.socket
    """The worker's end of the connection with the supervisor's process."""
    reactor: Any
    """A new one, of the class that the process had that was forked; it does not run yet."""


def serve_forks(
    control: socket.socket,
    keep: Collection[int],
    run_worker: Callable[[WorkerStart], int],
    reactor_names: Sequence[dict[str, Any]],
) -> NoReturn:
    """Be the fork server, until the other end of ``control`` is closed.

    :param keep: the open files that workers are to have.
    :param run_worker: is called in each fork; its result is the exit code.
    :param reactor_names: of :func:`find_reactor_names`.
    """
    _name_process("mgw-fork")
    signal.set_wakeup_fd(-1)
    for number in (*_LEFT_TO_THE_SUPERVISOR, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    replace_files({*_STANDARD_STREAMS, control.fileno(), *keep})
    gc.disable()
    server = _ForkServer(control)
    start = server.serve()
    if start is None:
        os._exit(0)
    os._exit(_run_fork(start, run_worker, reactor_names))


@dataclass(slots=True)
class _Request:
    slot: int
    end: socket.socket


@dataclass(slots=True)
class _ForkServer:
    control: socket.socket
    _pids: dict[int, int] = field(default_factory=dict)
    """The forks that live, by the files that tell of their ends (``pidfd_open(2)``)."""

    def serve(self) -> _Request | None:
        """Fork upon request.  Return in the fork; or ``None`` once nobody is there who could ask."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while True:
            for number, _ in poll.poll():
                if number != self.control.fileno():
                    poll.unregister(number)
                    self._report_end(number)
                    continue
                request = self._next_request()
                if request is None:
                    return None
                ended = self._fork(request)
                if ended is None:
                    return request
                if ended >= 0:
                    poll.register(ended, select.POLLIN)

    def _next_request(self) -> _Request | None:
        try:
            text, files, _, _ = socket.recv_fds(self.control, MAX_MESSAGE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            return None
        return _Request(int(text), socket.socket(fileno=files[0])) if text and files else None

    def _fork(self, request: _Request) -> int | None:
        """Fork, and return what tells of the fork's end, -1 where there is none; ``None`` in the fork."""
        try:
            pid = os.fork()
        except OSError as error:
            request.end.close()
            self._say(b"failed %d" % (error.errno or 0))
            return -1
        if not pid:
            self.control.close()
            for number in self._pids:
                os.close(number)
            return None
        request.end.close()
        ended = os.pidfd_open(pid)
        self._pids[ended] = pid
        self._say(b"forked %d" % pid, ended)
        return ended

    def _report_end(self, ended: int) -> None:
        pid = self._pids.pop(ended)
        _, status = os.waitpid(pid, 0)
        os.close(ended)
        self._say(b"exited %d %d" % (pid, os.waitstatus_to_exitcode(status)))

    def _say(self, text: bytes, *files: int) -> None:
        with suppress(OSError):  # nobody is there any more, which the next poll tells
            socket.send_fds(self.control, [text], files)


def _run_fork(
    request: _Request, run_worker: Callable[[WorkerStart], int], reactor_names: Sequence[dict[str, Any]]
) -> int:
    """Be the worker; return its exit code."""
    code = BUG_EXIT_CODE
    try:
        _name_process(f"mgw-worker-{request.slot}")
        _write_own("oom_score_adj", str(OOM_SCORE))
        _use_default_signals()
        gc.enable()
        code = run_worker(WorkerStart(request.slot, request.end, renew_reactor(reactor_names)))
    except BaseException:  # nothing that called this may go on in the fork, whatever it was
        traceback.print_exc(file=sys.__stderr__)
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(Exception):  # closed, or nobody reads it
            if stream is not None:
                stream.flush()
    return code


def _use_default_signals() -> None:
    """Undo what was set, but leave to the supervisor what it decides; SIGQUIT prints where each thread is."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            with suppress(OSError, ValueError):  # those of the system's own
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in _LEFT_TO_THE_SUPERVISOR:
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(signal.SIGQUIT, file=2)


def find_reactor_names() -> list[dict[str, Any]]:
    """Return the names of each module that has the reactor among them.

    This looks at every module, and so writes to the memory of each: 5 MiB that a fork which looked would no
    longer share.
    """
    old: Any = sys.modules[_REACTOR]
    found = [getattr(module, "__dict__", {}) for module in list(sys.modules.values())]
    return [names for names in found if names.get("reactor") is old]  # as Klein has it, which imports it


def renew_reactor(reactor_names: Sequence[dict[str, Any]]) -> Any:  # Any: any reactor
    """Install a new reactor of the class of the old one, in its place wherever a module has it by name."""
    old: Any = sys.modules.pop(_REACTOR)
    new = type(old)()
    if getattr(twisted.internet, "reactor", None) is old:
        del twisted.internet.reactor
    installReactor(new)
    for names in reactor_names:
        names["reactor"] = new
    return new


def replace_files(keep: Collection[int]) -> None:
    """Put the null device in the place of all open files but these."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number not in keep and number != null:
            with suppress(OSError):  # the folder that was listed
                os.fstat(number)
                os.dup2(null, number, inheritable=False)
    os.close(null)


def _name_process(name: str) -> None:
    _write_own("comm", name)


def _write_own(file: str, text: str) -> None:
    with suppress(OSError):  # a system without it
        Path("/proc/self", file).write_text(text, encoding="ascii")
