"""An answer in pieces, as Google's clients read it: an event stream of ``data:`` lines alone, or an array.

Every piece is a whole ``GenerateContentResponse``.  Texts and thoughts go out as they come.  A call goes out
when it has ended, since ``args`` is an object; one whose arguments are none by then, and the calls behind it,
wait for the end, which tells whether they were cut off.  The last response, at the very end, has the reason
why each candidate ended and all counts::

    (text | thought | call | media | log probabilities)*  last response  -- or an error

Sources: ``GenerateContentResponse`` of google-genai 3.4; contract 8.11, 8.20, 8.23, 8.24.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from msgspec import Raw
from msgspec.json import Encoder

from mgw.canonical.conversation import Citation, JsonObject, Signature
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
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.gemini.answer import (
    call_signature,
    citation_metadata,
    client_signature,
    finished_args,
    logprobs_result,
    media_part,
    whole_args,
)
from mgw.dialects.gemini.errors import error_body, error_value
from mgw.dialects.gemini.parts import call_part, text_part, thought_part
from mgw.dialects.gemini.stops import FINISHES
from mgw.dialects.gemini.thoughts import WrittenThoughts
from mgw.dialects.gemini.usage import usage_metadata
from mgw.dialects.metering import updated
from mgw.errors import GatewayError, Reason
from mgw.wire.json_array import ArrayWriter
from mgw.wire.sse import escape_line_ends

MAX_HELD_CHARACTERS: Final = 32 * 2**20
"""How much of calls that have not ended, and of what the last response says, is held."""
_EVENT: Final = b"data: %b\n\n"
_LINE_BREAKS: Final = b"\r\n"
"""Within JSON they stand between tokens only, where they mean nothing."""
KEEPALIVE: Final = b"\n"
_encode: Final = Encoder().encode


@dataclass(slots=True)
class _Call:
    """A call that has not been written."""

    call_id: str
    name: str
    signature: Signature | None
    carried: str | None
    """The signature of the thought before it."""
    pieces: list[str] = field(default_factory=list)
    ended: bool = False
    followed: bool = False
    """Something came behind its end, so that it was not cut off there."""
    args: Raw | None = None
    """What is known to be all of its arguments."""

    def arguments(self) -> str:
        """Return the arguments so far."""
        return "".join(self.pieces)


@dataclass(slots=True)
class _Speaking:
    """One candidate so far."""

    calls: dict[int, _Call] = field(default_factory=dict)
    """In their order: those that have not ended or may have been cut off, and what stands behind them."""
    last: list[_Call] = field(default_factory=list)
    """Those that have ended, and nothing came since."""
    signed: bool = False
    """The first call has been written."""
    thoughts: WrittenThoughts = field(default_factory=WrittenThoughts)
    citations: list[Citation] = field(default_factory=list)
    end: Ended | None = None


@dataclass(slots=True)
class Writer:
    """Writes one answer."""

    context: ReplyContext
    _array: ArrayWriter | None = field(init=False)
    _tail: bytes = field(init=False)
    """What closes every response."""
    _candidates: dict[int, _Speaking] = field(default_factory=dict)
    _usage: TokenUsage = NO_USAGE
    _held: int = 0
    broken: bool = False
    """The stream was ended with an error."""
    _over: bool = False

    def __post_init__(self) -> None:
        self._array = ArrayWriter() if self.context.options.in_array else None
        self._name(None, None)

    @property
    def content_type(self) -> bytes:
        """The media type of the stream."""
        return b"text/event-stream" if self._array is None else b"application/json"

    def write(self, events: Iterable[ReplyEvent]) -> bytes:
        """Return the bytes of these events."""
        out: list[bytes] = []
        for event in events:
            if self._over:
                break
            if type(event) is TextAdded:
                self._text(event, out)
            else:
                _WRITERS[type(event)](self, event, out)
            if self._held > MAX_HELD_CHARACTERS:
                out.append(
                    self.fail(GatewayError(Reason.UPSTREAM_BROKEN, "the model's tool calls are too long"))
                )
        return b"".join(out)

    def finish(self) -> bytes:
        """Return the last response; an error where a candidate has not ended."""
        if self._over:
            return b""
        if not self._candidates or any(one.end is None for one in self._candidates.values()):
            return self.fail(
                GatewayError(
                    Reason.UPSTREAM_BROKEN, "the provider's stream ended before the response was complete"
                )
            )
        self._over = True
        last: JsonObject = {
            "candidates": [_last(self._candidates[number], number) for number in sorted(self._candidates)]
        }
        usage = usage_metadata(self._usage)
        if usage:
            last["usageMetadata"] = usage
        return self._framed(_encode(last)[:-1] + self._tail) + self._closed()

    def fail(self, error: GatewayError | UpstreamError) -> bytes:
        """Return an error in place of what is missing; nothing where the answer has ended."""
        if self._over:
            return b""
        self._over = self.broken = True
        if isinstance(error, GatewayError):
            body = error_body(error, self.context.request_id)
        else:
            body = _encode(error_value(error))
        return self._framed(body) + self._closed()

    def keepalive(self) -> bytes:
        """Return a line break, which means nothing between events and between elements."""
        return b"" if self._over else KEEPALIVE

    def _framed(self, response: bytes) -> bytes:
        if self._array is not None:
            return self._array.element(response)
        return _EVENT % escape_line_ends(response)

    def _closed(self) -> bytes:
        return b"" if self._array is None else self._array.finish()

    def _name(self, model: str | None, response_id: str | None) -> None:
        named = {
            "modelVersion": model or self.context.model,
            "responseId": response_id or self.context.request_id,
        }
        self._tail = b"," + _encode(named)[1:]

    def _speaking(self, number: int) -> _Speaking | None:
        """Return a candidate that may still say something."""
        speaking = self._candidates.get(number)
        if speaking is None:
            speaking = self._candidates[number] = _Speaking()
        return speaking if speaking.end is None else None

    def _part(self, part: bytes, number: int) -> bytes:
        return self._framed(
            b'{"candidates":[{"content":{"parts":[%b],"role":"model"},"index":%d}]%b'
            % (part, number, self._tail)
        )

    def _began(self, event: Began, out: list[bytes]) -> None:  # noqa: ARG002 - nothing is said yet
        self._name(event.model, event.id)
        self._usage = updated(self._usage, event.usage)

    def _counted(self, event: Counted, out: list[bytes]) -> None:  # noqa: ARG002 - the last response says it
        self._usage = updated(self._usage, event.usage)

    def _broke(self, event: Broke, out: list[bytes]) -> None:
        out.append(self.fail(event.error))

    def _text(self, event: TextAdded | RefusalAdded, out: list[bytes]) -> None:
        speaking = self._speaking(event.candidate) if event.text else None
        if speaking is not None:
            if speaking.last:
                self._follow(speaking, event.candidate, out)
            speaking.thoughts.interrupt()
            out.append(self._part(b'{"text":%b}' % _encode(event.text), event.candidate))

    def _text_signed(self, event: TextSigned, out: list[bytes]) -> None:
        self._put(text_part("", client_signature(event.signature)), event.candidate, out)

    def _thought(self, event: ThinkingAdded, out: list[bytes]) -> None:
        speaking = self._speaking(event.candidate)
        if speaking is not None:
            self._follow(speaking, event.candidate, out)
            speaking.thoughts.add(event.text)
            out.append(self._part(_encode(thought_part(event.text)), event.candidate))

    def _thought_signed(self, event: ThinkingSigned, out: list[bytes]) -> None:
        speaking = self._speaking(event.candidate)
        if speaking is None:
            return
        self._follow(speaking, event.candidate, out)
        signature = speaking.thoughts.sign(event.signature)
        if signature is not None:
            out.append(self._part(_encode(thought_part("", signature)), event.candidate))

    def _media(self, event: MediaAdded, out: list[bytes]) -> None:
        self._put(media_part(event.media), event.candidate, out)

    def _put(self, part: JsonObject, number: int, out: list[bytes]) -> None:
        """Write a part that is no thought."""
        speaking = self._speaking(number)
        if speaking is not None:
            self._follow(speaking, number, out)
            speaking.thoughts.interrupt()
            out.append(self._part(_encode(part), number))

    def _cited(self, event: CitationAdded, out: list[bytes]) -> None:  # noqa: ARG002 - the last response says it
        speaking = self._speaking(event.candidate)
        if speaking is not None:
            speaking.citations.append(event.citation)
            self._held += len(event.citation.url or "") + len(event.citation.title or "")

    def _likely(self, event: LogprobsAdded, out: list[bytes]) -> None:
        speaking = self._speaking(event.candidate)
        if speaking is not None:
            speaking.thoughts.interrupt()
            piece: JsonObject = {
                "content": {"parts": [text_part("")], "role": "model"},
                "index": event.candidate,
                "logprobsResult": logprobs_result(event.tokens),
            }
            out.append(self._framed(_encode({"candidates": [piece]})[:-1] + self._tail))

    def _call_began(self, event: CallBegan, out: list[bytes]) -> None:
        speaking = self._speaking(event.candidate)
        if speaking is not None and event.call not in speaking.calls:
            self._follow(speaking, event.candidate, out)
            carried = speaking.thoughts.carried()
            speaking.calls[event.call] = _Call(event.id, event.name, event.signature, carried)

    def _argued(self, event: ArgumentsAdded, out: list[bytes]) -> None:  # noqa: ARG002 - it is written whole
        speaking = self._speaking(event.candidate)
        call = None if speaking is None else speaking.calls.get(event.call)
        if call is not None and not call.ended:
            call.pieces.append(event.text)
            self._held += len(event.text)

    def _call_ended(self, event: CallEnded, out: list[bytes]) -> None:
        speaking = self._speaking(event.candidate)
        call = None if speaking is None else speaking.calls.get(event.call)
        if speaking is not None and call is not None and not call.ended:
            call.ended = True
            call.args = whole_args(call.arguments(), followed=False)
            speaking.last.append(call)
            self._release(speaking, event.candidate, out)

    def _follow(self, speaking: _Speaking, number: int, out: list[bytes]) -> None:
        """Know that something comes behind the calls that have ended."""
        if not speaking.last:
            return
        for call in speaking.last:
            call.followed = True
            if call.args is None:
                call.args = whole_args(call.arguments(), followed=True)
        speaking.last.clear()
        self._release(speaking, number, out)

    def _release(self, speaking: _Speaking, number: int, out: list[bytes]) -> None:
        """Write the calls up to the first of which it is not known that it is whole."""
        while speaking.calls:
            place, call = next(iter(speaking.calls.items()))
            if call.args is None:
                return
            del speaking.calls[place]
            self._call(call, call.args, number, out)

    def _ended(self, event: Ended, out: list[bytes]) -> None:
        speaking = self._speaking(event.candidate)
        if speaking is None:
            return
        calls = list(speaking.calls.values())
        for call in calls:
            followed = call.followed or call is not calls[-1]
            args = finished_args(call.arguments(), event.stop, followed=followed)
            if args is not None:
                self._call(call, args, event.candidate, out)
        speaking.calls.clear()
        speaking.end = event

    def _call(self, call: _Call, args: Raw, number: int, out: list[bytes]) -> None:
        speaking = self._candidates[number]
        speaking.thoughts.interrupt()
        signature = call_signature(call.signature, call.carried, first=not speaking.signed)
        part = call_part(call.call_id, call.name, args, signature)
        speaking.signed = True
        self._held -= sum(map(len, call.pieces))
        out.append(self._part(_encode(part).translate(None, _LINE_BREAKS), number))  # args are as they came


def _last(speaking: _Speaking, number: int) -> JsonObject:
    assert speaking.end is not None, "only an answer that has ended has a last response"
    said: JsonObject = {
        "content": {"parts": [text_part("")], "role": "model"},
        "finishReason": FINISHES[speaking.end.stop],
        "index": number,
    }
    if speaking.citations:
        said["citationMetadata"] = citation_metadata(speaking.citations)
    return said


_WRITERS: Final[Mapping[type, Callable[[Writer, Any, list[bytes]], None]]] = MappingProxyType(
    {  # Any: each takes the event that stands beside it
        Began: Writer._began,
        TextAdded: Writer._text,
        TextSigned: Writer._text_signed,
        ThinkingAdded: Writer._thought,
        ThinkingSigned: Writer._thought_signed,
        RefusalAdded: Writer._text,
        CitationAdded: Writer._cited,
        MediaAdded: Writer._media,
        LogprobsAdded: Writer._likely,
        CallBegan: Writer._call_began,
        ArgumentsAdded: Writer._argued,
        CallEnded: Writer._call_ended,
        Counted: Writer._counted,
        Ended: Writer._ended,
        Broke: Writer._broke,
    }
)
