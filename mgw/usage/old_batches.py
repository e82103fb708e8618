"""Batches of usage events that version 0.4 and older left in files of lines, and their way into a database.

::

    <spool.dir>/events/<sink>/lock                   held while directories are made or removed
    <spool.dir>/events/<sink>/<owner>/lock           held as long as the owner lives
    <spool.dir>/events/<sink>/<owner>/<key>.jsonl    a batch

A file is deleted when its batch is stored elsewhere.  An owner that still lives keeps its files to its end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import ExitStack, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from typing import Final

from mgw.usage.spool_database import Piece

_LOCK: Final = "lock"
_FILE: Final = re.compile(r"([0-9a-f]{24})\.jsonl")
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def import_batches(directory: str, sink: str, store: Callable[[Piece], object]) -> None:
    """Store the batches of owners that have died, and delete their files.

    Whatever fails, each batch is in its file or stored.
    """
    place = os.path.join(directory, sink)
    if not os.path.isdir(place):
        return
    with ExitStack() as locks:
        _lock(place, locks, LOCK_EX)
        for name in os.listdir(place):
            owner = os.path.join(place, name)
            if os.path.isdir(owner):
                with suppress(BlockingIOError, PermissionError), ExitStack() as lock:
                    _lock(owner, lock, LOCK_EX | LOCK_NB)
                    _import_owner(owner, sink, store)
        _remove_if_empty(place)


def _import_owner(owner: str, sink: str, store: Callable[[Piece], object]) -> None:
    for found in filter(None, map(_FILE.fullmatch, sorted(os.listdir(owner)))):
        path = os.path.join(owner, found[0])
        with os.fdopen(os.open(path, _FLAGS | os.O_RDONLY), "rb") as file:
            lines = file.read()
        lines = lines[: lines.rfind(b"\n") + 1]  # a dying process may have written a line in part
        if lines:
            store(Piece(found[1], 0, sink, lines.count(b"\n"), lines))
        os.unlink(path)
    _remove_if_empty(owner)


def _lock(directory: str, locks: ExitStack, operation: int) -> None:
    lock = os.open(os.path.join(directory, _LOCK), _FLAGS | os.O_RDWR | os.O_CREAT, 0o600)
    locks.callback(os.close, lock)
    flock(lock, operation)


def _remove_if_empty(directory: str) -> None:
    if os.listdir(directory) == [_LOCK]:
        os.unlink(os.path.join(directory, _LOCK))
        os.rmdir(directory)
