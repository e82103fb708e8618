"""Tool names in relayed bodies: their positions, and their replacement.

A body is never rebuilt: a name is replaced at its own position, and every other byte stays (as with models,
:mod:`mgw.wire.json_spans`).  Only the client's own tools are renamed.  What a vendor defines has a type of
its own, and a name that the vendor knows.

Each dialect's ``tools`` says where they stand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.json import encode

from mgw.canonical.reply import ReplyEvent, TokenUsage
from mgw.dialects.stream import StreamReader
from mgw.dialects.tool_name_map import ToolNameMap
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_spans import Edit, apply_edits
from mgw.wire.nested_strings import JsonPath, NestedString, find_nested_strings

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
"""How much of one line of a stream is held; a longer one passes as it is."""
_NAME: Final = b'name"'
"""Ends the key of every name."""
_DATA: Final = b"data:"
_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")


class ToolPlace(Struct, frozen=True):
    """Where names of tools stand."""

    path: JsonPath
    sibling: str | None = None
    """The member beside the name that says whether it is of a client's own tool; ``None``: it always is."""
    values: frozenset[str | None] = frozenset()
    """What stands in it then; ``None``: there is no such member."""

    @property
    def sibling_path(self) -> JsonPath | None:
        """The path of that member."""
        return None if self.sibling is None else (*self.path[:-1], self.sibling)


def typed_place(path: JsonPath, *values: str | None) -> ToolPlace:
    """Return the place of names beside a ``type`` with one of these values; ``None``: without any."""
    return ToolPlace(path, "type", frozenset(values))


class ToolPlaces(Struct, frozen=True):
    """Where a dialect names tools."""

    request: tuple[ToolPlace, ...]
    answer: tuple[ToolPlace, ...]
    """The names in whole answers, and in the events of streams."""


def request_edits(places: ToolPlaces, body: bytes, names: ToolNameMap) -> list[Edit]:
    """Return the edits that rename a client's tools in its request.

    :raises GatewayError: ``MALFORMED`` for what is no JSON, or has too many values.
    """
    return _edits(places.request, body, names.sent)


def restore_answer(places: ToolPlaces, body: bytes, names: ToolNameMap) -> bytes:
    """Return a whole answer with the client's own names; as it is where it cannot be read."""
    if _NAME not in body:
        return body
    try:
        return apply_edits(body, _edits(places.answer, body, names.received))
    except GatewayError:
        return body


class RestoredStream:
    """Renames the tools in an event stream as it passes, however it is cut.

    Lines pass as they come.  A line that has not ended waits for its end, which delays nothing: no client can
    read half an event.
    """

    __slots__ = ("_held", "_names", "_passing", "_places", "_size")

    def __init__(self, places: ToolPlaces, names: ToolNameMap) -> None:
        self._places = places.answer
        self._names = names
        self._held: list[bytes] = []
        """The pieces of a line that has not ended."""
        self._size = 0
        self._passing = False
        """The line is too long to be looked at."""

    def feed(self, data: bytes) -> bytes:
        """Return what may pass; the same object where nothing is to be done."""
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not self._held and not self._passing and end == len(data):
            return self._restore(data)
        if not end:
            return self._hold(data)
        lines, rest = data[:end], data[end:]
        out = self._end_line(lines)
        return out + self._hold(rest) if rest else out

    def finish(self) -> bytes:
        """Return what is held of a stream that has ended."""
        held = b"".join(self._held)
        self._held.clear()
        self._size = 0
        return self._restore(held)

    def _hold(self, data: bytes) -> bytes:
        if self._passing:
            return data
        self._held.append(data)
        self._size += len(data)
        if self._size <= MAX_LINE_BYTES:
            return b""
        self._passing = True
        return self._take()

    def _end_line(self, lines: bytes) -> bytes:
        """Take the end of a line and whole lines behind it."""
        if not self._passing:
            return self._restore(self._take() + lines)
        self._passing = False
        found = _LINE_ENDS.search(lines)
        assert found is not None, "a line ends here"
        return lines[: found.end()] + self._restore(lines[found.end() :])

    def _take(self) -> bytes:
        held = b"".join(self._held)
        self._held.clear()
        self._size = 0
        return held

    def _restore(self, lines: bytes) -> bytes:
        """Return whole lines with the client's own names."""
        if _NAME not in lines:
            return lines
        edits = list(self._edits(lines))
        return apply_edits(lines, edits)

    def _edits(self, lines: bytes) -> Iterator[Edit]:
        position, size = 0, len(lines)
        while position < size:
            found = _LINE_ENDS.search(lines, position)
            end, following = (size, size) if found is None else found.span()
            if lines.startswith(_DATA, position) and lines.find(_NAME, position, end) >= 0:
                start = position + len(_DATA)
                for (first, last), new in self._line_edits(lines[start:end]):
                    yield (start + first, start + last), new
            position = following

    def _line_edits(self, payload: bytes) -> list[Edit]:
        try:
            return _edits(self._places, payload, self._names.received)
        except GatewayError:
            return []


class RestoredReader(StreamReader):
    """A reader of a stream in which tools were renamed."""

    def __init__(self, reader: StreamReader, stream: RestoredStream) -> None:
        self._reader = reader
        self._stream = stream

    @property
    def usage(self) -> TokenUsage:
        """The counts so far."""
        return self._reader.usage

    @property
    def ended(self) -> bool:
        """Whether the dialect's own last event has come."""
        return self._reader.ended

    @property
    def finished(self) -> int:
        """How many candidates have ended, once all that began have."""
        return self._reader.finished

    @property
    def complete(self) -> bool:
        """Whether a break of the connection would take nothing of the answer away."""
        return self._reader.complete

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return what these bytes complete."""
        return self._reader.feed(self._stream.feed(data))

    def finish(self) -> list[ReplyEvent]:
        """Return what the end of the stream completes."""
        return [*self._reader.feed(self._stream.finish()), *self._reader.finish()]


def _edits(places: Iterable[ToolPlace], body: bytes, rename: Callable[[str], str]) -> list[Edit]:
    by_path = {place.path: place for place in places}
    siblings = {place.sibling_path for place in by_path.values()}
    paths = {*by_path, *(path for path in siblings if path is not None)}
    try:
        found = find_nested_strings(body, *sorted(paths, key=str))
    except GatewayError as error:
        if error.message.endswith("models"):
            raise GatewayError(Reason.MALFORMED, "the body names too many tools") from None
        raise
    values = {nested.path: nested.value for nested in found}
    edits: list[Edit] = []
    for nested in found:
        place = by_path.get(_shape(nested))
        if place is None:
            continue
        beside = None if place.sibling is None else values.get((*nested.path[:-1], place.sibling))
        if place.sibling is None or beside in place.values:
            new = rename(nested.value)
            if new != nested.value:
                edits.append((nested.span, encode(new)))
    return edits


def _shape(nested: NestedString) -> JsonPath:
    return tuple(None if isinstance(step, int) else step for step in nested.path)
