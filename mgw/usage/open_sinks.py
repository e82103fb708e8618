"""The sinks of ``hooks`` that are in use: opened for a configuration, kept by a reload, closed in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from msgspec import Struct
from twisted.internet.defer import Deferred

from mgw.config.hooks import HooksSettings
from mgw.config.settings_base import Settings
from mgw.usage.journal import Journal, Sink
from mgw.usage.sinks import SinkTools, open_sink


class _OpenSink(Struct, frozen=True):
    """A sink, and the settings that it was opened for."""

    settings: Settings
    sink: Sink


SinksByName = dict[str, _OpenSink]
"""By the name of their block."""


@dataclass(slots=True)
class OpenSinks:
    """Those of a process."""

    journal: Journal
    tools: SinkTools
    always: Sequence[Sink]
    """Sinks that no configuration turns off."""
    flush_records: Callable[[], None]
    """Tells the journal of all that has happened until now."""
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
        for name, settings in hooks:
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

    async def close(self) -> None:
        """Close all; each has a time limit of its own."""
        for closing in [*self._closing, self.journal.close()]:
            await closing

    def _close_later(self, closing: Deferred[None]) -> None:
        """Remember a sink that still writes, so that the end waits for it."""
        self._closing.add(closing)
        _ = closing.addBoth(lambda _: self._closing.discard(closing))
