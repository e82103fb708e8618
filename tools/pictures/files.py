"""The one table of the drawings: what ``docs/images`` has, and what draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from tools.pictures import connection, fleet, overview, realtime, request, rooms, translation, workers

PICTURES: Final[Mapping[str, Callable[[], str]]] = MappingProxyType(
    {
        "overview": overview.render,
        "workers": workers.render,
        "fleet": fleet.render,
        "request": request.render,
        "rooms": rooms.render,
        "translation": translation.render,
        "realtime": realtime.render,
        "connection": connection.render,
        "upstream-connection": connection.render_upstream,
    }
)
"""A function for each file, by its name without ``.svg``; it returns the file's text."""
