"""Destinations of usage events: one module for each block of ``hooks``, with the same name.

A new sink is a module of this package with its ``open_sink``, and its settings class with a field in
:class:`~mgw.config.hooks.HooksSettings`.  A sink that no configuration asks for is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from time import time
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred

from mgw.config.settings import Config
from mgw.config.settings_base import Settings
from mgw.reactor.daemon_threads import SerialRunner
from mgw.usage.journal import Sink
from mgw.usage.line_writer import LineWriter
from mgw.usage.outbox import Outbox, OutboxOptions, Result
from mgw.usage.output import Output
from mgw.usage.spool_files import SpoolFiles
from mgw.usage.spool_room import SpoolRoom

if TYPE_CHECKING:
    from mgw.reactor.treq_client import HTTPClient
    from mgw.usage.receiver import Receiver


def _no_config() -> None:
    """None is in use yet."""


@dataclass(frozen=True, slots=True)
class EventSpool:
    """Where all sinks of a process keep what cannot be delivered yet."""

    files: SpoolFiles
    runner: SerialRunner
    """The thread of the files."""
    room: SpoolRoom


@dataclass(frozen=True, slots=True)
class SinkTools:
    """What sinks are made of."""

    reactor: Any  # Any: a reactor has no one type
    new_runner: Callable[[Any, str], SerialRunner]
    """Returns threads of this name for a reactor."""
    new_client: Callable[[float], tuple[HTTPClient, Callable[[], None]]]
    """Returns treq's client, with this limit in seconds for each wait, and what closes its connections."""
    spool: EventSpool
    wall: Callable[[], float] = time
    """Returns Unix seconds."""
    config: Callable[[], Config | None] = _no_config
    """Returns the configuration in use."""

    def runner(self, name: str) -> SerialRunner:
        """Return a thread of its own for work that may block."""
        return self.new_runner(self.reactor, name)

    def receiver(self, seconds: float) -> Receiver:
        """Return what posts over connections of its own, each time for so many seconds at most."""
        from mgw.usage.receiver import Receiver  # with it comes treq, which most sinks have no use for

        return Receiver(*self.new_client(seconds), self.reactor, seconds)

    def line_writer(self, name: str, open_output: Callable[[], Output]) -> LineWriter:
        """Return a line writer of this name that opens its output so."""
        return LineWriter(name, self.reactor, self.runner(name), open_output)

    def outbox(
        self, sink: str, deliver: Callable[[str, list[bytes]], Deferred[Result]], options: OutboxOptions
    ) -> Outbox:
        """Return what delivers the batches of the sink of this name."""
        return Outbox(
            f"usage events to hooks.{sink}",
            self.reactor,
            self.wall,
            self.spool.runner,
            self.spool.files.of_sink(sink),
            self.spool.room,
            deliver,
            options,
        )


def open_sink(name: str, settings: Settings, tools: SinkTools) -> Sink:
    """Open the sink of a block of ``hooks``.

    :param name: the block's, of which the settings are.
    :raises ValueError: with the setting's path, if that cannot be done.
    """
    sink: Sink = import_module(f"{__name__}.{name}").open_sink(settings, tools)
    return sink
