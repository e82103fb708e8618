"""Record usage events in every sink, and provider failures in the process log.

A sink takes many exchanges in one call (:class:`RowSink`), their lines of JSON (:class:`LineSink`, or
:class:`BlockSink` in one piece), or one event after the other (:class:`EventSink`).  Lines are made once for
all sinks that want them.
No sink is waited for, and none can harm a request: it takes an event at once and does whatever is slow later.
One that raises is counted and reported once a minute, by the kind and the place of the error alone: its
message might quote the event.

The process log says that a provider fails, once a minute for each cause, and why.  The sentence is the one
that the client got.  Of a provider's own words, which may repeat what a client had sent, nothing is written
but the beginning of its error's message, without credentials (:mod:`mgw.usage.error_message`), unless
``hooks.error_messages`` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from json import dumps
from operator import length_hint
from traceback import extract_tb
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.usage.event import SettledExchange, UsageEvent
from mgw.usage.record import encode_block, encode_settled

_log: Final = Logger()
_MAX_UNKNOWN_STOPS: Final = 64
"""How many are remembered; a provider that invents more is not logged any further."""
_MAX_STOP_LENGTH: Final = 64


class _SinkBase(Protocol):
    """What all sinks have."""

    @property
    def name(self) -> str:
        """What it is called in logs and metrics; sinks of one name are counted together."""
        ...

    @property
    def errors(self) -> int:
        """How often it failed by itself, after it had taken an event."""
        ...

    @property
    def dropped(self) -> int:
        """How many events it took and lost."""
        ...

    @property
    def waiting(self) -> int:
        """How many events it has not yet written or delivered; this is asked often."""
        ...

    def flush(self) -> None:
        """Begin to write what waits."""
        ...

    def reopen(self) -> None:
        """Open files anew: they may have been renamed."""
        ...

    def close(self) -> Deferred[None]:
        """Write what waits, within a time limit of its own, and close."""
        ...


class EventSink(_SinkBase, Protocol):
    """Records every event."""

    def record(self, event: UsageEvent) -> None:
        """Take an event, at once."""
        ...


class RowSink(_SinkBase, Protocol):
    """Records exchanges as they were stored when they settled."""

    def record_all(self, rows: Iterator[SettledExchange]) -> None:
        """Take one row after the other, at once.

        Whatever it raises, it has recorded the rows that it took, but for the last of them, which has failed.
        It is then called again with the rest.
        """
        ...


class LineSink(_SinkBase, Protocol):
    """Records the lines of exchanges (:func:`mgw.usage.record.encode_settled`)."""

    def record_lines(self, lines: Sequence[bytes]) -> None:
        """Take lines, at once; the sequence is not changed, and is shared with other sinks."""
        ...


class BlockSink(_SinkBase, Protocol):
    """Records the same lines as one piece."""

    def record_block(self, block: bytes) -> None:
        """Take lines, at once."""
        ...


Sink = EventSink | RowSink | LineSink | BlockSink


class SinkCounts(Struct, frozen=True):
    """How many events one sink, or several of one name, got, failed, dropped and still has."""

    events: int = 0
    errors: int = 0
    dropped: int = 0
    waiting: int = 0

    def __add__(self, other: SinkCounts) -> SinkCounts:
        return SinkCounts(
            self.events + other.events,
            self.errors + other.errors,
            self.dropped + other.dropped,
            self.waiting + other.waiting,
        )


@dataclass(slots=True, eq=False, repr=False)
class _ActiveSink:
    """One sink in use, and what the journal counted of it."""

    sink: Sink
    record_all: Callable[[Iterator[SettledExchange]], None] | None
    """Takes whole rows; ``None``: the sink takes lines."""
    reports: RateLimitedLog
    events: int = 0
    failures: int = 0

    def counts(self) -> SinkCounts:
        sink = self.sink
        return SinkCounts(self.events, self.failures + sink.errors, sink.dropped, sink.waiting)


def _record_all_of(sink: Sink) -> Callable[[Iterator[SettledExchange]], None] | None:
    if hasattr(sink, "record_lines") or hasattr(sink, "record_block"):
        return None
    if hasattr(sink, "record_all"):
        return sink.record_all
    record = sink.record

    def record_each(rows: Iterator[SettledExchange]) -> None:
        for settled in rows:
            record(settled.event())

    return record_each


class _EncodedRows(Struct, frozen=True):
    """The lines of some exchanges, and why others have none."""

    block: bytes
    count: int
    failures: list[Exception]


def _encode_rows(rows: Sequence[SettledExchange]) -> _EncodedRows:
    try:
        return _EncodedRows(encode_block(rows), len(rows), [])
    except Exception:
        lines: list[bytes] = []
        failures: list[Exception] = []
        for settled in rows:
            try:
                lines.append(encode_settled(settled))
            except Exception as error:
                failures.append(error)
        return _EncodedRows(b"".join(lines), len(lines), failures)


@dataclass(slots=True, eq=False, repr=False)
class Journal:
    """The sinks of a process; it outlives every configuration."""

    clock: IReactorTime
    _entries: list[_ActiveSink] = field(default_factory=list)
    _closing: list[_ActiveSink] = field(default_factory=list)
    _closed_counts: dict[str, SinkCounts] = field(default_factory=dict)

    def record_all(self, rows: Sequence[SettledExchange]) -> None:
        """Tell every sink; never raises."""
        encoded: _EncodedRows | None = None
        for entry in self._entries:
            if entry.record_all is not None:
                self._record_rows(entry, entry.record_all, rows)
                continue
            if encoded is None:
                encoded = _encode_rows(rows)
            self._record_lines(entry, encoded)

    def replace(self, sinks: Iterable[Sink]) -> Deferred[None]:
        """Use these sinks from the next event on, and close those that are not among them.

        :returns: fires when the old ones are closed.
        """
        before = {id(entry.sink): entry for entry in self._entries}
        self._entries = [
            before.pop(id(sink))
            if id(sink) in before
            else _ActiveSink(sink, _record_all_of(sink), RateLimitedLog(self.clock))
            for sink in sinks
        ]
        return self._retire(list(before.values()))

    def flush(self) -> None:
        """Have every sink write what waits."""
        self._for_each(lambda sink: sink.flush())

    def reopen(self) -> None:
        """Have every sink open its files anew."""
        self._for_each(lambda sink: sink.reopen())

    def close(self) -> Deferred[None]:
        """Close every sink; later events go nowhere.

        :returns: fires when all are closed; each has a time limit of its own.
        """
        return self.replace(())

    def counts_by_sink(self) -> dict[str, SinkCounts]:
        """Return the counts by name of sink; but for what waits, they only ever grow."""
        found = dict(self._closed_counts)
        for entry in (*self._entries, *self._closing):
            found[entry.sink.name] = found.get(entry.sink.name, SinkCounts()) + entry.counts()
        return found

    def _record_rows(
        self,
        entry: _ActiveSink,
        record_all: Callable[[Iterator[SettledExchange]], None],
        rows: Sequence[SettledExchange],
    ) -> None:
        waiting, left = iter(rows), len(rows)
        while left:
            try:
                record_all(waiting)
            except Exception as error:
                self._on_failure(entry, error)
                if length_hint(waiting) == left:
                    next(waiting)  # it failed before it took one, and must not do so for ever
                entry.events += left - length_hint(waiting) - 1
                left = length_hint(waiting)
            else:
                entry.events += left
                break

    def _record_lines(self, entry: _ActiveSink, encoded: _EncodedRows) -> None:
        sink: Any = entry.sink  # Any: it takes lines, as it has no record_all
        for error in encoded.failures:
            self._on_failure(entry, error)
        try:
            if hasattr(sink, "record_block"):
                sink.record_block(encoded.block)
            else:
                sink.record_lines(encoded.block.splitlines(keepends=True))  # JSON has no other line ends
        except Exception as error:
            self._on_failure(entry, error)
        else:
            entry.events += encoded.count

    def _for_each(self, action: Callable[[Sink], None]) -> None:
        for entry in self._entries:
            try:
                action(entry.sink)
            except Exception as error:
                self._on_failure(entry, error)

    def _retire(self, entries: list[_ActiveSink]) -> Deferred[None]:
        closing: list[Deferred[None]] = []
        for entry in entries:
            self._closing.append(entry)
            try:
                closed = entry.sink.close()
            except Exception as error:
                self._on_failure(entry, error)
                self._remove(entry)
            else:
                closing.append(closed.addBoth(self._on_closed, entry))
        return DeferredList(closing).addCallback(lambda _: None)

    def _on_closed(self, result: Failure | None, entry: _ActiveSink) -> None:
        if isinstance(result, Failure) and result.value is not None:
            self._on_failure(entry, result.value)
        self._remove(entry)

    def _remove(self, entry: _ActiveSink) -> None:
        self._closing.remove(entry)
        name = entry.sink.name
        counts = replace(entry.counts(), waiting=0)  # what was left is in files, or lost
        self._closed_counts[name] = self._closed_counts.get(name, SinkCounts()) + counts

    def _on_failure(self, entry: _ActiveSink, error: BaseException) -> None:
        entry.failures += 1
        if entry.reports.is_due():
            frames = extract_tb(error.__traceback__)
            place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "an unknown place"
            _log.error(
                "usage sink {sink} failed: {kind} at {place}; {quiet} more since the last report",
                sink=entry.sink.name,
                kind=type(error).__name__,
                place=place,
                quiet=entry.reports.take_suppressed(),
            )


class ProviderFailure(Struct, frozen=True):
    """One request that a provider failed."""

    provider: str
    cause: str
    sentence: str
    """Our own sentence about the error, complete."""
    detail: str
    """What the client was not told, such as an address; may be empty."""
    request_id: str
    message: str | None = None
    """The provider's message, as it may be shown."""


@dataclass(slots=True, eq=False, repr=False)
class UnknownStopLog:
    """Logs each stop reason that nobody knows once; providers invent some (contract 8.21)."""

    _seen: set[tuple[str, str]] = field(default_factory=set)

    def note(self, provider: str, word: str) -> None:
        """Log a word of a provider, unless it was logged before."""
        seen = (provider, word[:_MAX_STOP_LENGTH])
        if seen in self._seen or len(self._seen) >= _MAX_UNKNOWN_STOPS:
            return
        self._seen.add(seen)
        _log.warn(
            "provider {provider} sent the unknown finish reason {word!r}, which is treated as a normal "
            "finish",
            provider=provider,
            word=seen[1],
        )


@dataclass(slots=True, eq=False, repr=False)
class FailureLog:
    """Writes the warnings; there are as many clocks in it as providers and causes."""

    _logs: dict[tuple[str, str], RateLimitedLog] = field(default_factory=dict)

    def note(self, failure: ProviderFailure, clock: IReactorTime) -> None:
        """Warn, unless the same was said within the last minute."""
        suppressed = self.claim(failure.provider, failure.cause, clock)
        if suppressed is not None:
            self.write(failure, suppressed)

    def claim(self, provider: str, cause: str, clock: IReactorTime) -> int | None:
        """Return how many warnings were suppressed, if one is due, which the caller writes; else ``None``."""
        key = (provider, cause)
        limited = self._logs.get(key)
        if limited is None:
            limited = self._logs[key] = RateLimitedLog(clock)
        return limited.take_suppressed() if limited.is_due() else None

    def write(self, failure: ProviderFailure, suppressed: int) -> None:
        """Warn."""
        _log.warn(
            "{sentence}{detail}{said} (provider={provider} error={cause} request_id={request_id}){more}",
            sentence=failure.sentence,
            detail=f", {failure.detail}" if failure.detail else "",
            said="" if failure.message is None else f": {dumps(failure.message, ensure_ascii=False)}",
            provider=failure.provider,
            cause=failure.cause,
            request_id=failure.request_id,
            more=f"; {suppressed} more of these since the last warning" if suppressed else "",
        )
