"""Tool calls of one choice, read as they stream in; hosts differ much in how they write them.

Source: the SDK's ``ChoiceDeltaToolCall``: ``index`` says which call, ``id`` and the name come with its first
piece.  This is what is made of what hosts write:

* No ``index``: a known ``id`` goes on with its call, a name begins another, and so does a new ``id`` where
  the last call is whole; all else goes on with the last (Google's endpoint, Qwen).
* Another ``id`` and a name at an index that is taken, or a name and arguments where the call is complete and
  neither has an ``id``: a new call (Ollama, Dynamo, flattened parallel calls).
* A name in pieces (hosts that stream what a model spells, token by token): they are gathered until arguments
  come, so a call begins no earlier.  A piece that repeats what is known already adds nothing.
* ``id`` and name in every piece: the first ones count, once there are arguments.  An ``id`` is only ever its
  first piece, since nobody but the client gives it back.
* No ``id`` at all, or that of another call: one is made.
* Arguments as an object in place of its text: they become the text.  Name and arguments in the entry itself.
* A call that never gets a name breaks the answer: what nobody can run must not end as if nothing was asked.
  Without arguments it is none, unless the host says that it stopped to have it run.

A call ends with the last brace of its arguments.  :class:`ArgumentsScanner` finds it by braces and quotes
alone (RFC 8259: structure stands outside of strings, and a quote inside a string is escaped).
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec.json import Encoder

from mgw.canonical.conversation import Signature
from mgw.canonical.identifiers import make_id
from mgw.canonical.reply import ArgumentsAdded, CallBegan, CallEnded, ReplyEvent
from mgw.dialects.openai.thoughts import parse_host_extra_content

_ENCODER: Final = Encoder()
_DEPRECATED: Final = "function_call"
"""Where the one call of the deprecated kind is kept."""
_MAX_HELD: Final = 2**20
"""Characters of arguments that wait for a name."""

_OUTSIDE: Final = re.compile(r'["{}]')
_INSIDE: Final = re.compile(r'["\\]')


class ArgumentsScanner:
    """Finds where the object of a call's arguments ends, in time proportional to its text; keeps no text."""

    __slots__ = ("_depth", "_escaped", "_has_begun", "_quoted", "complete")

    def __init__(self) -> None:
        self.complete = False
        """The object has ended."""
        self._has_begun = False
        self._depth = 0
        self._quoted = False
        self._escaped = False

    @property
    def is_cut(self) -> bool:
        """Whether arguments have begun, and are not known to have ended."""
        return self._has_begun and not self.complete

    def feed(self, text: str) -> str:
        """Return what of this belongs to the arguments: nothing that follows the end of the object."""
        if self.complete:
            return ""
        if not self._has_begun:
            head = text.lstrip()
            if not head:
                return text
            self._has_begun = True
            if head[0] != "{":
                self._depth = -1  # no object, so nobody knows its end
        if self._depth < 0:
            return text
        return text[: self._scan(text)]

    def _scan(self, text: str) -> int:
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
            if self._ends_object(found[0]):
                return place
        return len(text)

    def _ends_object(self, mark: str) -> bool:
        """Read a quote, a backslash or a brace; return whether the object has ended with it."""
        if mark == '"':
            self._quoted = not self._quoted
        elif mark == "\\":
            self._escaped = True
        elif mark == "{":
            self._depth += 1
        else:
            self._depth -= 1
            self.complete = self._depth <= 0
        return self.complete


class _PartialCall:
    __slots__ = ("ended", "held", "id", "name", "number", "scanner", "signature")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        """The part of the name that has come so far."""
        self.number: int | None = None
        """``None`` while it has not begun, for want of a name or of arguments."""
        self.scanner = ArgumentsScanner()
        self.ended = False
        self.held = ""
        self.signature: Signature | None = None


class CallsReader:
    """Reads the calls of one choice."""

    __slots__ = ("_calls", "_candidate", "_ids", "_last", "_seed", "begun", "waiting")

    def __init__(self, candidate: int, seed: str) -> None:
        self.begun = 0
        """How many there are."""
        self.waiting = False
        """One may have a name, and not have begun."""
        self._candidate = candidate
        self._seed = f"{seed}/{candidate}"
        self._calls: dict[int | str, _PartialCall] = {}
        self._last: int | str = 0
        self._ids: set[str] = set()

    @property
    def is_cut(self) -> bool:
        """Whether a call is in the middle of its arguments."""
        return any(not call.ended and call.scanner.is_cut for call in self._calls.values())

    def on_tool_calls(self, entries: list[Any], events: list[ReplyEvent]) -> None:  # Any: any JSON
        """Read the pieces of ``delta.tool_calls``; what is no function is skipped."""
        for entry in entries:
            if type(entry) is dict and entry.get("type") in (None, "", "function"):
                function = entry.get("function")
                self._on_piece(entry, function if type(function) is dict else entry, events)

    def on_function_call(self, function: Any, events: list[ReplyEvent]) -> None:  # Any: JSON of whatever type
        """Read a piece of ``delta.function_call``."""
        if type(function) is dict:
            self._on_piece({"index": _DEPRECATED}, function, events)

    def begin_waiting(self, events: list[ReplyEvent]) -> None:
        """Begin the calls that have a name: something else follows, so the name is whole."""
        self.waiting = False
        for call in self._calls.values():
            if call.number is None and call.name:
                self._begin(call, events)

    def on_finish(self, events: list[ReplyEvent]) -> None:
        """End what has not ended."""
        self.begin_waiting(events)
        for call in self._calls.values():
            self._end(call, events)

    def lack_name(self, *, wanted: bool) -> bool:
        """Whether a call is lost for want of a name; ``wanted``: the host says that it has to be run."""
        nameless = [call for call in self._calls.values() if call.number is None]
        return any(call.held.strip() for call in nameless) or (wanted and not self.begun and bool(nameless))

    def _on_piece(self, entry: dict[str, Any], function: dict[str, Any], events: list[ReplyEvent]) -> None:
        call_id, name = _text(entry.get("id")), _text(function.get("name"))
        arguments = _arguments_text(function.get("arguments"))
        index = self._index(entry.get("index"), call_id, name)
        call = self._calls.get(index)
        if call is not None and _is_another(call, call_id, name, arguments):
            self.begin_waiting(events)
            self._end(call, events)
            call = None
        if call is None:
            call = self._calls[index] = _PartialCall()
        self._last = index
        call.id = call.id or call_id
        call.signature = call.signature or parse_host_extra_content(entry.get("extra_content"))
        if call.number is None:
            call.name = _join_name(call.name, name)
            self.waiting = True
            if call.name and (arguments or call.held):
                self.begin_waiting(events)
        self._add_arguments(call, arguments, events)

    def _index(self, index: Any, call_id: str, name: str) -> int | str:  # Any: JSON of whatever type
        if type(index) is int:
            return index
        if index == _DEPRECATED:
            return _DEPRECATED
        if type(index) is str and index.isdecimal() and len(index) < 10:
            return int(index)
        if call_id and (name or f"id {call_id}" in self._calls):
            return f"id {call_id}"
        last = self._calls.get(self._last)
        if last is None or name or (call_id and last.scanner.complete):
            return f"call {len(self._calls)}"
        return self._last

    def _begin(self, call: _PartialCall, events: list[ReplyEvent]) -> None:
        call.number = self.begun
        self.begun += 1
        call_id = call.id
        if not call_id or call_id in self._ids:
            call_id = make_id(self._seed, call.number)
        self._ids.add(call_id)
        events.append(CallBegan(call.number, call_id, call.name, call.signature, self._candidate))
        held, call.held = call.held, ""
        self._add_arguments(call, held, events)

    def _add_arguments(self, call: _PartialCall, arguments: str, events: list[ReplyEvent]) -> None:
        if not arguments or call.ended:
            return
        if call.number is None:
            call.held = (call.held + arguments)[:_MAX_HELD]
            return
        text = call.scanner.feed(arguments)
        if text:
            events.append(ArgumentsAdded(call.number, text, self._candidate))
        if call.scanner.complete:
            self._end(call, events)

    def _end(self, call: _PartialCall, events: list[ReplyEvent]) -> None:
        if call.number is not None and not call.ended:
            call.ended = True
            events.append(CallEnded(call.number, self._candidate))


def _is_another(call: _PartialCall, call_id: str, name: str, arguments: str) -> bool:
    if not name or not call.name:
        return False
    if call_id and call.id:
        return call_id != call.id
    return call.scanner.complete and bool(arguments)


def _join_name(known: str, piece: str) -> str:
    """Return a name with one more piece of it; some hosts say all of it again, or all so far."""
    return piece if piece.startswith(known) else known + piece if piece else known


def _text(value: Any) -> str:  # Any: JSON of whatever type
    return value if type(value) is str else ""


def _arguments_text(value: Any) -> str:  # Any: JSON of whatever type
    if type(value) is not dict:
        return _text(value)
    try:
        return _ENCODER.encode(value).decode()
    except RecursionError:
        return ""
