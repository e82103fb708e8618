"""Files that an operator names, read so that none of them can block the process.

A path may lead to anything by the time it is opened: to a named pipe that nobody writes to, to a terminal, to
a device without an end.  So it is opened without blocking, must be a regular file (a link to one is), and is
read up to a bound and one byte more, which tells that it is larger.

A disk may still stall: while requests are served, all of it is done in a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MAX_TOKEN_FILE: Final = 64 * 1024
"""Bytes; of a file that holds one token or one key."""
MAX_CERTIFICATE_FILE: Final = 4 * 1024 * 1024
"""Bytes; of certificates: the authorities of a system take some hundred thousand."""

_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIECE: Final = 256 * 1024


def read_regular_file(path: str | os.PathLike[str], max_bytes: int) -> bytes:
    """Return what a file contains.

    :raises OSError: it cannot be opened or read, is no regular file, or has more than ``max_bytes``.
    """
    with open_regular_file(path) as descriptor:
        try:
            content = read_up_to(descriptor, max_bytes + 1)
        except OSError as error:
            error.filename = os.fspath(path)  # of what is open, no name is known
            raise
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", os.fspath(path))
    return content


@contextmanager
def open_regular_file(path: str | os.PathLike[str], more_flags: int = 0) -> Iterator[int]:
    """Open a file for reading within a block; gives its descriptor.

    :param more_flags: as ``O_NOFOLLOW``.
    :raises OSError: it cannot be opened, or is no regular file.
    """
    _check(
        os.stat(path, follow_symlinks=not more_flags & os.O_NOFOLLOW), path
    )  # some devices act when opened
    descriptor = os.open(path, _FLAGS | more_flags)
    try:
        _check(os.fstat(descriptor), path)
        yield descriptor
    finally:
        os.close(descriptor)


def read_up_to(descriptor: int, max_bytes: int) -> bytes:
    """Return what comes of an open file, but no more than ``max_bytes``."""
    pieces: list[bytes] = []
    while max_bytes and (piece := os.read(descriptor, min(max_bytes, _PIECE))):
        pieces.append(piece)
        max_bytes -= len(piece)
    return b"".join(pieces)


def _check(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISLNK(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
