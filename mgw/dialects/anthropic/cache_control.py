"""Cache breakpoints (``cache_control``), both ways.

Source: the SDK's ``CacheControlEphemeralParam``; a request has at most four of them (Prompt caching guide).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mgw.canonical.conversation import CacheMark, JsonObject, Text
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of

MAX_BREAKPOINTS: Final = 4
_TTLS: Final = ("5m", "1h")


def parse_cache_control(block: Fields) -> CacheMark | None:
    """Parse the breakpoint of a block or a tool."""
    control = block.nested("cache_control") if block.unread else None
    if control is None:
        return None
    kind = control.required_text("type")
    if kind != "ephemeral":
        raise none_of(control, "type", kind, ("ephemeral",))
    block.note(Feature.CACHE, "cache_control")
    ttl = control.text("ttl")
    if ttl is not None and ttl not in _TTLS:
        raise none_of(control, "ttl", ttl, _TTLS)
    return CacheMark(ttl)


def last_breakpoint(texts: Iterable[Text]) -> CacheMark | None:
    """Return the breakpoint of texts that become one."""
    return next((text.cache for text in reversed(tuple(texts)) if text.cache is not None), None)


class CacheBreakpoints:
    """Renders the breakpoints of one request, as many as the vendor takes."""

    __slots__ = ("_left", "_lost")

    def __init__(self, lost: set[Feature]) -> None:
        self._left = MAX_BREAKPOINTS
        self._lost = lost

    def add_to(self, block: JsonObject, mark: CacheMark | None) -> JsonObject:
        """Return the block, with its breakpoint where it has one."""
        if mark is None:
            return block
        if not self._left:
            self._lost.add(Feature.CACHE)
            return block
        self._left -= 1
        control: JsonObject = {"type": "ephemeral"}
        if mark.ttl is not None:
            control["ttl"] = mark.ttl
        block["cache_control"] = control
        return block
