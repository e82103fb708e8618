"""A file of lines that is renamed when it is large enough, and replaced (``rotate_bytes``, ``keep``).

The old file gets the time as its ending, ``usage.jsonl.20260131T120000.250Z``: names sort by time, and no
file is renamed twice.  Lines stay whole.  These calls may block, as those of :mod:`mgw.usage.output` do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from mgw.usage.output import FileOutput

_STAMP: Final = re.compile(r"\.\d{8}T\d{6}\.\d{3}Z")
_NEWLINE: Final = 10


class RotatingOutput:
    """A file that is appended to, and rotated.

    :param keep: how many old files are kept; ``None`` for all.
    :param wall: Unix seconds.
    :param report: told why it cannot be rotated; it is written on then, for as many bytes again.
    """

    __slots__ = ("_file", "_keep", "_line_start", "_path", "_report", "_rotate_bytes", "_size", "_wall")

    def __init__(
        self,
        path: str,
        rotate_bytes: int,
        keep: int | None,
        wall: Callable[[], float],
        report: Callable[[OSError], None],
    ) -> None:
        self._file = FileOutput(path)
        self._path = os.path.realpath(path)
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        self._wall = wall
        self._report = report
        self._size = self._file.size
        self._line_start = not self._file.mid_line

    @property
    def mid_line(self) -> bool:
        """Whether what was there before ends in a torn line."""
        return not self._line_start

    def write(self, data: memoryview) -> int:
        """Write some bytes; to a new file where they begin a line and the old one would become too large."""
        if self._line_start and self._size and self._size + len(data) > self._rotate_bytes:
            self._rotate()
        written = self._file.write(data)
        self._size += written
        self._line_start = data[written - 1] == _NEWLINE
        return written

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _rotate(self) -> None:
        self._size = 0
        if not self._file.is_regular:
            return
        try:
            os.rename(self._path, self._free_name())
            before, self._file = self._file, FileOutput(self._path)
            before.close()
            self._prune()
        except OSError as error:
            self._report(error)

    def _free_name(self) -> str:
        milliseconds = int(self._wall() * 1000)
        while True:
            moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
            name = f"{self._path}.{moment:%Y%m%dT%H%M%S}.{milliseconds % 1000:03d}Z"
            if not os.path.lexists(name):
                return name
            milliseconds += 1

    def _prune(self) -> None:
        if self._keep is None:
            return
        folder, own = os.path.split(self._path)
        old = sorted(
            name
            for name in os.listdir(folder)
            if name.startswith(own) and _STAMP.fullmatch(name.removeprefix(own))
        )
        for name in old[: -self._keep]:
            os.unlink(os.path.join(folder, name))
