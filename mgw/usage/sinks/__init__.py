"""Where usage events go: one module for each block of ``hooks``, with the block's name.

A new sink is a module of this package with its ``open_sink``, and its settings class with a field in
:class:`~mgw.config.settings.HooksSettings`.  A sink that no configuration asks for is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from mgw.config.settings_base import Settings
from mgw.usage.journal import Sink
from mgw.usage.line_writer import LineWriter
from mgw.usage.output import Output

LineWriterFactory = Callable[[str, Callable[[], Output]], LineWriter]
"""Returns a line writer of this name, with threads of its own, that opens its output so."""


def open_sink(name: str, settings: Settings, new_line_writer: LineWriterFactory) -> Sink:
    """Open the sink of a block of ``hooks``.

    :param name: the block's, of which the settings are.
    :raises ValueError: with the setting's path, if that cannot be done.
    """
    sink: Sink = import_module(f"{__name__}.{name}").open_sink(settings, new_line_writer)
    return sink
