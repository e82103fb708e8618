"""Ask a chat stream for its usage, and take the chunk out again that this adds.

With ``stream_options.include_usage``, the reference says, the stream has one more chunk before ``[DONE]``,
with the usage and without choices.  All other chunks then have ``usage: null``; they pass as they come.

A request is changed in place (contract 5.1).  Of several members of one name the last one counts, and each is
changed, as it is with the model.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from mgw.nouns.errors import GatewayError
from mgw.wire.json_document import JsonDocument, JsonNode, check_json
from mgw.wire.json_spans import Edit

_OPTIONS: Final = "stream_options"
_ASKED: Final = b'"include_usage":true'
MAX_HELD: Final = 64 * 1024
"""How much of an event is held; a longer one is not the extra chunk, which holds some numbers."""
_UNREADABLE: Final = (DecodeError, UnicodeDecodeError, RecursionError)
_NO_CHOICES: Final = re.compile(rb'"choices"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*\]')
_EVENT_END: Final = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
"""Two line ends (WHATWG HTML 9.2.6); atomic, since CR LF is one."""
_LINE_ENDS: Final = (b"\n", b"\r", b"\r\n")
_END_BYTES: Final = 3
"""How many bytes of an end may have come before its last one."""


class _Options(Struct):
    stream: Any = None  # Any: JSON of whatever type
    stream_options: Any = None  # Any: as above


class _Chunk(Struct):
    choices: list[Any]  # Any: only whether there are any
    usage: dict[str, Any]  # Any: only whether it is there
    error: Any = None  # Any: as above


_decode_options: Final = Decoder(_Options).decode
_decode_chunk: Final = Decoder(_Chunk).decode
_decode_any: Final = Decoder().decode


def find_usage_edits(body: bytes) -> list[Edit]:
    """Return the edits by which a request asks for the usage of its stream.

    None, where it asks already, is not for a stream, or has options that the provider will refuse.
    """
    with suppress(GatewayError, *_UNREADABLE):
        asked = _read_options(body)
        if asked.stream is True and _may_be_asked(asked.stream_options):
            return _edits(JsonDocument(body))
    return []


def _read_options(body: bytes) -> _Options:
    try:
        return _decode_options(body)
    except DecodeError:  # perhaps only half of a surrogate pair, which clients cut emoji into
        return _decode_options(check_json(body))


def _may_be_asked(options: Any) -> bool:  # Any: JSON of whatever type
    """Whether these options, which count, do not ask for usage and can be made to."""
    if options is None:
        return True
    return isinstance(options, dict) and options.get("include_usage") in (None, False)


def _edits(document: JsonDocument) -> list[Edit]:
    stated = document.members(document.root).get(_OPTIONS, [])
    if not stated:
        at = document.root.value + 1
        return [((at, at), b'"stream_options":{%b},' % _ASKED)]  # behind it is "stream", at least
    return [edit for node in stated for edit in _edits_of(document, node)]


def _edits_of(document: JsonDocument, node: JsonNode) -> list[Edit]:
    raw = document.raw(node)
    if raw == b"null":
        return [((node.value, node.end), b"{%b}" % _ASKED)]
    if not raw.startswith(b"{"):  # an earlier one, which does not count
        return []
    members = document.members(node)
    if flags := members.get("include_usage"):
        return [((flag.value, flag.end), b"true") for flag in flags]
    at = node.value + 1
    return [((at, at), _ASKED + b"," if members else _ASKED)]


class ExtraChunk:
    """Take the chunk with the usage, and without choices, out of a stream, however that is cut.

    All other bytes pass as they come, the same object where nothing has to be looked at.  An event that has
    begun is held until it has ended, or is too long.
    """

    __slots__ = ("_held", "_is_passing", "_skips_lf")

    def __init__(self) -> None:
        self._held = bytearray()
        """An event that has begun."""
        self._is_passing = False
        """Whether the open event passes as it comes: it is too long."""
        self._skips_lf = False
        """Whether a LF may follow that belongs to what was taken out."""

    @property
    def is_open(self) -> bool:
        """Whether an event has begun that has not ended."""
        return self._is_passing or bool(self._held)

    def feed(self, data: bytes) -> bytes:
        """Return what passes."""
        held = self._held
        is_open = bool(held) or self._is_passing or self._skips_lf
        if not is_open and data.endswith(b"\n\n") and _NO_CHOICES.search(data) is None:
            return data
        if self._skips_lf and data:
            self._skips_lf = False
            data = data.removeprefix(b"\n")
        if not data:
            return b""
        searched = max(0, len(held) - _END_BYTES)
        held += data
        out: list[bytes] = []
        start = 0
        for end in _EVENT_END.finditer(held, searched):
            event = bytes(held[start : end.end()])
            start = end.end()
            out.append(self._passed(event, at_end=start == len(held)))
        del held[:start]
        if len(held) > MAX_HELD or (self._is_passing and held):
            out.append(self._pass_beginning())
        elif bytes(held[:_END_BYTES]) in _LINE_ENDS:  # the rest of an end: nothing has begun
            out.append(bytes(held))
            held.clear()
        return b"".join(out)

    def finish(self) -> bytes:
        """Return what is left at the end of the stream, where the last event may lack its blank line.

        Of a chunk without choices that was cut, nothing is left: it may have been the extra one.
        """
        held, self._held = bytes(self._held), bytearray()
        passed = self._passed(held, at_end=False)
        if _NO_CHOICES.search(passed) is None or not _is_cut(passed):
            return passed
        return _without_data(passed.splitlines(keepends=True), keeps_end=False)

    def _pass_beginning(self) -> bytes:
        """Return what there is of an event that is too long, but for what may be the half of its end."""
        self._is_passing = True
        kept = _END_BYTES if self._held.endswith((b"\r", b"\n")) else 0
        at = len(self._held) - kept
        passed = bytes(self._held[:at])
        del self._held[:at]
        return passed

    def _passed(self, event: bytes, *, at_end: bool) -> bytes:
        """Return what passes of an event.

        :param at_end: whether nothing is known of what follows.
        """
        if self._is_passing:
            self._is_passing = False
            return event
        if len(event) > MAX_HELD or _NO_CHOICES.search(event) is None or not _is_extra(event):
            return event
        lines = event.splitlines(keepends=True)
        has_comments = any(line.startswith(b":") for line in lines)
        self._skips_lf = at_end and not has_comments and event.endswith(b"\r")
        return _without_data(lines, keeps_end=has_comments)


def _is_extra(event: bytes) -> bool:
    try:
        chunk = _decode_chunk(_data_of(event))
    except _UNREADABLE:
        return False
    return not chunk.choices and not chunk.error


def _is_cut(event: bytes) -> bool:
    """Whether there is data that is no JSON, or not all of it."""
    data = _data_of(event)
    if not data:
        return False
    try:
        _decode_any(data)
    except _UNREADABLE:
        return True
    return False


def _data_of(event: bytes) -> bytes:
    return b"\n".join([line[5:] for line in event.splitlines() if line.startswith(b"data:")])


def _without_data(lines: list[bytes], *, keeps_end: bool) -> bytes:
    """Return the comments of an event, and blank lines before it.

    :param keeps_end: whether the blank line that ends it stays.
    """
    last = len(lines) - 1
    kept = [
        line
        for number, line in enumerate(lines)
        if line.startswith(b":") or (not line.strip(b"\r\n") and (keeps_end or number < last))
    ]
    return b"".join(kept)
