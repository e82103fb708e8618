"""Processes of the gateway and of the simulator that are forked from one that has imported them already.

Most of what a process costs that a test starts is its imports: 0.6 of 0.75 CPU seconds for a gateway.  A fork
server, one for each process of tests, does them once and then forks itself for each program, as the one of
``multiprocessing`` does; from there on all goes as in an interpreter of its own: command line, folder,
environment, streams, signals and exit status.  The fork is a child of the process that asked for it.

What such a process does not show is that a fresh interpreter imports all that it needs, and how fast:
:func:`start_program` starts one, for those tests that are about it.  In one thing a fork differs: its lines
wait for others for 10 ms and not for 50, since nearly every test over sockets waits for a line.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Final, Protocol, TypeAlias

from mgw.reactor.lean_start import without_openssl

ROOT: Final = Path(__file__).resolve().parents[2]
_WITHOUT_OPENSSL: Final = (
    "twisted.internet.epollreactor",
    "twisted.internet.endpoints",
    "mgw.reactor.treq_client",
)
"""What a gateway imports so, too."""
_PRELOADED: Final = (
    "twisted.scripts.twistd",
    "twisted.application.app",
    "twisted.application.reactors",
    "twisted.internet.stdio",
    "mgw.app.check",
    "mgw.cli.auth",
    "mgw.cli.usage",
    "mgw.app.build_operations",
    "mgw.app.daemon",
    "mgw.app.make_service",
    "mgw.app.service",
    "mgw.credentials.token_client",
    "mgw.dashboard.build",
    "mgw.upstream.certificate_names",
    "mgw.usage.receiver",
    "mgw.web.tls",
    "mgw_sim.daemon",
    "mgw_sim.service",
)
_REACTOR: Final = "twisted.internet.reactor"
_PATIENCE: Final = 0.01
"""Seconds that a line of a forked gateway waits for others.

The record of a request waits 20 ms before, as in any gateway: who has seen its event knows that connections
to its provider have settled (:data:`mgw.upstream.pool.SETTLE_SECONDS`) and are used again.
"""
_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)
_MAX_REQUEST: Final = 128 * 1024
"""Bytes of a request: a command line and an environment."""


@dataclass
class ForkedProcess:
    """A child of this process, with as much of ``subprocess.Popen`` as tests use."""

    pid: int
    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    returncode: int | None = None
    _ended: int = field(init=False)

    def __post_init__(self) -> None:
        self._ended = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Return its exit status once it has ended: below zero for the signal that ended it."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                os.close(self._ended)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end.

        :param timeout: seconds.
        :raises subprocess.TimeoutExpired: it runs on.
        """
        if self.returncode is None:
            select.select([self._ended], [], [], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)


Process: TypeAlias = ForkedProcess | subprocess.Popen[bytes]


@dataclass(frozen=True)
class Streams:
    """Standard input, output and error, as ``subprocess.Popen`` takes them."""

    stdin: int = subprocess.DEVNULL
    stdout: int = subprocess.PIPE
    stderr: int | None = subprocess.PIPE


PIPES: Final = Streams()


class Start(Protocol):
    """Start what Python starts with these arguments: a script, or ``-m`` and a module, and its own."""

    def __call__(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Streams = ...
    ) -> Process:
        """Start it in ``folder``, with ``environ`` beside what the environment of this process has."""


def start_program(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Streams = PIPES
) -> subprocess.Popen[bytes]:
    """Start it in an interpreter of its own; see :class:`Start`."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=_environ(environ),
        stdin=streams.stdin,
        stdout=streams.stdout,
        stderr=streams.stderr,
    )


def fork_program(
    arguments: Sequence[str], folder: Path, environ: Mapping[str, str], streams: Streams = PIPES
) -> ForkedProcess:
    """Start it as a fork; see :class:`Start`."""
    assert not any(name.startswith("PYTHON") for name in environ), "only an interpreter's start reads that"
    program = _Program(
        list(arguments), str(folder), _environ(environ), resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    request = json.dumps(asdict(program)).encode()
    assert len(request) <= _MAX_REQUEST
    ends = [_End(streams.stdin, 0), _End(streams.stdout, 1), _End(streams.stderr, 2)]
    channel = _server()
    try:
        with _adopting():
            socket.send_fds(channel, [request], [end.theirs for end in ends])
            pid = channel.recv(16)
            assert pid, "the fork server has exited; its standard error says why"
            assert channel.recv(16) == b"forked"
    finally:
        for end in ends:
            end.close_theirs()
    return ForkedProcess(int(pid), ends[0].ours, ends[1].ours, ends[2].ours)


def _environ(more: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


class _End:
    """One of the three streams: what the program has of it, and what we have where it is a pipe."""

    def __init__(self, wanted: int | None, number: int) -> None:
        self.ours: IO[bytes] | None = None
        self._opened = True
        if wanted == subprocess.PIPE:
            reading, writing = os.pipe()
            self.theirs, kept = (reading, writing) if number == 0 else (writing, reading)
            self.ours = os.fdopen(kept, "wb" if number == 0 else "rb", buffering=0)
        elif wanted == subprocess.DEVNULL:
            self.theirs = os.open(os.devnull, os.O_RDWR)
        else:
            self.theirs, self._opened = number if wanted is None else wanted, False

    def close_theirs(self) -> None:
        """Close what only the program needs."""
        if self._opened:
            os.close(self.theirs)


@contextmanager
def _adopting() -> Iterator[None]:
    """Have processes whose parent ends become children of this one, as the fork's parent does at once."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    assert prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@functools.cache
def _server() -> socket.socket:
    """Return the channel to the fork server, which ends with it and is started at the first need of it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno())],
            cwd=ROOT,
            env=_environ({}),
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
    return ours


@dataclass(frozen=True)
class _Program:
    """What a fork is to become."""

    arguments: list[str]
    folder: str
    environ: dict[str, str]
    max_files: tuple[int, int]
    """The soft and the hard limit of open files, which a test may have lowered for its children."""

    def run(self) -> None:
        """Run it as ``__main__``, in a process that has its streams."""
        resource.setrlimit(resource.RLIMIT_NOFILE, self.max_files)
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environ)
        if self.arguments[0] == "-m":
            sys.argv = self.arguments[1:]
            sys.path[0] = self.folder
            runpy.run_module(self.arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = self.arguments
            sys.path[0] = str(Path(self.arguments[0]).parent)
            runpy.run_path(self.arguments[0], run_name="__main__")


def _serve(channel: socket.socket) -> _Program | None:
    """Fork for each request.  Return in the fork, with what it is to run; or None at the end of requests."""
    while True:
        request, streams, _, _ = socket.recv_fds(channel, _MAX_REQUEST, 3)
        if not request:
            return None
        middle = os.fork()
        if middle:
            for stream in streams:
                os.close(stream)
            os.waitpid(middle, 0)  # whose child is of the process that asked from now on
            channel.send(b"forked")
            continue
        middle = os.getpid()
        here, there = os.pipe()
        pid = os.fork()
        if pid:
            channel.send(b"%d" % pid)
            os._exit(0)
        os.close(there)
        os.read(here, 1)  # its end: the one in between has gone, or is about to
        os.close(here)
        while os.getppid() == middle:
            os.sched_yield()
        channel.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        return _Program(**json.loads(request))


def _preload() -> None:
    """Import what programs need, but for the reactor: each has its own."""
    sys.modules[_REACTOR] = ModuleType(_REACTOR)  # Klein imports it for its own ``run``
    with without_openssl():
        for name in _WITHOUT_OPENSSL:
            import_module(name)
    for name in _PRELOADED:
        import_module(name)
    del sys.modules[_REACTOR]
    _hasten()
    gc.collect()
    gc.freeze()  # or each fork's collections would copy the memory that it shares


def _hasten() -> None:
    """Let lines wait for others for a short time only."""
    from mgw.usage.line_writer import INTERVAL, LineWriter  # the tests' own process may have no use for it

    construct = LineWriter.__init__
    assert construct.__defaults__ is not None
    assert INTERVAL in construct.__defaults__
    construct.__defaults__ = tuple(
        _PATIENCE if default == INTERVAL else default for default in construct.__defaults__
    )


def _main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    _preload()
    program = _serve(channel)
    if program is not None:
        program.run()


if __name__ == "__main__":
    _main()
