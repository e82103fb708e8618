"""A stream of chat completion chunks, read as events.

Sources: the SDK's ``ChatCompletionChunk``; the reference of streaming.  Hosts differ:

* usage in a last chunk without choices, in the last of the answer, or in every chunk, where it grows;
* comments, and chunks without choices for their own ends (Azure's filters), before and between;
* an error as an event of its own, or in a chunk (OpenRouter); an ``event: error`` of other families' making;
  errors of any shape that :mod:`mgw.dialects.openai.errors` knows, words without JSON among them;
* no ``[DONE]`` after the finish reason, or no finish reason before ``[DONE]``.  Either is an end, but for a
  ``[DONE]`` in the middle of a call; that, and a stream that has neither, broke off;
* a finish reason in every chunk.  So the end of a choice is told with the end of the stream, or with counts
  that come by themselves behind the finish reasons.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec import DecodeError, Struct
from msgspec.json import Decoder

from mgw.canonical.reply import NO_USAGE, Began, Broke, Counted, ReplyEvent, TokenUsage, UpstreamError
from mgw.dialects.metering import try_read_usage
from mgw.dialects.openai.candidates import Choice, ChoiceReader
from mgw.dialects.openai.errors import is_error, parse_stream_error
from mgw.dialects.openai.usage import read_usage
from mgw.dialects.refusal import UNREADABLE_EVENT, proxy_message
from mgw.dialects.stream import DocumentReader, StreamHead, incomplete
from mgw.wire.sse import Event, EventReader

_DONE: Final = b"[DONE]"
_MAX_CHOICES: Final = 128
"""The most that the reference lets anybody ask for."""
_FIELD_NAMES: Final = (b":", b"data:", b"event:", b"id:", b"retry:")
"""How an event stream begins."""


class _Chunk(Struct):
    """The fields of a chunk that are read; Any: hosts write all kinds of types."""

    id: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: Any = None
    x_groq: Any = None
    error: Any = None


_DECODER: Final = Decoder(_Chunk)


class ChatStreamReader(DocumentReader[Event]):
    """Reads a stream of chat completion chunks."""

    __slots__ = ("_began", "_choices", "_head", "_seed", "_splitter", "ended", "usage")

    def __init__(self, seed: str) -> None:
        super().__init__()
        self.usage: TokenUsage = NO_USAGE
        """The counts so far."""
        self._seed = seed
        self._splitter = EventReader(bare=True)  # some hosts break off with bare JSON
        self._head = StreamHead(_FIELD_NAMES)
        self._choices: dict[int, ChoiceReader] = {}
        self._began = False
        self.ended: bool = False
        """``[DONE]`` has come."""

    @property
    def complete(self) -> bool:
        """Whether nothing can be missing."""
        return self.ended or self.finished > 0

    def _split(self, data: bytes) -> Iterable[Event]:
        documents = self._splitter.feed(data)
        if not self._began:
            self._head.add(data, is_stream=bool(documents))
        return documents

    def on_document(self, document: Event, events: list[ReplyEvent]) -> None:
        """Read an event of the stream: an error, ``[DONE]`` or a chunk."""
        data = document.data
        if document.event == b"error":  # as other dialects spell it
            self._break(parse_stream_error(data), events)
            return
        if data.startswith(_DONE):
            self.on_done(events)
            return
        try:
            chunk = _DECODER.decode(data)
        except (DecodeError, UnicodeDecodeError, RecursionError):
            self.on_unreadable(data, events)
            return
        if _is_error(chunk, data):
            self._break(parse_stream_error(data), events)
        else:
            self.on_chunk(chunk, data, events)

    def on_unreadable(self, data: bytes, events: list[ReplyEvent]) -> None:
        """Break for what is no chunk, unless the answer is there already."""
        if data.strip() and not self._has_ended():
            is_told = is_error(data) or proxy_message(data)
            self._break(parse_stream_error(data) if is_told else UNREADABLE_EVENT.error, events)

    def on_chunk(self, chunk: _Chunk, data: bytes, events: list[ReplyEvent]) -> None:
        """Read a chunk; ``data`` is its JSON."""
        if not self._began:
            if not chunk.choices:  # not the answer yet
                return
            self._began = True
            events.append(Began(_text(chunk.id), _text(chunk.model)))
        has_usage = chunk.usage is not None or chunk.x_groq is not None
        has_end = False
        for choice in chunk.choices or ():
            reader = self._choices.get(choice.index) if type(choice.index) is int else None
            reader = reader or self._find_choice(choice)
            if reader is not None:
                reader.on_choice(choice, events)
                has_end = has_end or reader.ended
            if events and type(events[-1]) is Broke:
                self._closed = self._broken = True
                return
            has_usage = has_usage or choice.usage is not None
        if has_end:
            self._count_finished()
        if has_usage:
            if self.finished and not chunk.choices:
                self._close_choices(events)
            self.on_usage(data, events)

    def _find_choice(self, choice: Choice) -> ChoiceReader | None:
        """Return the reader of a choice; ``None`` for one beyond all that can be asked for."""
        index = choice.index if type(choice.index) is int else 0
        reader = self._choices.get(index)
        if reader is None and 0 <= index < _MAX_CHOICES:
            reader = self._choices[index] = ChoiceReader(index, self._seed)
            self.finished = 0
        return reader

    def on_usage(self, data: bytes, events: list[ReplyEvent]) -> None:
        """Read the token counts of a chunk."""
        usage = try_read_usage(read_usage, data, self.usage)
        if usage != self.usage:
            self.usage = usage
            events.append(Counted(usage))

    def on_done(self, events: list[ReplyEvent]) -> None:
        """Read ``[DONE]``."""
        if any(choice.is_cut for choice in self._choices.values()):
            message = "the upstream's response ended in the middle of a tool call"
            self._break(UpstreamError(502, message), events)
            return
        self._closed = self.ended = True
        self._close_choices(events)

    def on_finish(self, events: list[ReplyEvent]) -> None:
        """Read the end of the stream, which is an error where the answer has not ended."""
        events += self.feed(b"\n\n")  # some hosts leave the last blank line out
        if self._broken:
            return
        if self._has_ended():
            self._close_choices(events)
            return
        error = self._head.refusal("the upstream's response")
        if error is None:
            raise incomplete()
        self._break(error, events)

    def _close_choices(self, events: list[ReplyEvent]) -> None:
        """Tell how each choice ended; one that cannot have ended so breaks the stream."""
        for choice in self._choices.values():
            choice.close(events)
            if events and type(events[-1]) is Broke:
                self._closed = self._broken = True
                return

    def _count_finished(self) -> None:
        """Note how many choices have ended, if all have, and the host's reasons tell it."""
        tells = self._has_ended() and not any(choice.went_on for choice in self._choices.values())
        self.finished = len(self._choices) if tells else 0

    def _has_ended(self) -> bool:
        return bool(self._choices) and all(choice.ended for choice in self._choices.values())


def _is_error(chunk: _Chunk, data: bytes) -> bool:
    """Whether a chunk is an error, whatever else it holds."""
    if chunk.error or (type(chunk.x_groq) is dict and chunk.x_groq.get("error")):
        return True
    if not chunk.choices:
        return is_error(data)
    for choice in chunk.choices:  # noqa: SIM110 - a generator costs more than all the rest of this
        if choice.error:
            return True
    return False


def _text(value: Any) -> str | None:  # Any: JSON of whatever type
    return value if type(value) is str and value else None
