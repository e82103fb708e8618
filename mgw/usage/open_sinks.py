"""The sinks of ``hooks`` in use: opened for a configuration, kept across reloads, closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.config.hooks import SINKS, HooksSettings
from mgw.config.settings_base import Settings
from mgw.usage.journal import Journal, Sink
from mgw.usage.sinks import SinkTools, open_sink

_log: Final = Logger()


class _OpenSink(Struct, frozen=True):
    """A sink, and the settings that it was opened for."""

    settings: Settings
    sink: Sink


SinksByName = dict[str, _OpenSink]
"""The sinks by the name of their block in ``hooks``."""


def _say_lost(name: str, sink: Sink, before: int) -> int:
    """Say how many events a sink that was closed has lost since; return the number."""
    lost = sink.dropped - before + sink.waiting  # what waits is with a thread that hangs
    if lost:
        _log.error(
            "hooks.{name}: {lost} usage events could not be stored and were lost", name=name, lost=lost
        )
    return lost


@dataclass(slots=True, eq=False, repr=False)
class OpenSinks:
    """The sinks of a process."""

    journal: Journal
    tools: SinkTools
    always: Sequence[Sink]
    """The sinks that no configuration turns off."""
    flush_records: Callable[[], None]
    """Passes all that has happened until now to the journal."""
    _in_use: SinksByName = field(default_factory=dict)
    _closing: set[Deferred[None]] = field(default_factory=set)

    def add(self, sink: Sink) -> None:
        """Have one more that no configuration turns off, told from the next :meth:`use` on."""
        self.always = (*self.always, sink)

    def open(self, hooks: HooksSettings) -> SinksByName:
        """Return the sinks that a configuration asks for: those in use, where they are the same.

        :raises ValueError: one cannot be opened.
        """
        sinks: SinksByName = {}
        for name in SINKS:
            settings = getattr(hooks, name)
            before = self._in_use.get(name)
            if before is not None and before.settings == settings:
                sinks[name] = before
            elif settings is not None:
                try:
                    sinks[name] = _OpenSink(settings, open_sink(name, settings, self.tools))
                except ValueError:
                    self.discard(sinks)
                    raise
        return sinks

    def discard(self, sinks: SinksByName) -> None:
        """Close those that are not in use."""
        for name, opened in sinks.items():
            if opened is not self._in_use.get(name):
                self._close_later(opened.sink.close())

    def use(self, sinks: SinksByName) -> None:
        """Tell these sinks from now on, and those before them of all that happened until now."""
        self.flush_records()
        self._in_use = sinks
        self._close_later(self.journal.replace([*self.always, *(opened.sink for opened in sinks.values())]))

    async def close(self) -> int:
        """Close all, each of which has a time limit of its own; return how many events could not be kept."""
        before = {name: opened.sink.dropped for name, opened in self._in_use.items()}
        for closing in [*self._closing, self.journal.close()]:
            await closing
        return sum(_say_lost(name, self._in_use[name].sink, dropped) for name, dropped in before.items())

    def _close_later(self, closing: Deferred[None]) -> None:
        """Remember a sink that still writes, so that the end waits for it."""
        self._closing.add(closing)
        _ = closing.addBoth(lambda _: self._closing.discard(closing))
