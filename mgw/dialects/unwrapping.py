"""Extract an answer that was requested in a wrapper: the value byte for byte, as it streams.

Some vendors hold an answer to a schema only if that is of an object.  What else a client wants (a list, say)
is asked for as the one member of an object, and the client gets the member's value::

    asked:     {"value": <schema>}
    answered:  {"value": [1, 2]}  ->  [1, 2]

A provider may not obey the schema, or refuse in words: text that does not begin as the wrapping does is
handed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import Part, Text
from mgw.canonical.reply import Candidate, Ended, Reply, ReplyEvent, TextAdded, TokenUsage
from mgw.dialects.stream import StreamReader

MEMBER: Final = "value"
"""The member of the wrapping that holds the value."""

_SPACE: Final = " \t\r\n"
_BEGIN: Final = re.compile(rf'[{_SPACE}]*\{{[{_SPACE}]*"{MEMBER}"[{_SPACE}]*:[{_SPACE}]*')
_LONGEST_BEGIN: Final = 256
_OUTSIDE: Final = re.compile(r'["{}\[\],]')
_INSIDE: Final = re.compile(r'["\\]')


class Unwrapper:
    """Takes one text in pieces; holds no more than the begin of the wrapping, or white space."""

    __slots__ = ("_begin", "_depth", "_ended", "_escaped", "_inside", "_is_bare", "_quoted", "_spaces")

    def __init__(self) -> None:
        self._begin = ""
        """What came before it was known to be a wrapping."""
        self._is_bare = False
        """Whether the text turned out to have no wrapping."""
        self._inside = False
        self._ended = False
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._spaces = ""
        """The white space behind the value, or within it."""

    def feed(self, text: str) -> str:
        """Return what these characters add to the value."""
        if self._is_bare:
            return text
        if not self._inside:
            self._begin += text
            begun = _BEGIN.match(self._begin)
            if begun is None or begun.end() == len(self._begin):
                return self._unbegun()
            self._inside = True
            text = self._begin[begun.end() :]
            self._begin = ""
        return "" if self._ended else self._value(text)

    def finish(self) -> str:
        """Return what was held of a text that has ended and was no wrapping after all."""
        held, self._begin = self._begin, ""
        return "" if _may_begin(held) else held

    def _unbegun(self) -> str:
        if len(self._begin) <= _LONGEST_BEGIN and _may_begin(self._begin):
            return ""
        self._is_bare = True
        held, self._begin = self._begin, ""
        return held

    def _value(self, text: str) -> str:
        end = self._end(text)
        told = self._spaces + text[:end]
        self._spaces = ""
        if self._quoted:
            return told
        value = told.rstrip(_SPACE)
        if not self._ended:
            self._spaces = told[len(value) :]
        return value

    def _end(self, text: str) -> int:
        """Return where in this the value ends, or how long this is."""
        place = 0
        while place < len(text):
            if self._escaped:
                self._escaped = False
                place += 1
                continue
            found = (_INSIDE if self._quoted else _OUTSIDE).search(text, place)
            if found is None:
                break
            place = found.end()
            if self._take(found[0]):
                self._ended = True
                return found.start()
        return len(text)

    def _take(self, mark: str) -> bool:
        """Take a mark; return whether the wrapping goes on, or ends, there."""
        if mark == '"':
            self._quoted = not self._quoted
        elif mark == "\\":
            self._escaped = True
        elif mark in "{[":
            self._depth += 1
        elif self._depth:
            self._depth -= mark != ","
        else:
            return True
        return False


def _may_begin(text: str) -> bool:
    """Whether a text may be the begin of a wrapping."""
    bare = "".join(text.split())
    whole = f'{{"{MEMBER}":'
    return whole.startswith(bare)


class UnwrappedReader(StreamReader):
    """A reader of streams whose texts come in a wrapping."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self._unwrappers: dict[int, Unwrapper] = {}

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
        return self._unwrapped(self._reader.feed(data))

    def finish(self) -> list[ReplyEvent]:
        """Return what the end of the stream completes."""
        return self._unwrapped(self._reader.finish())

    def _unwrapped(self, events: Iterable[ReplyEvent]) -> list[ReplyEvent]:
        found: list[ReplyEvent] = []
        for event in events:
            if isinstance(event, TextAdded):
                unwrapper = self._unwrappers.setdefault(event.candidate, Unwrapper())
                if text := unwrapper.feed(event.text):
                    found.append(TextAdded(text, event.candidate))
                continue
            last = self._unwrappers.get(event.candidate) if isinstance(event, Ended) else None
            if last is not None and isinstance(event, Ended) and (text := last.finish()):
                found.append(TextAdded(text, event.candidate))
            found.append(event)
        return found


def unwrap_reply(reply: Reply) -> Reply:
    """Return a whole answer with the texts of each candidate out of their wrapping."""
    return replace(reply, candidates=tuple(map(_candidate, reply.candidates)))


def _candidate(candidate: Candidate) -> Candidate:
    unwrapper = Unwrapper()
    parts: list[Part] = []
    for part in candidate.parts:
        if not isinstance(part, Text):
            parts.append(part)
        elif (text := unwrapper.feed(part.text)) or part.signature or part.citations:
            parts.append(replace(part, text=text))
    if text := unwrapper.finish():
        parts.append(Text(text))
    return replace(candidate, parts=tuple(parts))
