"""Tell every sink what happened; wait for none of them, and let none harm a request.

A sink takes an event at once and does whatever is slow later.  One that raises is counted and reported once a
minute, by the kind and the place of the error alone: its message might quote the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from traceback import extract_tb
from typing import Final, Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from mgw.reactor.rate_limited_log import RateLimitedLog
from mgw.usage.event import UsageEvent

_log: Final = Logger()


class Sink(Protocol):
    """Whoever is told of every event."""

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

    def record(self, event: UsageEvent) -> None:
        """Take an event, at once."""
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


class Tally(Struct, frozen=True):
    """What became of the events that one sink, or several of one name, were given."""

    events: int = 0
    errors: int = 0
    dropped: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.events + other.events, self.errors + other.errors, self.dropped + other.dropped)


@dataclass(slots=True)
class _Entry:
    """One sink in use, and what the journal saw of it."""

    sink: Sink
    record: Callable[[UsageEvent], None]
    reports: RateLimitedLog
    events: int = 0
    failures: int = 0

    def tally(self) -> Tally:
        return Tally(self.events, self.failures + self.sink.errors, self.sink.dropped)


@dataclass(slots=True)
class Journal:
    """The sinks of a process; it outlives every configuration."""

    clock: IReactorTime
    _entries: list[_Entry] = field(default_factory=list, repr=False)
    _leaving: list[_Entry] = field(default_factory=list, repr=False)
    _past: dict[str, Tally] = field(default_factory=dict, repr=False)

    def record(self, event: UsageEvent) -> None:
        """Tell every sink; never raises."""
        for entry in self._entries:
            try:
                entry.record(event)
            except Exception as error:
                self._failed(entry, error)
            else:
                entry.events += 1

    def replace(self, sinks: Iterable[Sink]) -> Deferred[None]:
        """Use these sinks from the next event on, and close those that are not among them.

        :returns: fires when the old ones are closed.
        """
        before = {id(entry.sink): entry for entry in self._entries}
        self._entries = [
            before.pop(id(sink))
            if id(sink) in before
            else _Entry(sink, sink.record, RateLimitedLog(self.clock))
            for sink in sinks
        ]
        return self._retire(list(before.values()))

    def flush(self) -> None:
        """Have every sink write what waits."""
        self._tell(lambda sink: sink.flush())

    def reopen(self) -> None:
        """Have every sink open its files anew."""
        self._tell(lambda sink: sink.reopen())

    def close(self) -> Deferred[None]:
        """Close every sink; later events go nowhere.

        :returns: fires when all are closed; each has a time limit of its own.
        """
        return self.replace(())

    def tallies(self) -> dict[str, Tally]:
        """Return what became of the events, by name of sink; counts only ever grow."""
        found = dict(self._past)
        for entry in (*self._entries, *self._leaving):
            found[entry.sink.name] = found.get(entry.sink.name, Tally()) + entry.tally()
        return found

    def _tell(self, what: Callable[[Sink], None]) -> None:
        for entry in self._entries:
            try:
                what(entry.sink)
            except Exception as error:
                self._failed(entry, error)

    def _retire(self, entries: list[_Entry]) -> Deferred[None]:
        closing: list[Deferred[None]] = []
        for entry in entries:
            self._leaving.append(entry)
            try:
                closed = entry.sink.close()
            except Exception as error:
                self._failed(entry, error)
                self._forget(entry)
            else:
                closing.append(closed.addBoth(self._closed, entry))
        return DeferredList(closing).addCallback(lambda _: None)

    def _closed(self, result: Failure | None, entry: _Entry) -> None:
        if isinstance(result, Failure) and result.value is not None:
            self._failed(entry, result.value)
        self._forget(entry)

    def _forget(self, entry: _Entry) -> None:
        self._leaving.remove(entry)
        name = entry.sink.name
        self._past[name] = self._past.get(name, Tally()) + entry.tally()

    def _failed(self, entry: _Entry, error: BaseException) -> None:
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
