r"""Find and replace the value of one part of a form at its own position (contract 5.2).

Rules: RFC 7578 (``multipart/form-data``) over RFC 2046 5.1.  Only delimiters and the heads of parts are
looked at; a file of any size is passed over.  Bare line feeds, a form without its closing delimiter, a part
without its name and one that states a parameter twice are refused: two servers that read such a form
differently would see different models.

A :class:`FormReader` takes the body in pieces and holds what it is not done with: half a delimiter, the head
of a part, the value that is looked for.  It walks through these states::

    CONTENT --- "\r\n--boundary" ---> DELIMITER --- "--" ---> EPILOGUE
       ^  ^                            |     |
       |  +------ something else ------+     +--- white space, "\r\n" ---> HEAD
       +------------------------ "\r\n\r\n" ---------------------------------+

The preamble is content of no part.  A delimiter in the body's first line lacks its line end, so one is
assumed before the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from msgspec.structs import replace

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_document import Span
from mgw.wire.json_spans import Edit, FoundString
from mgw.wire.nested_strings import JsonPath, NestedString, find_nested_strings

MAX_PARTS: Final = 1000
MAX_PART_HEAD_BYTES: Final = 16 * 1024
MAX_VALUE_BYTES: Final = 4 * 1024
"""No name of a model is longer; other parts may be."""
MAX_LOOKALIKES: Final = 10_000
"""How often contents may hold what begins as a delimiter does and goes on with white space or a dash."""

_MAX_PADDING_BYTES: Final = 256
_PADDING: Final = re.compile(rb"[ \t]*+")
_LINE_END: Final = b"\r\n"
_END_OF_HEAD: Final = b"\r\n\r\n"
_BEHIND_DELIMITER: Final = frozenset(b" \t\r-")
_NOT_IN_A_VALUE: Final = re.compile("[\r\n\x00]")
PIECE_BYTES: Final = 256 * 1024
_MAX_BOUNDARY_BYTES: Final = 200
_PARAMETER: Final = re.compile(
    rb'[ \t]*;[ \t]*([^\s;="]+)[ \t]*=[ \t]*(?:"((?:[^"\\\r\n]++|\\[^\r\n])*+)"|([^\s;"]*+))'
)
_DISPOSITION: Final = re.compile(rb"\r\ncontent-disposition[ \t]*:[ \t]*([^\r]*)", re.IGNORECASE)
_FORM_DATA: Final = re.compile(rb"form-data(?=[ \t;]|\Z)", re.IGNORECASE)
_NO_PARAMETER: Final = re.compile(rb"[ \t;]*+\Z")
_BARE_LINE_END: Final = re.compile(rb"\r(?!\n)|(?<!\r)\n|\n[ \t]|\x00")
_ODD_ESCAPE: Final = re.compile(rb'\\(?!["\\])')
_EXTENDED_NAME: Final = b"name*"
_ENCODED: Final = re.compile(
    rb"\r\ncontent-transfer-encoding[ \t]*:[ \t]*(?!7bit|8bit|binary)\S", re.IGNORECASE
)
_QUOTED_PAIR: Final = re.compile(rb'\\(["\\])')


class _State(Enum):
    CONTENT = auto()
    DELIMITER = auto()
    HEAD = auto()
    EPILOGUE = auto()


class FormReader:
    """Find the value of the part called ``name`` in a form that comes in pieces.

    The spans of what is found are positions in the whole body.  Any cut of a body into pieces gives the same
    result, or the same error.

    :raises GatewayError: ``MALFORMED`` here for another kind of body, and from its methods for what
    is no complete form, for a value that is no text, and for one of more than ``max_bytes``.
    """

    def __init__(self, content_type: bytes, name: str = "model", max_bytes: int = MAX_VALUE_BYTES) -> None:
        self.delimiter: Final = b"\r\n--" + _read_boundary(content_type)
        self._name: Final = name
        self._max_bytes: Final = max_bytes
        self._state = _State.CONTENT
        self._held = bytearray(_LINE_END)
        self._base = -len(_LINE_END)  # the position of what is held in the body
        # In what is held: where the content begins, and up to where all is known.
        self._start = self._at = 0
        self._is_wanted = False
        self._parts = self._lookalikes = 0
        self._spans: list[Span] = []
        self._value = b""

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next piece of the body."""
        if self._state is _State.EPILOGUE:
            return
        self._held += data
        while _STEPS[self._state](self):
            pass

    def finish(self) -> FoundString | None:
        """Return the value that was found, once the body is complete, ``None`` where the form has none.

        Of several such parts the last one counts, and the spans of all are returned: the parts' contents.
        """
        if self._state is _State.HEAD:
            raise malformed_form("the head of a part has no end")
        if self._state is not _State.EPILOGUE:
            raise malformed_form("it ends before its closing boundary")
        if not self._spans:
            return None
        try:
            return FoundString(self._value.decode(), tuple(self._spans))
        except UnicodeDecodeError:
            raise self._refused("is not valid UTF-8") from None

    def on_value(self, value: bytes, span: Span) -> None:
        """Keep the value of a part that is looked for."""
        self._spans.append(span)
        self._value = value

    @property
    def opening(self) -> bytes:
        """The delimiter with which a form begins that has no preamble."""
        return self.delimiter[len(_LINE_END) :]

    @property
    def count(self) -> int:
        """How many parts have begun."""
        return self._parts

    def _in_content(self) -> bool:
        """Look for a delimiter; whether one may have begun."""
        held, delimiter = self._held, self.delimiter
        size = len(held)
        found = held.find(delimiter, self._at)
        while found >= 0:
            behind = found + len(delimiter)
            if behind == size or held[behind] in _BEHIND_DELIMITER:
                break
            self._at = behind
            found = held.find(delimiter, behind)
        self._at = max(self._at, size - len(delimiter) + 1) if found < 0 else found
        if self._is_wanted and self._at - self._start > self._max_bytes:
            raise self._refused(f"is longer than {self._max_bytes} bytes")
        if not self._is_wanted:
            self._forget(self._at)
        if found >= 0:
            self._state = _State.DELIMITER
        return found >= 0

    def _in_delimiter(self) -> bool:
        """Look at what follows a delimiter; whether that is known."""
        after = self._at + len(self.delimiter)
        match = _PADDING.match(self._held, after)
        assert match is not None, "it may be empty"
        end = match.end()
        if end - after > _MAX_PADDING_BYTES:
            raise malformed_form("a boundary is followed by too much white space")
        following = bytes(self._held[end : end + 2])
        if following == _LINE_END:
            self._end_part()
            self._begin_head(end)
        elif following == b"--" and end == after:
            self._end_part()
            self._state = _State.EPILOGUE
            self._held.clear()
            return False
        elif following in {b"", b"\r"} or (following == b"-" and end == after):
            return False
        else:  # content that only looks similar
            self._lookalikes += 1
            if self._lookalikes > MAX_LOOKALIKES:
                raise malformed_form("its boundary occurs too often in its contents")
            self._state = _State.CONTENT
            self._at = end
        return True

    def _end_part(self) -> None:
        if self._at < self._start:
            raise malformed_form("a part has no content")
        if self._is_wanted:
            span = self._base + self._start, self._base + self._at
            self.on_value(bytes(self._held[self._start : self._at]), span)

    def _begin_head(self, line_end: int) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise malformed_form(f"it has more than {MAX_PARTS} parts")
        self._state = _State.HEAD
        self._at = line_end
        self._forget(line_end)

    def _in_head(self) -> bool:
        """Look for the end of a head, which is held from the line end before it; whether it has come."""
        held, limit = self._held, len(_LINE_END) + MAX_PART_HEAD_BYTES
        end = held.find(_END_OF_HEAD, self._at, limit)
        if end < 0:
            if len(held) >= limit:
                raise malformed_form("the head of a part has no end")
            self._at = max(0, len(held) - len(_END_OF_HEAD) + 1)
            return False
        head = bytes(held[:end])
        if self.delimiter in head:
            raise malformed_form("a part has no content")
        self._is_wanted = self.is_wanted(head, _read_name(head))
        if self._is_wanted and _has_transfer_encoding(head):
            raise self._refused("must not be encoded")
        self._state = _State.CONTENT
        # A delimiter must not make use of the line end that ends the head.
        self._at = end + len(_LINE_END)
        self._start = end + len(_END_OF_HEAD)
        self._forget(self._at)
        return True

    def is_wanted(self, head: bytes, name: bytes) -> bool:  # noqa: ARG002  others look at it
        """Whether a part is the one that is looked for, by its head and the name in it."""
        return name == self._name.encode()

    def _forget(self, size: int) -> None:
        del self._held[:size]
        self._base += size
        self._at -= size
        self._start -= size

    def _refused(self, why: str) -> GatewayError:
        return GatewayError(Reason.MALFORMED, f"the part {self._name!r} {why}", param=self._name)


_STEPS: Final[dict[_State, Callable[[FormReader], bool]]] = {
    _State.CONTENT: FormReader._in_content,
    _State.DELIMITER: FormReader._in_delimiter,
    _State.HEAD: FormReader._in_head,
}


def find_part(
    body: bytes, content_type: bytes, name: str = "model", max_bytes: int = MAX_VALUE_BYTES
) -> FoundString | None:
    """Return what a :class:`FormReader` finds in a body that is in memory.

    :raises GatewayError: ``MALFORMED`` as the reader does.
    """
    reader = FormReader(content_type, name, max_bytes)
    feed_whole(reader, body)
    return reader.finish()


def feed_whole(reader: FormReader, body: bytes) -> None:
    """Feed a reader a body that is in memory."""
    view = memoryview(body)
    for position in range(0, len(body), PIECE_BYTES):
        reader.feed(view[position : position + PIECE_BYTES])


def part_edits(found: FoundString, new: str) -> list[Edit]:
    """Return the edits that put ``new`` at each of the spans; none where that changes nothing.

    :raises GatewayError: ``MALFORMED`` for a value with line ends, which might end the part.
    """
    if new == found.value:
        return []
    if _NOT_IN_A_VALUE.search(new):
        raise _line_breaks()
    return [(span, new.encode()) for span in found.spans]


def find_nested_in_part(found: FoundString, *paths: JsonPath) -> list[NestedString]:
    """Return what :func:`find_nested_strings` finds in a part that is JSON, with spans of the body.

    :raises GatewayError: ``MALFORMED`` as it does, and for several such parts: which of them counts
    would be for each server to choose.
    """
    return nested_in_part(found, find_nested_strings, *paths)


def nested_in_part(
    found: FoundString, find: Callable[..., list[NestedString]], *paths: JsonPath
) -> list[NestedString]:
    """Return what ``find`` finds at paths of a part that is JSON, with spans of the body.

    :raises GatewayError: ``MALFORMED`` for several such parts.
    """
    if len(found.spans) > 1:
        raise malformed_form("a JSON part appears more than once")
    ((base, _),) = found.spans
    return [
        replace(value, span=(base + value.span[0], base + value.span[1]))
        for value in find(found.value.encode(), *paths)
    ]


def render_part(opening: bytes, name: str, value: str) -> bytes:
    """Return a part to put before the first one of a form that has no preamble.

    :param opening: the delimiter with which the form begins.
    :raises GatewayError: as :func:`part_edits` does.
    """
    if _NOT_IN_A_VALUE.search(value):
        raise _line_breaks()
    head = f'Content-Disposition: form-data; name="{name}"'.encode()
    return b"%b\r\n%b\r\n\r\n%b\r\n" % (opening, head, value.encode())


def _line_breaks() -> GatewayError:
    return GatewayError(Reason.MALFORMED, "a form value must not contain line breaks", param="model")


def _read_boundary(content_type: bytes) -> bytes:
    """Return the boundary that a ``Content-Type`` states; it has no line ends.

    :raises GatewayError: ``MALFORMED`` for anything but a form with a boundary.
    """
    kind, _, _ = content_type.partition(b";")
    if kind.strip().lower() == b"multipart/form-data":
        stated = [
            value
            for key, value in _read_parameters(content_type, len(kind))[0]
            if key.partition(b"*")[0] == b"boundary"
        ]
        boundary = _QUOTED_PAIR.sub(rb"\1", stated[0]) if len(stated) == 1 else b""
        if boundary and len(boundary) <= _MAX_BOUNDARY_BYTES:
            return boundary
    raise GatewayError(
        Reason.MALFORMED, "the body must be multipart/form-data with one boundary", param="Content-Type"
    )


def _read_name(head: bytes) -> bytes:
    """Return the name of a part by its head, each line of which is begun with a line end.

    :raises GatewayError: ``MALFORMED`` for a part without one, and where servers would find
    different ones: a header or a parameter that is stated twice, folded lines, and what is no parameter.
    """
    if _BARE_LINE_END.search(head) is not None:
        raise malformed_form("the head of a part has a line break or NUL where none is allowed")
    dispositions = _DISPOSITION.findall(head)
    if len(dispositions) > 1:
        raise malformed_form("a part has more than one Content-Disposition")
    kind = _FORM_DATA.match(dispositions[0]) if dispositions else None
    if kind is None:
        raise malformed_form("a part has no Content-Disposition: form-data")
    parameters, end = _read_parameters(dispositions[0], kind.end())
    if _NO_PARAMETER.match(dispositions[0], end) is None:
        raise malformed_form("a part has a Content-Disposition that does not end with its parameters")
    names = [name for name, _ in parameters]
    if len(set(names)) < len(names) or any(name.startswith(_EXTENDED_NAME) for name in names):
        raise malformed_form("a part gives a Content-Disposition parameter more than once")
    name = dict(parameters).get(b"name")
    if name is None:
        raise malformed_form("a part has no name")
    if _ODD_ESCAPE.search(name) is not None:
        raise malformed_form("the name of a part has a stray backslash")
    return _QUOTED_PAIR.sub(rb"\1", name)


def _has_transfer_encoding(head: bytes) -> bool:
    """Whether a part's content is spelled in something like base64 (RFC 7578 4.7)."""
    return _ENCODED.search(head) is not None


def malformed_form(what: str) -> GatewayError:
    """Return the refusal of a form that two servers may read differently."""
    return GatewayError(Reason.MALFORMED, f"the form is malformed: {what}")


def _read_parameters(value: bytes, position: int) -> tuple[list[tuple[bytes, bytes]], int]:
    """Return the parameters that begin at ``position``, escapes as they are, and where they end."""
    found: list[tuple[bytes, bytes]] = []
    while (match := _PARAMETER.match(value, position)) is not None:
        found.append((match[1].lower(), match[3] if match[2] is None else match[2]))
        position = match.end()
    return found, position
