"""Read the public keys of an issuer from a file, again when it changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mgw.clients.tokens.key_set import MAX_SET_BYTES
from mgw.identity.jwks_fetch import parsed
from mgw.identity.key_source import FetchedKeys, KeyFetchError
from mgw.reactor.daemon_threads import ThreadRunner
from mgw.reactor.regular_file import open_regular_file, read_up_to

LOOK_SECONDS: Final = 1.0
"""How often a file is looked at."""
FURTHER_READINGS: Final = 2
"""At how many of the next looks a file that has changed is read again: times are only as fine as the clock of
a kernel or of an NFS, so another set of the same size, written right behind it, may leave all as they are."""

Mark = tuple[int, ...]
"""Device, inode, size, and the times of modification and of change in nanoseconds."""


def read_if_changed(path: str, known: Mark | None) -> tuple[Mark, bytes | None]:
    """Return what tells one state of a file from another, and its content if that is new; this blocks.

    :param known: the state in which the content is not asked for.
    :raises OSError: it cannot be read.
    """
    with open_regular_file(path) as descriptor:
        found = os.fstat(descriptor)
        mark = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        return mark, None if mark == known else read_up_to(descriptor, MAX_SET_BYTES + 1)


@dataclass(slots=True, eq=False, repr=False)
class JwksFile:
    """Reads one file.

    :param run: looks at it and reads it.
    :param compute: parses what it has read.
    """

    path: str
    run: ThreadRunner
    compute: ThreadRunner
    read: Callable[[str, Mark | None], tuple[Mark, bytes | None]] = field(default=read_if_changed)
    _mark: Mark | None = None
    _further: int = 0
    """At how many more looks it is read anyway."""
    _last: FetchedKeys | None = None
    _fault: str | None = None
    """What is wrong with the file as it was read last."""

    async def __call__(self) -> FetchedKeys:
        """Return the keys in the file: the same object as long as it stays as it is.

        :raises KeyFetchError: there are none.
        """
        try:
            known = None if self._further else self._mark
            mark, document = await self.run(partial(self.read, self.path, known))
        except OSError as error:
            self._mark = None
            raise KeyFetchError(f"jwks_file cannot be read: {error.strerror}") from None
        if document is not None:
            self._last, self._fault = await self._read(document)
            self._further = self._further - 1 if mark == self._mark else FURTHER_READINGS
            self._mark = mark  # only now: if this was cancelled meanwhile, the file is read again
        if self._fault is not None:
            raise KeyFetchError(self._fault)
        assert self._last is not None, "it was read, and nothing was wrong"
        return self._last

    async def _read(self, document: bytes) -> tuple[FetchedKeys | None, str | None]:
        """Return the keys, or the last ones and what is wrong with these."""
        last = self._last
        if last is not None and last.document == document:
            return last, None
        if len(document) > MAX_SET_BYTES:
            return last, f"jwks_file has more than {MAX_SET_BYTES} bytes"
        try:
            keys = await parsed(self.compute, document, "jwks_file")
        except KeyFetchError as error:
            return last, str(error)
        return FetchedKeys(document, keys, LOOK_SECONDS), None
