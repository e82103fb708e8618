"""Read a response head that resembles an earlier one.

A provider sends the same status line and the same names in the same order in nearly every response; only
values differ.  Such a *shape* becomes one regular expression, made of a head that was read line by line: its
status line and names are literal, so are the values that decide how the body and the connection end, and any
other value may hold what RFC 9110 5.5 allows and nothing else.  So what matches is in order in every byte, as
that head was, and what becomes of each line is known.
"""

from __future__ import annotations

import re
from typing import Final

from mgw.http.response_head import (
    CONNECTION,
    CONTENT_LENGTH,
    LINE_END,
    REQUEST_ID,
    TRANSFER_ENCODING,
    HeaderLine,
    ResponseHead,
)

MAX_SHAPES: Final = 64
"""The most shapes that are kept of a provider; the one that was not asked for longest goes first."""
MOST_TRIED: Final = 6
"""The most shapes that a head is compared with: responses, streams and refusals of two kinds of servers."""
LEARN_AFTER: Final = 3
"""The heads of a shape that are read line by line first: an expression takes a millisecond to make."""
_MAX_BYTES: Final = 8 * 1024
_VALUE: Final = rb"[!-~\x80-\xff][\t -~\x80-\xff]*+"
_LENGTH: Final = rb"[0-9]{1,15}"
_LITERAL: Final = frozenset({CONNECTION, TRANSFER_ENCODING})
_REQUEST_ID: Final = "request_id"
_ATTRIBUTES: Final = ("content_type", "content_encoding", CONTENT_LENGTH, _REQUEST_ID)


class HeadShape:
    """What the heads of one shape have in common, if their lines are spaced as we write them.

    :param head: one of them.
    :param lines: its own, as they were judged.
    """

    __slots__ = (
        *("_connection_options", "_groups", "_is_kept", "_match", "_reason", "_status"),
        "_transfer_encoding",
    )

    def __init__(self, head: ResponseHead, lines: list[HeaderLine]) -> None:
        self._status, self._reason = head.status, head.reason
        self._transfer_encoding, self._connection_options = head.transfer_encoding, head.connection_options
        self._is_kept = head.is_kept
        pattern = [re.escape(head.raw[: head.raw.index(LINE_END)] + LINE_END)]
        missing = set(_ATTRIBUTES)
        runs = 0
        is_relayed = False
        for line in lines:
            if line[3] is not is_relayed:
                is_relayed = line[3]
                pattern.append(b"(?P<run%d>" % runs if is_relayed else b")")
                runs += is_relayed
            pattern.append(_line_pattern(line, missing))
        pattern.append(b")\r\n" if is_relayed else b"\r\n")
        pattern += [b"(?P<%b>(?!))?" % attribute.encode() for attribute in sorted(missing)]  # matches nothing
        compiled = re.compile(b"".join(pattern))
        self._match = compiled.match
        names = [*_ATTRIBUTES, *(f"run{number}" for number in range(runs))]
        self._groups = 0, *(compiled.groupindex[name] for name in names)

    def read(self, data: bytes) -> ResponseHead | None:
        """Return the head that ``data`` begins with, or ``None``: it is of another shape, or not complete."""
        found = self._match(data)
        if found is None:
            return None
        raw, content_type, content_encoding, length, request_id, *runs = found.group(*self._groups)
        return ResponseHead(
            self._status,
            self._reason,
            raw,
            b"".join(runs),
            content_type,
            content_encoding,
            None if length is None else int(length),
            None if request_id is None else request_id.decode("ascii"),
            self._transfer_encoding,
            self._connection_options,
            self._is_kept,
            True,  # noqa: FBT003  # what follows is the pattern's to promise: see _VALUE
        )


class HeadShapes:
    """The shapes of one provider's heads, whichever of its connections they came on.

    :param max_shapes: how many are kept; 0: nothing is learned.
    """

    __slots__ = ("_candidates", "_max_shapes", "tried")

    def __init__(self, max_shapes: int = MAX_SHAPES) -> None:
        self._max_shapes = max_shapes
        self.tried: tuple[HeadShape, ...] = ()
        """The shapes to compare a head with: the last ones that a head was read line by line of."""
        self._candidates: dict[tuple[bytes, ...], _Candidate] = {}
        """Candidates by what the heads of a shape have in common."""

    def learn(self, head: ResponseHead, lines: list[HeaderLine]) -> None:
        """Take note of a head that was read line by line; its shape is tried once a few like it have come.

        :param lines: its own, as they were judged.
        """
        raw = head.raw
        if len(raw) > _MAX_BYTES or not self._max_shapes or not _has_plain_line_ends(raw):
            return
        parts = [raw[: raw.index(LINE_END)]]
        for name, value, attribute, _ in lines:
            parts.append(name)
            if attribute in _LITERAL:
                parts.append(value)
        key = tuple(parts)
        candidate = self._candidates.pop(key, None) or _Candidate()
        if len(self._candidates) >= self._max_shapes:
            del self._candidates[next(iter(self._candidates))]
        self._candidates[key] = candidate
        candidate.seen += 1
        if candidate.shape is None and candidate.seen >= LEARN_AFTER:
            candidate.shape = HeadShape(head, lines)
        if candidate.shape is not None and candidate.shape not in self.tried:
            self.tried = (candidate.shape, *self.tried[: MOST_TRIED - 1])


class _Candidate:
    """A shape, or what may become one."""

    __slots__ = ("seen", "shape")

    def __init__(self) -> None:
        self.seen = 0
        self.shape: HeadShape | None = None


def _has_plain_line_ends(raw: bytes) -> bool:
    """Whether CR and LF stand in line ends only: what is literal in a pattern must hold neither."""
    return raw.count(b"\r") == raw.count(b"\n") == raw.count(LINE_END)


def _line_pattern(line: HeaderLine, missing: set[str]) -> bytes:
    """Return the pattern of a line; one whose value is taken note of is no longer missing."""
    name, value, attribute, _ = line
    name = re.escape(name)
    if attribute in _LITERAL:
        return b"%b: %b\r\n" % (name, re.escape(value))
    value = _LENGTH if attribute == CONTENT_LENGTH else _VALUE
    if attribute is not None and attribute in missing:
        missing.remove(attribute)
        # What cannot be an id is none of the provider's: a head with such a value is read line by line.
        value = REQUEST_ID if attribute == _REQUEST_ID else value
        value = b"(?P<%b>%b)" % (attribute.encode(), value)
    return b"%b: %b\r\n" % (name, value)
