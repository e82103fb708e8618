"""Where usage events go, by the name of the block in ``hooks``.

A new sink is a module of this package, a line in :data:`SINKS` and its settings class, which is a field of
:class:`~mgw.config.settings.HooksSettings`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from mgw.config.settings import JsonlSettings
from mgw.config.settings_base import Settings
from mgw.usage.journal import Sink
from mgw.usage.sinks.jsonl import StartLines, open_jsonl


class SinkKind(Struct, frozen=True):
    """One kind of sink."""

    settings: type[Settings]
    open: Callable[[Any, StartLines], Sink]  # Any: an instance of ``settings``
    """Open a sink.  It raises ``ValueError`` with the setting's path if that cannot be done."""


SINKS: Final = MappingProxyType({"jsonl": SinkKind(JsonlSettings, open_jsonl)})
