"""A stream of chunks, as events.

Sources: the SDK's ``ChatCompletionChunk``; the reference of streaming.  Hosts differ:

* usage in a last chunk without choices, in the last of the answer, or in every chunk, where it grows;
* comments, and chunks without choices for their own ends (Azure's filters), before and between;
* an error as an event of its own, or in a chunk (OpenRouter); an ``event: error`` of other families' making;
  errors of any shape that :mod:`mgw.dialects.openai.errors` knows, words without JSON among them;
* no ``[DONE]`` after the finish reason, or no finish reason before ``[DONE]``.  Either is an end, but for a
  ``[DONE]`` in the midst of a call; that, and a stream that has neither, broke off.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from mgw.canonical.reply import NO_USAGE, Began, Broke, Counted, ReplyEvent, TokenUsage, UpstreamError
from mgw.dialects.metering import attempt
from mgw.dialects.openai.choice import Choice, ChoiceReader
from mgw.dialects.openai.errors import error_in, is_error
from mgw.dialects.openai.meter import read_usage
from mgw.dialects.refusal import UNREADABLE_EVENT, spoken_by_proxy
from mgw.dialects.stream import StreamReader
from mgw.errors import GatewayError, Reason
from mgw.wire.sse import EventReader

_DONE: Final = b"[DONE]"
_MOST_CHOICES: Final = 128
"""The most that the reference lets anybody ask for."""
_MOST_OF_NO_STREAM: Final = 2048
"""Bytes that are kept of what may turn out to be no stream at all."""
_OF_A_STREAM: Final = (b":", b"data:", b"event:", b"id:", b"retry:")


class _Chunk(Struct):
    """The fields of a chunk that are read; Any: hosts write all kinds of types."""

    id: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: Any = None
    x_groq: Any = None
    error: Any = None


_DECODER: Final = Decoder(_Chunk)


class ChatStreamReader(StreamReader):
    """Reads a stream of chat completions."""

    __slots__ = ("_began", "_choices", "_closed", "_done", "_events", "_head", "_heard", "_seed", "usage")

    def __init__(self, seed: str) -> None:
        self.usage: TokenUsage = NO_USAGE
        """The counts so far."""
        self._seed = seed
        self._events = EventReader(bare=True)  # some hosts break off with bare JSON
        self._heard = False
        """An event has come: this is a stream."""
        self._head = b""
        """What came before any did."""
        self._choices: dict[int, ChoiceReader] = {}
        self._began = False
        self._done = False
        """``[DONE]`` has come."""
        self._closed = False
        """Nothing that comes is read any more."""

    @property
    def ended(self) -> bool:
        """Whether ``[DONE]`` has come."""
        return self._done

    @property
    def complete(self) -> bool:
        """Whether nothing can be missing."""
        return self._done

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return what these bytes complete; what nobody knows is skipped.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where an event has no end.
        """
        found: list[ReplyEvent] = []
        events = self._events.feed(data)
        if not self._heard:
            self._heard, self._head = bool(events), (self._head + data)[:_MOST_OF_NO_STREAM]
        for event in events:
            if self._closed:
                break
            if event.event == b"error":  # as other wires spell it
                self._break(event.data, found)
            else:
                self._take(event.data, found)
        return found

    def finish(self) -> list[ReplyEvent]:
        """Return what the end of the stream completes.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where the answer had not ended.
        """
        found = self.feed(b"\n\n")  # some hosts leave the last blank line out
        if self._closed and not self._done:
            return found
        if not self._has_ended():
            self._hear_out(found)
        self._closed = True
        return found

    def _hear_out(self, found: list[ReplyEvent]) -> None:
        """Break for want of an end, with the words of whoever answered in the provider's place."""
        words = "" if self._heard or self._head.startswith(_OF_A_STREAM) else spoken_by_proxy(self._head)
        if not words:
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, "the upstream's stream ended before the response was complete"
            )
        found.append(Broke(UpstreamError(502, f"the upstream's response is not a stream: {words}")))

    def _take(self, data: bytes, found: list[ReplyEvent]) -> None:
        if data.startswith(_DONE):
            self._conclude(found)
            return
        try:
            chunk = _DECODER.decode(data)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            if data.strip() and not self._has_ended():
                self._closed = True
                said = is_error(data) or spoken_by_proxy(data)
                found.append(Broke(error_in(data)) if said else UNREADABLE_EVENT)
            return
        if _breaks(chunk, data):
            self._break(data, found)
        else:
            self._read(chunk, data, found)

    def _conclude(self, found: list[ReplyEvent]) -> None:
        """Take ``[DONE]``."""
        self._closed = True
        if any(choice.is_cut for choice in self._choices.values()):
            found.append(
                Broke(UpstreamError(502, "the upstream's response ended in the middle of a tool call"))
            )
            return
        self._done = True
        for choice in self._choices.values():
            if not choice.ended:
                choice.finish("stop", found)

    def _has_ended(self) -> bool:
        return bool(self._choices) and all(choice.ended for choice in self._choices.values())

    def _break(self, data: bytes, found: list[ReplyEvent]) -> None:
        self._closed = True
        found.append(Broke(error_in(data)))

    def _read(self, chunk: _Chunk, data: bytes, found: list[ReplyEvent]) -> None:
        if not self._began:
            if not chunk.choices:  # not the answer yet
                return
            self._began = True
            found.append(Began(_text(chunk.id), _text(chunk.model)))
        for choice in chunk.choices or ():
            self._choose(choice, found)
            if found and type(found[-1]) is Broke:
                self._closed = True
                return
        if chunk.usage is not None or chunk.x_groq is not None or _counts(chunk):
            self._count(data, found)

    def _choose(self, choice: Choice, found: list[ReplyEvent]) -> None:
        index = choice.index if type(choice.index) is int else 0
        reader = self._choices.get(index)
        if reader is None:
            if not 0 <= index < _MOST_CHOICES:
                return
            reader = self._choices[index] = ChoiceReader(index, self._seed)
        reader.take(choice, found)

    def _count(self, data: bytes, found: list[ReplyEvent]) -> None:
        usage = attempt(read_usage, data, self.usage)
        if usage != self.usage:
            self.usage = usage
            found.append(Counted(usage))


def _breaks(chunk: _Chunk, data: bytes) -> bool:
    """Whether a chunk is an error, whatever else it holds."""
    if chunk.error or (type(chunk.x_groq) is dict and chunk.x_groq.get("error")):
        return True
    return any(choice.error for choice in chunk.choices) if chunk.choices else is_error(data)


def _counts(chunk: _Chunk) -> bool:
    return any(choice.usage is not None for choice in chunk.choices or ())


def _text(value: Any) -> str | None:  # Any: JSON of whatever type
    return value if type(value) is str and value else None
