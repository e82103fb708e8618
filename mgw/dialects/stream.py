"""What the stream readers and writers of all dialects share.

A reader turns the bytes of a provider into events, a writer turns events into the bytes of a client.  Both
are state machines: a dialect adds one method for each kind of event, and the classes here call them, know
when the stream is over, and end it with an error.  Nothing that comes after the end is read or written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Generic, TypeVar

from mgw.canonical.reply import (
    NO_USAGE,
    ArgumentsAdded,
    Began,
    Broke,
    CallBegan,
    CallEnded,
    CitationAdded,
    Counted,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    ReplyEvent,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.metering import merge_usage
from mgw.dialects.refusal import proxy_message
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.sse import escape_line_ends

Document = TypeVar("Document")
"""What the bytes of a stream are cut into."""

HEAD_BYTES: Final = 2048
"""How much is kept of what may turn out to be no stream at all."""

_METHODS: Final[Mapping[type[ReplyEvent], str]] = MappingProxyType(
    {
        Began: "on_began",
        TextAdded: "on_text",
        TextSigned: "on_text_signed",
        ThinkingAdded: "on_thinking",
        ThinkingSigned: "on_thinking_signed",
        RefusalAdded: "on_refusal",
        CitationAdded: "on_citation",
        MediaAdded: "on_media",
        LogprobsAdded: "on_logprobs",
        CallBegan: "on_call_began",
        ArgumentsAdded: "on_arguments",
        CallEnded: "on_call_ended",
        Counted: "on_counted",
        Ended: "on_ended",
        Broke: "on_broke",
    }
)
"""The method of a writer that takes each event."""


def incomplete() -> GatewayError:
    """Return the error of a stream that ended too early."""
    return GatewayError(
        Reason.UPSTREAM_BROKEN, "the upstream's stream ended before the response was complete"
    )


class StreamReader(ABC):
    """Turns a provider's stream into events, however it is cut; holds bounded memory."""

    __slots__ = ()

    @property
    @abstractmethod
    def usage(self) -> TokenUsage:
        """The counts so far."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the dialect's own last event has come: nothing of the answer can follow."""

    @property
    @abstractmethod
    def finished(self) -> int:
        """How many candidates have ended, once all that began have; 0 until then.

        Behind that only counts can follow, and silence ends the answer.
        """

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether a break of the connection would take nothing of the answer away."""

    @abstractmethod
    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return what these bytes complete.  What nobody knows is skipped, never raised.

        :raises GatewayError: ``UPSTREAM_BROKEN`` for what is no such stream at all.
        """

    @abstractmethod
    def finish(self) -> list[ReplyEvent]:
        """Return what the end of the stream completes.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where the answer had not ended.
        """


class DocumentReader(StreamReader, Generic[Document]):
    """Reads the stream of one dialect, document by document.

    ``Document`` is what the bytes are cut into: an event of an event stream, or an element of an array.
    """

    __slots__ = ("_broken", "_closed", "finished")

    def __init__(self) -> None:
        self.finished: int = 0
        """How many candidates have ended, once all that began have."""
        self._closed = False
        """Whether nothing that comes is read any more."""
        self._broken = False
        """Whether it was an error that closed the stream."""

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return the events of the documents that these bytes complete."""
        events: list[ReplyEvent] = []
        if self._closed:
            return events
        for document in self._split(data):
            self.on_document(document, events)
            if self._closed:
                break
        return events

    def finish(self) -> list[ReplyEvent]:
        """Return what the end of the stream completes; nothing where an error has closed it."""
        events: list[ReplyEvent] = []
        if not self._broken:
            self.on_finish(events)
            self._closed = True
        return events

    @abstractmethod
    def _split(self, data: bytes) -> Iterable[Document]:
        """Return the documents that these bytes complete."""

    @abstractmethod
    def on_document(self, document: Document, events: list[ReplyEvent]) -> None:
        """Read a document."""

    @abstractmethod
    def on_finish(self, events: list[ReplyEvent]) -> None:
        """Read the end of the stream.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where the answer had not ended.
        """

    def _break(self, error: UpstreamError, events: list[ReplyEvent]) -> None:
        """Close the stream with an error."""
        self._closed = self._broken = True
        events.append(Broke(error))


class StreamHead:
    """The beginning of what should be a stream, kept for the error of one that turns out to be none."""

    __slots__ = ("_head", "_is_stream", "_signs")

    def __init__(self, signs: tuple[bytes, ...]) -> None:
        """:param signs: how streams of this dialect begin."""
        self._signs = signs
        self._is_stream = False
        self._head = b""

    def add(self, data: bytes, *, is_stream: bool) -> None:
        """Keep the next bytes; ``is_stream``: an event has come, so nothing has to be kept."""
        if not self._is_stream:
            self._is_stream, self._head = is_stream, (self._head + data)[:HEAD_BYTES]

    def refusal(self, subject: str) -> UpstreamError | None:
        """Return the error with the words of whoever answered in the provider's place, if somebody did."""
        words = "" if self._is_stream or self._head.startswith(self._signs) else proxy_message(self._head)
        return UpstreamError(502, f"{subject} is not a stream: {words}") if words else None


class StreamWriter(ABC):
    """Writes events in the exact grammar of the client's dialect; it cannot write a wrong order.

    A dialect has a method for each event, also for those that it has no words for, so that none is forgotten.
    The methods append to ``_out``.
    """

    __slots__ = ("_closed", "_out", "_request_id", "_usage", "broken")

    _handlers: ClassVar[Mapping[type, Callable[[Any, Any], None]]]  # Any: each takes the event beside it

    def __init_subclass__(cls) -> None:
        cls._handlers = MappingProxyType({event: getattr(cls, name) for event, name in _METHODS.items()})

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._closed = False
        """Whether nothing is written any more."""
        self._out: list[bytes] = []
        """What has been written since the last time."""
        self._usage: TokenUsage = NO_USAGE
        self.broken = False
        """Whether the stream was ended with an error, be it asked for or the writer's own."""

    @property
    @abstractmethod
    def content_type(self) -> bytes:
        """The media type of the stream."""

    def write(self, events: Iterable[ReplyEvent]) -> bytes:
        """Return the bytes of these events; the same bytes however they are grouped."""
        handlers = self._handlers
        for event in events:
            if self._closed:
                break
            handlers[type(event)](self, event)
        data = b"".join(self._out)  # as _take() does: each call costs
        self._out.clear()
        return data if data.isascii() else self._escape(data)

    def finish(self) -> bytes:
        """Return the end of the stream, after the last ``Ended``; nothing after ``Broke`` or ``fail``."""
        if not self._closed:
            self.on_finish()
            self._closed = True
        return self._take()

    def fail(self, error: GatewayError | UpstreamError) -> bytes:
        """Return what shows the client that the stream broke; nothing where it has ended already."""
        self._break(error)
        return self._take()

    def keepalive(self) -> bytes:
        """Return bytes that mean nothing, for a client that has waited for long; nothing after the end."""
        return b"" if self._closed else self._keepalive()

    def on_began(self, event: Began) -> None:
        """The answer begins."""
        self._usage = merge_usage(self._usage, event.usage)

    @abstractmethod
    def on_text(self, event: TextAdded) -> None:
        """Write text."""

    @abstractmethod
    def on_text_signed(self, event: TextSigned) -> None:
        """Write the signature of a text."""

    @abstractmethod
    def on_thinking(self, event: ThinkingAdded) -> None:
        """Write a part of a thought."""

    @abstractmethod
    def on_thinking_signed(self, event: ThinkingSigned) -> None:
        """Write the signature of a thought."""

    @abstractmethod
    def on_refusal(self, event: RefusalAdded) -> None:
        """Write the words of a refusal."""

    @abstractmethod
    def on_citation(self, event: CitationAdded) -> None:
        """Write where a text comes from."""

    @abstractmethod
    def on_media(self, event: MediaAdded) -> None:
        """Write a piece of media."""

    @abstractmethod
    def on_logprobs(self, event: LogprobsAdded) -> None:
        """Write how likely the last tokens were."""

    @abstractmethod
    def on_call_began(self, event: CallBegan) -> None:
        """Begin a call."""

    @abstractmethod
    def on_arguments(self, event: ArgumentsAdded) -> None:
        """Write a part of a call's arguments."""

    @abstractmethod
    def on_call_ended(self, event: CallEnded) -> None:
        """End a call."""

    def on_counted(self, event: Counted) -> None:
        """Take the counts so far."""
        self._usage = merge_usage(self._usage, event.usage)

    @abstractmethod
    def on_ended(self, event: Ended) -> None:
        """End a candidate."""

    def on_broke(self, event: Broke) -> None:
        """The provider said that it failed."""
        self._break(event.error)

    @abstractmethod
    def on_finish(self) -> None:
        """Write the end of the stream, or break it where the answer has not ended."""

    @abstractmethod
    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write the error that ends the stream."""

    @abstractmethod
    def _keepalive(self) -> bytes:
        """Return bytes that mean nothing."""

    def _break(self, error: GatewayError | UpstreamError) -> None:
        """End the stream with an error, once."""
        if not self._closed:
            self._closed = self.broken = True
            self.on_error(error)

    def _take(self) -> bytes:
        """Return what has been written since the last time."""
        data = b"".join(self._out)
        self._out.clear()
        return data if data.isascii() else self._escape(data)

    def _escape(self, data: bytes) -> bytes:
        """Return what was written safe for clients that know more line ends."""
        return escape_line_ends(data)
