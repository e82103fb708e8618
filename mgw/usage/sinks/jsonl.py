"""One JSON line per event, to standard output, standard error or a file (``hooks.jsonl.output``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from twisted.internet.defer import Deferred

from mgw.config.quoting import redact
from mgw.config.settings import JsonlSettings
from mgw.usage.line_writer import LineWriter
from mgw.usage.output import STDERR, STDOUT, DescriptorOutput, FileOutput, Output
from mgw.usage.record import SettledExchange, encode_settled
from mgw.usage.sinks import LineWriterFactory


@dataclass(slots=True)
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

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Take rows; their lines are written within a twentieth of a second."""
        lines: list[bytes] = []
        try:
            lines.extend(map(encode_settled, rows))
        finally:
            self.writer.write_all(lines)

    def flush(self) -> None:
        """Begin to write what waits."""
        self.writer.flush()

    def reopen(self) -> None:
        """Open the file anew; no line is lost between the two."""
        self.writer.reopen()

    def close(self) -> Deferred[None]:
        """Write what waits and close."""
        return self.writer.close()


def output_opener(output: str) -> Callable[[], Output]:
    """Return what opens ``stdout``, ``stderr`` or the file of that path."""
    if output == "stdout":
        return partial(DescriptorOutput, STDOUT)
    if output == "stderr":
        return partial(DescriptorOutput, STDERR)
    return partial(FileOutput, output)


def open_sink(settings: JsonlSettings, new_line_writer: LineWriterFactory) -> JsonlSink:
    """Open the output of ``hooks.jsonl``.

    :raises ValueError: it cannot be opened.
    """
    writer = new_line_writer(f"usage events to {settings.output}", output_opener(settings.output))
    try:
        writer.open()
    except OSError as error:
        reason = f"{redact(settings.output)} cannot be opened: {error.strerror}"
        raise ValueError(f"hooks.jsonl.output: {reason}") from None
    return JsonlSink(writer)
