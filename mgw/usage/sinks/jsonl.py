"""One JSON line per event, to standard output, standard error or a file (``hooks.jsonl.output``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from twisted.internet.defer import Deferred

from mgw.config.file_faults import unwritable
from mgw.config.hooks import JsonlSettings
from mgw.config.quoting import redact
from mgw.usage.line_writer import LineWriter
from mgw.usage.output import STDERR, STDOUT, DescriptorOutput, FileOutput, Output
from mgw.usage.rotation import RotatingOutput
from mgw.usage.sinks import SinkTools


@dataclass(slots=True, eq=False, repr=False)
class JsonlSink:
    """A usage sink that writes lines; :mod:`mgw.usage.line_writer` states its rules."""

    writer: LineWriter
    name: str = "jsonl"

    @property
    def errors(self) -> int:
        """How many writes failed."""
        return self.writer.errors

    @property
    def dropped(self) -> int:
        """How many events went because the output was too slow or failed."""
        return self.writer.dropped

    @property
    def waiting(self) -> int:
        """How many events are not written yet."""
        return self.writer.waiting

    def record_block(self, block: bytes) -> None:
        """Take lines, which are written within a twentieth of a second."""
        self.writer.write_block(block)

    def flush(self) -> None:
        """Begin to write what waits."""
        self.writer.flush()

    def reopen(self) -> None:
        """Open the file anew; no line is lost between the two."""
        self.writer.reopen()

    def close(self) -> Deferred[None]:
        """Write what waits and close."""
        return self.writer.close()


def output_opener(
    settings: JsonlSettings, wall: Callable[[], float], report: Callable[[OSError], None]
) -> Callable[[], Output]:
    """Return what opens ``stdout``, ``stderr`` or the file of that path.

    :param wall: Unix seconds, for the names of rotated files.
    :param report: told, in the thread that writes, why a file cannot be rotated.
    """
    output = settings.output
    if output == "stdout":
        return partial(DescriptorOutput, STDOUT)
    if output == "stderr":
        return partial(DescriptorOutput, STDERR)
    if settings.rotate_bytes is None:
        return partial(FileOutput, output)
    return partial(RotatingOutput, output, settings.rotate_bytes, settings.keep, wall, report)


def open_sink(settings: JsonlSettings, tools: SinkTools) -> JsonlSink:
    """Open the output of ``hooks.jsonl``.

    :raises ValueError: it cannot be opened.
    """

    def report(error: OSError) -> None:
        tools.reactor.callFromThread(writer.note_error, error)

    opener = output_opener(settings, tools.wall, report)
    writer = tools.line_writer(f"usage events to {settings.output}", opener)
    try:
        writer.open()
    except OSError as error:
        reason = unwritable(settings.output)
        if reason is None:
            reason = f"{redact(settings.output)} cannot be opened: {error.strerror}"
        raise ValueError(f"hooks.jsonl.output: {reason}") from None
    return JsonlSink(writer)
