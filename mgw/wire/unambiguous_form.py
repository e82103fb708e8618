"""Read a form in which every server finds the same parts, and reject any other.

What :class:`~mgw.wire.multipart.FormReader` takes for granted is checked here, for clients that may use some
models only: the boundary has no character at which some server ends it; a delimiter is nothing else anywhere
in the body, the preamble included, since some servers take bare line feeds; the part that is looked for has
one value, in UTF-8, and no part has a name that some server takes for that one, or two places in its head
where some server finds a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_document import Span
from mgw.wire.json_spans import FoundString
from mgw.wire.multipart import MAX_VALUE_BYTES, FormReader, feed_whole, malformed_form, nested_in_part
from mgw.wire.nested_strings import JsonPath, NestedString
from mgw.wire.similar_names import is_similar, is_similar_below
from mgw.wire.unambiguous_json import find_unambiguous_strings

_MODEL: Final = "model"
_SETS_CHARSET: Final = "_charset_"
"""A part that says how the others are to be read (RFC 7578 4.6)."""
_BOUNDARY: Final = re.compile(rb"boundary(?:\*[0-9]*\*?)?[ \t]*=", re.IGNORECASE)
_WHOLE_BOUNDARY: Final = re.compile(
    rb"""boundary[ \t]*=[ \t]*(?:"[0-9A-Za-z'()+_./:=?-]+"|[0-9A-Za-z'+_.-]+)[ \t]*(?:;|\Z)""", re.IGNORECASE
)
"""One that every server reads to its end: without quotes it is a token (RFC 9110 5.6.2), with quotes all but
the characters at which values are split (RFC 2046 5.1.1)."""
_NAME: Final = re.compile(rb"\bname[ \t]*(?:\*[0-9]*\*?)?[ \t]*=", re.IGNORECASE)
"""What some servers search the whole head of a part for."""
_CHARSET: Final = re.compile(
    rb'\r\ncontent-type[ \t]*:[^\r]*charset\*?[ \t]*=[ \t"]*([^\s";]*)', re.IGNORECASE
)
_UTF8: Final = frozenset({b"utf-8", b"utf8", b"us-ascii", b"ascii"})


class UnambiguousFormReader(FormReader):
    """A reader of forms whose parts every server finds in the same places.

    :param below: parts that name further models, as paths: ``("svg", "model")`` is the part ``svg[model]``.

    :raises GatewayError: ``MALFORMED`` as the other does, and for all that the module describes.
    """

    def __init__(
        self,
        content_type: bytes,
        name: str = _MODEL,
        max_bytes: int = MAX_VALUE_BYTES,
        below: Sequence[JsonPath] = (),
    ) -> None:
        super().__init__(content_type, name, max_bytes)
        if len(_BOUNDARY.findall(content_type)) > 1:
            message = "Content-Type has more than one parameter that looks like a boundary"
            raise GatewayError(Reason.MALFORMED, message, param="Content-Type")
        if _WHOLE_BOUNDARY.search(content_type) is None:
            message = "the boundary contains characters that some servers treat as its end"
            raise GatewayError(Reason.MALFORMED, message, param="Content-Type")
        self._dashes: Final = self.delimiter.lstrip(b"\r\n")
        self._names: Final = {name, _MODEL, _SETS_CHARSET}
        self._wanted: Final = name
        self._tail = b""
        self._delimiters = 0
        self._below: Final = {_part_name(path): path for path in below}
        self._path: JsonPath | None = None
        self._values: dict[JsonPath | None, bytes] = {}
        self.further: Final[list[NestedString]] = []
        """The further models that were found."""

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next piece of the body."""
        seen = self._tail + bytes(data)
        self._delimiters += seen.count(self._dashes)
        self._tail = self._after_last(seen)
        super().feed(data)

    def _after_last(self, seen: bytes) -> bytes:
        """Return what may begin another delimiter, which none of those that were counted is part of."""
        end = seen.rfind(self._dashes)
        begin = max(len(seen) - len(self._dashes) + 1, 0 if end < 0 else end + len(self._dashes))
        return seen[begin:]

    def finish(self) -> FoundString | None:
        """Return the value that was found, as the other reader does; all its spans have the same value."""
        found = super().finish()
        if self._delimiters != self.count + 1:
            raise malformed_form("its boundary occurs where no part begins or ends")
        return found

    def is_wanted(self, head: bytes, name: bytes) -> bool:
        """Whether a part is the one that is looked for; it is refused if some server takes it for that."""
        if len(_NAME.findall(head)) > 1:
            raise malformed_form("the head of a part has 'name=' in two places")
        text = name.decode("utf-8", "replace")
        self._path = self._below.get(text)
        if text == self._wanted or self._path is not None:
            charset = _CHARSET.search(head)
            if charset is not None and charset[1].lower() not in _UTF8:
                raise malformed_form(f"the part {text!r} must be in UTF-8")
            return True
        text = text.replace("\\", "")
        if any(is_similar(text, wanted) for wanted in self._names):
            raise malformed_form(f"it has a part with a name similar to {self._wanted!r}")
        if is_similar_below(text, _MODEL):
            raise malformed_form(f"it names another model in the part {text[:100]!r}")
        return False

    def on_value(self, value: bytes, span: Span) -> None:
        """Keep a value, and compare the values of several parts with one name."""
        path = self._path
        if self._values.setdefault(path, value) != value:
            name = self._wanted if path is None else _part_name(path)
            raise malformed_form(f"it has {name!r} more than once, with different values")
        if path is None:
            super().on_value(value, span)
            return
        place = tuple(key for key in path if key is not None)
        self.further.append(NestedString(value.decode("utf-8", "replace"), span, place))


def _part_name(path: JsonPath) -> str:
    """Return the name of a part, as OpenAI's SDKs and PHP spell a place below another."""
    first, *keys = path
    return f"{first}{''.join(f'[{key}]' for key in keys)}"


def find_unambiguous_part(
    body: bytes, content_type: bytes, name: str = _MODEL, max_bytes: int = MAX_VALUE_BYTES
) -> FoundString | None:
    """Return what an :class:`UnambiguousFormReader` finds in a body that is in memory.

    :raises GatewayError: ``MALFORMED`` as the reader does.
    """
    reader = UnambiguousFormReader(content_type, name, max_bytes)
    feed_whole(reader, body)
    return reader.finish()


def find_unambiguous_in_part(found: FoundString, *paths: JsonPath) -> list[NestedString]:
    """Return what :func:`find_unambiguous_strings` finds in a part that is JSON, with spans of the body.

    :raises GatewayError: ``MALFORMED`` as it does, and for several such parts.
    """
    return nested_in_part(found, find_unambiguous_strings, *paths)
