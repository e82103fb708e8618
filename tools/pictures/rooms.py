"""The whole system on one screen: the layers of the packages, as the import rules hold them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from tools.pictures.diagram import NAME, arrow, diagram, node, words
from tools.pictures.svg import Box, Color, Style
from tools.room_list import layers

PURPOSES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "app": ("starts, reloads, drains, stops",),
        "cli": ("the mgw command",),
        "workers": ("several processes, one service",),
        "redis": ("several hosts share limits, cooldowns",),
        "web": ("listeners, channels, edge auth",),
        "dashboard": ("API, feed and page for operators",),
        "realtime": ("one WebSocket session",),
        "exchange": ("one HTTP request, to its last byte",),
        "ops": ("metrics, logs, probes",),
        "generation": ("what one configuration file became",),
        "memo": ("what is remembered of requests",),
        "credentials": ("authentication", "to a provider"),
        "upstream": ("connections", "to a provider"),
        "usage": ("what happened,", "and who is told"),
        "identity": ("counts that are", "shared, or kept"),
        "clients": ("keys, limits",),
        "routing": ("route, target",),
        "dialects": ("wire ↔ canonical",),
        "http": ("HTTP/1.1",),
        "tokens": ("estimates",),
        "canonical": ("meaning", "without bytes"),
        "config": ("checked", "settings"),
        "bodies": ("large request", "bodies"),
        "wire": ("bytes", "without meaning"),
        "reactor": ("what Twisted lacks: deadlines, eager writes, threads",),
        "nouns": ("dialects, families, kinds of provider, errors, secrets",),
    }
)
"""A line or two for each package."""
PURE: Final = frozenset(
    {"clients", "routing", "dialects", "http", "tokens", "canonical", "config", "wire", "nouns"}
)
_WIDTH: Final = 800
_EDGE: Final = 24
_GAP: Final = 12
_BETWEEN: Final = 20
_LINE: Final = 20
_HEIGHT: Final = 36
_NOTE: Final = Style(13, Color.MUTED)


def render() -> str:
    """Return the file."""
    rows, y = [], _EDGE
    for layer in layers():
        lines = max(len(PURPOSES[name]) for name in layer)
        height = _HEIGHT + _LINE * lines
        width = (_WIDTH - 2 * _EDGE - _GAP * (len(layer) - 1)) / len(layer)
        rows.append(
            [(name, Box(_EDGE + n * (width + _GAP), y, width, height)) for n, name in enumerate(layer)]
        )
        y += height + _BETWEEN
    shapes = [
        node(box, name, PURPOSES[name], NAME, Color.ACCENT if name in PURE else Color.EDGE)
        for row in rows
        for name, box in row
    ]
    middle = _WIDTH / 2
    shapes += [
        arrow((middle, above[0][1].bottom), (middle, below[0][1].y)) for above, below in pairwise(rows)
    ]
    note = "Packages with a colored edge are pure: no Twisted, no clock, no I/O."
    shapes.append(words(note, (middle, y + 8), _WIDTH - 2 * _EDGE, _NOTE))
    description = "; ".join(" and ".join(layer) for layer in layers())
    return diagram(
        "The packages in layers",
        f"Each package imports only packages in the layers below it. From top to bottom: {description}.",
        (_WIDTH, int(y) + 32),
        shapes,
    )
