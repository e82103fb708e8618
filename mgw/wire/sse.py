"""Event streams in both directions: bytes in pieces to events, and events to bytes.

Rules: the WHATWG HTML standard, section 9.2 "Server-sent events".  A line ends with CR, LF or CRLF, an event
with an empty line.  Events without a ``data`` line are not dispatched, and neither is what follows the last
empty line when the stream ends.  The fields ``id`` and ``retry`` are of no use here and are skipped like
comments.

Google breaks a stream off with an error that is JSON in lines of its own, without a field, or in an array.  A
reader that is told so takes such a document, from a line that begins with ``{`` or ``[{`` on, as the data of
an event, and each element of an array as one.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_array import ElementReader
from mgw.wire.json_document import has_more_values

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
"""How much of one event is held by default: an image in base64 travels as one event."""
MAX_OBJECTS: Final = 50_000
MAX_VALUES: Final = 400_000
"""How many of them one event may hold, if it is JSON; no reader builds more at once."""

MAX_BARE_BYTES: Final = 1024 * 1024
"""How much of a document without a field is held; an error is small."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_MANY_ENDS: Final = re.compile(rb"\n{3,}+")
_DATA: Final = b"data:"
_UNICODE_LINE_ENDS: Final = tuple((end.encode(), rb"\u%04x" % ord(end)) for end in "\u2028\u2029\x85")


class Event(Struct, frozen=True, gc=False):
    """One event: its type, empty where the stream states none, and its data lines joined with LF."""

    event: bytes
    data: bytes


class EventReader:
    """Cut an event stream into events, however it arrives.

    Holds the bytes of one unfinished event, at most ``max_bytes`` of them, and takes time in proportion to
    its input.  With ``bare`` it reads JSON documents that stand in lines without a field, too.
    """

    __slots__ = (
        "_bare",
        "_begun",
        "_data",
        "_document",
        "_event",
        "_event_bytes",
        "_line",
        "_line_bytes",
        "_max_bytes",
        "_skip_lf",
        "_small_bytes",
    )

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES, *, bare: bool = False) -> None:
        self._max_bytes = max_bytes
        self._small_bytes = min(max_bytes, 2 * MAX_OBJECTS)
        """A smaller event is neither too large nor holds too many values."""
        self._bare = bare
        self._document: ElementReader | None = None
        self._begun = False
        self._skip_lf = False
        self._line = bytearray()
        self._line_bytes = 0
        self._event = b""
        self._data: list[bytes] = []
        self._event_bytes = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where an event is larger than the limit.
        """
        is_held = self._event_bytes or self._line_bytes or self._skip_lf or not self._begun
        whole = data.replace(b"\r\n", b"\n") if data.endswith(b"\r\n") else data
        if is_held or not whole.endswith(b"\n\n") or b"\r" in whole or b"\n\n\n" in whole:
            return self._read_lines(data)
        return self._read_whole(whole)

    def _read_whole(self, data: bytes) -> list[Event]:
        """Return the events of bytes that are whole events: most come so, with a line or two each."""
        events: list[Event] = []
        for block in data[:-2].split(b"\n\n"):
            name, value = b"", block
            if block.startswith(b"event: "):
                name, _, value = block[7:].partition(b"\n")
            if value.startswith(b"data: ") and b"\n" not in value and len(block) < self._small_bytes:
                events.append(Event(name, value[6:]))
            else:
                events += self._read_lines(block + b"\n\n")
        return events

    def _read_lines(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete, whatever they are."""
        if self._skip_lf and data:  # a CRLF may have been cut
            data = data.removeprefix(b"\n")
            self._skip_lf = False
        if b"\n\n\n" in data:
            data = _MANY_ENDS.sub(b"\n\n", data)  # what ends nothing is not looked at line by line
        events: list[Event] = []
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            self._hold(len(line))
            has_ended = len(line) < len(piece)
            if self._line or not has_ended:
                self._line += line  # never a list: small pieces would take many times their size
                if has_ended:
                    self._end_line(self._line, events)
                    self._line = bytearray()
            else:
                self._end_line(line, events)
        if data.endswith(b"\r"):
            self._skip_lf = True
        return events

    def finish(self) -> list[Event]:
        """Forget the unfinished event: a stream that ends within an event never sent it.

        What is returned is a document without a field whose last line did not end.
        """
        events: list[Event] = []
        if self._bare:
            self._read_bare(bytes(self._begin(self._line)), events)
        self._reset()
        return events

    def _end_line(self, line: bytes | bytearray, events: list[Event]) -> None:
        self._line_bytes = 0
        if not self._begun:
            line = self._begin(line)
        if not line:
            if self._data:
                events.append(Event(self._event, self._join_data()))
            self._reset_event()
            return
        if line.startswith(_DATA):  # the only long ones: they are copied once
            start = 6 if line[5:6] == b" " else 5
            self._data.append(bytes(memoryview(line)[start:]))
        else:
            name, _, value = bytes(line).partition(b":")
            if name == b"event":
                self._event = value.removeprefix(b" ")
            elif name == b"data":
                self._data.append(b"")
            else:
                if self._bare:
                    self._read_bare(bytes(line), events)
                return
        self._event_bytes += len(line)

    def _begin(self, line: bytes | bytearray) -> bytes | bytearray:
        """Return a line without the mark that the first may have."""
        if self._begun:
            return line
        self._begun = True
        return line[len(_BYTE_ORDER_MARK) :] if line.startswith(_BYTE_ORDER_MARK) else line

    def _join_data(self) -> bytes:
        data = b"\n".join(self._data)
        if has_more_values(data, MAX_OBJECTS, MAX_VALUES):
            self._reset()
            raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream sent an event with too many values")
        return data

    def _read_bare(self, line: bytes, events: list[Event]) -> None:
        """Take a line that is no field, if it belongs to a document; what is none is skipped as ever."""
        if self._document is None:
            if line.startswith(b"{"):
                line = b"[" + line
            elif line != b"[" and not line.startswith(b"[{"):
                return
            self._document = ElementReader(MAX_BARE_BYTES)
        try:
            documents = self._document.feed(line + b"\n")
        except GatewayError:
            self._document = None
            return
        if documents:
            self._document = None
            events += [Event(b"", document) for document in documents]

    def _reset(self) -> None:
        self._line.clear()
        self._line_bytes = 0
        self._document = None
        self._reset_event()

    def _reset_event(self) -> None:
        self._event = b""
        self._data.clear()
        self._event_bytes = 0

    def _hold(self, size: int) -> None:
        self._line_bytes += size
        if self._event_bytes + self._line_bytes > self._max_bytes:
            self._reset()
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, f"the upstream sent an event of more than {self._max_bytes} bytes"
            )


def escape_line_ends(data: bytes) -> bytes:
    """Return JSON, or events of it, with the characters escaped that some clients take for line ends.

    These end no line of an event stream, but do in ``str.splitlines``, by which older SDKs of Google's and
    clients on httpx cut theirs.  Only strings hold them.
    """
    if not data.isascii() and (b"\xe2\x80" in data or b"\xc2\x85" in data):
        for end, escaped in _UNICODE_LINE_ENDS:
            data = data.replace(end, escaped)
    return data


def render_event(event: bytes, data: bytes) -> bytes:
    """Return one event as bytes, without an ``event`` line where ``event`` is empty."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"event: %b\ndata: %b\n\n" % (event, data) if event else b"data: %b\n\n" % data
