"""Kill a process at each of its system calls: where a call begins, and where it has ended (ptrace(2)).

What the kernel did until then stays; nothing else happens, as with ``kill -9``.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from struct import calcsize, pack
from typing import Final

_TRACEME: Final = 0
_SYSCALL: Final = 24
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = [ctypes.c_long] * 4
_LIBC.ptrace.restype = ctypes.c_long
_NUMBER: Final = "i"

Work = Callable[[Callable[[], None]], None]
"""Work in steps; it calls its argument after each of them."""


def killed_at_each_call(work: Work, stops: range) -> Iterator[tuple[int, int]]:
    """Run work once for each stop, and kill it there; yield the stop and how many steps were done.

    It ends with the first run that comes to its end, which is yielded too.  This process has no threads.
    """
    for stop in stops:
        read, write = os.pipe()
        child = os.fork()
        if not child:
            _be_traced(work, write)
        os.close(write)
        has_ended = _kill_at(child, stop)
        with os.fdopen(read, "rb") as steps:
            done = steps.read()
        yield stop, len(done) // calcsize(_NUMBER)
        if has_ended:
            return


def _be_traced(work: Work, write: int) -> None:
    count = 0

    def on_step() -> None:
        nonlocal count
        count += 1
        os.write(write, pack(_NUMBER, count))

    status = 1
    try:
        if _LIBC.ptrace(_TRACEME, 0, 0, 0) == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
            work(on_step)
            status = 0
    finally:
        os._exit(status)


def _kill_at(child: int, stop: int) -> bool:
    """Kill a traced child at a stop; return whether it had ended before."""
    at = -1
    while True:
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            assert os.WEXITSTATUS(status) == 0, "it failed by itself"
            return True
        assert os.WIFSTOPPED(status), status
        at += 1
        if at == stop:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        _LIBC.ptrace(_SYSCALL, child, 0, 0)
