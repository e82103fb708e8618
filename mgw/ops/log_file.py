"""Where the process log goes: standard error, or a file that can be opened anew after logrotate moved it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from mgw.usage.outputs import STDERR, DescriptorOutput, FileOutput, Output


@dataclass(slots=True)
class LogFile:
    """The stream behind twistd's observer, as far as the observer asks of a file.

    :param path: of the file; ``None``: standard error, whatever becomes of ``sys.stderr``.
    """

    path: str | None
    _descriptor: int = field(default=STDERR, repr=False)

    def __post_init__(self) -> None:
        self.reopen()

    def reopen(self) -> None:
        """Open the file anew.

        :raises OSError: it cannot be opened; the old one stays in use.
        """
        if self.path is None:
            return
        opened = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        before, self._descriptor = self._descriptor, opened
        if before != STDERR:
            os.close(before)

    def write(self, text: str) -> None:
        """Append a text."""
        os.write(self._descriptor, text.encode("utf-8", "replace"))

    def flush(self) -> None:
        """Nothing is held back."""

    def output(self) -> Output:
        """Return the output for plain lines, which lie beside the observer's."""
        return DescriptorOutput(STDERR) if self.path is None else FileOutput(self.path)
