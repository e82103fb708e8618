"""Event streams, both ways: bytes in pieces to events, and events to bytes.

Rules: the WHATWG HTML standard, section 9.2 "Server-sent events".  A line ends with CR, LF or CRLF, an event
with an empty line.  Events without a ``data`` line are not dispatched, and neither is what follows the last
empty line when the stream ends.  The fields ``id`` and ``retry`` are of no use here and are skipped like
comments.

Google breaks a stream off with an error that is JSON in lines of its own, without a field.  A reader that is
told so takes such a document, from a line that begins with ``{`` on, as the data of an event.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from mgw.errors import GatewayError, Reason
from mgw.wire.array import ElementReader

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024
"""How much of one event is held by default: an image in base64 travels as one event."""

MAX_BARE_BYTES: Final = 1024 * 1024
"""How much of a document without a field is held; an error is small."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


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
    )

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES, *, bare: bool = False) -> None:
        self._max_bytes = max_bytes
        self._bare = bare
        self._document: ElementReader | None = None
        self._begun = False
        self._skip_lf = False
        self._line: list[bytes] = []
        self._line_bytes = 0
        self._event = b""
        self._data: list[bytes] = []
        self._event_bytes = 0

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that these bytes complete.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where an event is larger than the limit.
        """
        if self._skip_lf and data:  # a CRLF may have been cut
            data = data.removeprefix(b"\n")
            self._skip_lf = False
        events: list[Event] = []
        for piece in data.splitlines(keepends=True):
            line = piece.rstrip(b"\r\n")
            self._line.append(line)
            self._hold(len(line))
            if len(line) < len(piece):
                self._end_line(events)
        if data.endswith(b"\r"):
            self._skip_lf = True
        return events

    def finish(self) -> list[Event]:
        """Forget the unfinished event: a stream that ends within an event never sent it.

        What is returned is a document without a field whose last line did not end.
        """
        events: list[Event] = []
        if self._bare:
            self._read_bare(self._taken_line(), events)
        self._forget()
        return events

    def _end_line(self, events: list[Event]) -> None:
        line = self._taken_line()
        if not line:
            if self._data:
                events.append(Event(self._event, b"\n".join(self._data)))
            self._forget_event()
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
        elif name == b"event":
            self._event = value.removeprefix(b" ")
        else:
            if self._bare:
                self._read_bare(line, events)
            return
        self._event_bytes += len(line)

    def _taken_line(self) -> bytes:
        """Return what is held of a line, and hold it no longer."""
        line = b"".join(self._line)
        self._line.clear()
        self._line_bytes = 0
        if not self._begun:
            self._begun = True
            line = line.removeprefix(_BYTE_ORDER_MARK)
        return line

    def _read_bare(self, line: bytes, events: list[Event]) -> None:
        """Take a line that is no field, if it belongs to a document; what is none is skipped as ever."""
        if self._document is None:
            if not line.startswith(b"{"):
                return
            self._document = ElementReader(MAX_BARE_BYTES)
            line = b"[" + line
        try:
            documents = self._document.feed(line + b"\n")
        except GatewayError:
            self._document = None
            return
        if documents:
            self._document = None
            events += [Event(b"", document) for document in documents]

    def _forget(self) -> None:
        self._line.clear()
        self._line_bytes = 0
        self._document = None
        self._forget_event()

    def _forget_event(self) -> None:
        self._event = b""
        self._data.clear()
        self._event_bytes = 0

    def _hold(self, size: int) -> None:
        self._line_bytes += size
        if self._event_bytes + self._line_bytes > self._max_bytes:
            self._forget()
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, f"the upstream sent an event of more than {self._max_bytes} bytes"
            )


def render(event: bytes, data: bytes) -> bytes:
    """Return one event as bytes, without an ``event`` line where ``event`` is empty."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"event: %b\ndata: %b\n\n" % (event, data) if event else b"data: %b\n\n" % data
