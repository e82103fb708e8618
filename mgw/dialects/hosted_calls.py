"""Find what a model writes to tools that its provider runs, which no translation reads: code and patches.

A stream is searched line by line, and only lines that name such a call are decoded.  Where its text comes in
deltas, the whole item behind them says the same again and is left out.  A line that is too long is skipped.

Sources: the SDKs' ``ResponseOutputItem``, ``ResponseStreamEvent``, ``ServerToolUseBlock``,
``BetaMCPToolUseBlock`` and ``ExecutableCode``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, Encoder

_LONGEST_LINE: Final = 2**20
"""How long a line of a stream may be that is read, in bytes."""
_MOST_CALLS: Final = 4096
"""The most calls that are told apart; an answer has some dozens."""
_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)
_DECODER: Final = Decoder()
_ENCODER: Final = Encoder()


class HostedCalls(Struct, frozen=True):
    """Where the answers of a dialect have such calls."""

    members: Mapping[str, str] = {}
    """The types of their items, and the member that the model writes."""
    items: str = ""
    """The member of a whole answer that has the items."""
    item: str = ""
    """The member of an event that has one."""
    index: str = ""
    """The member of an event that says which one it is about."""
    item_events: frozenset[str] = frozenset()
    """The types of events that have an item."""
    deltas: frozenset[str] = frozenset()
    """The types of events that add to the text of such a call."""
    open_deltas: frozenset[str] = frozenset()
    """The types of events that add to any item that has begun."""
    strings: re.Pattern[bytes] | None = None
    """Finds the inside of each string with code, where that needs no more; it occurs once in a stream."""


class HostedCallReader:
    """Reads the calls of one answer."""

    __slots__ = ("_begun", "_calls", "_marks", "_told", "_whole_line")

    def __init__(self, calls: HostedCalls) -> None:
        self._calls = calls
        self._marks = [kind.encode() for kind in (*calls.members, *calls.deltas)]
        self._whole_line = b""
        """A line that goes on."""
        self._begun = set[Any]()  # Any: as the provider names them
        """The calls that have begun."""
        self._told = set[Any]()  # Any: likewise
        """The calls that had deltas."""

    def read_stream(self, data: bytes) -> list[str]:
        """Return what the next bytes of a stream say."""
        if self._calls.strings is not None:
            return _decode_strings(self._calls.strings.findall(data))
        head, newline, rest = data.partition(b"\n")
        line = self._whole_line + head if len(self._whole_line) <= _LONGEST_LINE else self._whole_line
        if not newline:
            self._whole_line = line
            return []
        *lines, self._whole_line = [line, *rest.split(b"\n")]
        if not (self._begun or self._are_marked(line) or self._are_marked(data)):
            return []
        return [text for each in lines if (text := self._read_line(each))]

    def finish_stream(self) -> list[str]:
        """Return what a last line without an end says."""
        return [] if self._calls.strings is not None else self.read_stream(b"\n")

    def read_whole(self, body: bytes) -> list[str]:
        """Return what an answer says that is no stream."""
        if self._calls.strings is not None:
            return _decode_strings(self._calls.strings.findall(body))
        if not self._are_marked(body):
            return []
        found = _decode(body)
        items = found.get(self._calls.items) if isinstance(found, dict) else None
        return [text for item in items if (text := self._text_of(item))] if isinstance(items, list) else []

    def _are_marked(self, data: bytes) -> bool:
        return any(mark in data for mark in self._marks)

    def _read_line(self, line: bytes) -> str:
        is_delta = bool(self._begun and self._calls.open_deltas) and b"delta" in line
        if len(line) > _LONGEST_LINE or not line.startswith(b"data:"):
            return ""
        if not is_delta and not self._are_marked(line):
            return ""
        event, calls = _decode(line[5:]), self._calls
        if not isinstance(event, dict):
            return ""
        kind, index = _name(event.get("type")), _name(event.get(calls.index))
        if kind in calls.item_events:
            text = self._text_of(event.get(calls.item))
            if text is not None and index not in self._told:
                if len(self._begun) < _MOST_CALLS:
                    self._begun.add(index)
                return text
        elif kind in calls.deltas or (kind in calls.open_deltas and index in self._begun):
            if len(self._told) < _MOST_CALLS:
                self._told.add(index)
            delta = event.get("delta")
            text = delta.get("partial_json") if isinstance(delta, dict) else delta
            return text if isinstance(text, str) else ""
        return ""

    def _text_of(self, item: Any) -> str | None:  # Any: JSON
        """Return what the model has written of an item; ``None``: it is no such call."""
        kind = item.get("type") if isinstance(item, dict) else None
        member = self._calls.members.get(kind) if isinstance(kind, str) else None
        if member is None:
            return None
        written = item.get(member)
        if not written:
            return ""
        return written if isinstance(written, str) else _ENCODER.encode(written).decode()


def _decode(data: bytes) -> Any:  # Any: JSON
    try:
        return _DECODER.decode(data)
    except _UNREADABLE:
        return None


def _name(value: Any) -> int | str | None:  # Any: JSON
    return value if isinstance(value, int | str) else None


def _decode_strings(strings: list[bytes]) -> list[str]:
    found = [_decode(b'"%b"' % string) for string in strings]
    return [text for text in found if isinstance(text, str)]
