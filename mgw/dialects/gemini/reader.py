"""A streamed answer of generateContent, as events.

Each event, or element of the array, is a response: more parts of a candidate, and counts so far.  The last
response of a candidate names the reason why it ended.  Some hosts name it in every response, so a candidate
has ended when the stream has: Google closes it right behind the last response.  An error that breaks an
event stream off may be JSON in lines of its own, without ``data:``.  What some hosts put behind the last
response, ``[DONE]``, means nothing here.

Sources: ``GenerateContentResponse`` and ``_iter_response_stream`` of google-genai 3.4; the Gemini API's
reference of streamGenerateContent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from mgw.canonical.conversation import Signature
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
    StopReason,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    TokenUsage,
    UpstreamError,
)
from mgw.dialects.arguments import compact
from mgw.dialects.gemini import wire
from mgw.dialects.gemini.calls import answered_id
from mgw.dialects.gemini.errors import error_in
from mgw.dialects.gemini.media import blob_media
from mgw.dialects.gemini.stops import BLOCKED, FAILURES, block_message, failure_message, stop_of
from mgw.dialects.gemini.usage import usage_of
from mgw.dialects.refusal import UNREADABLE_EVENT, spoken_by_proxy
from mgw.dialects.stream import StreamReader
from mgw.errors import GatewayError, Reason
from mgw.vocabulary import Family
from mgw.wire.json_array import ElementReader
from mgw.wire.sse import EventReader

_BLANKS: Final = b" \t\r\n"
_DONE: Final = b"[DONE]"
_MOST_OF_NO_STREAM: Final = 2048
"""Bytes that are kept of what may turn out to be no stream at all."""
_OF_A_STREAM: Final = (b":", b"data:", b"event:", b"id:", b"retry:", b"[", b"{")
_UNSIGNED: Final = Signature(Family.GEMINI, "")
_MOST_CANDIDATES: Final = 128
"""More than any provider gives; what claims to be a further one is skipped."""


@dataclass(slots=True)
class _Heard:
    """One candidate so far."""

    number: int
    calls: int = 0
    thinking: bool = False
    """A thought is open that nobody signed."""
    any: bool = False
    """There is more than thoughts."""
    finish: str | None = None
    explained: str | None = None


@dataclass(slots=True)
class Reader(StreamReader):
    """Reads an event stream or an array, as its first byte says; ``seed`` makes identifiers of calls."""

    seed: str
    _usage: TokenUsage = NO_USAGE
    _unread_usage: bytes | None = None
    """The last counts, which stand in every response, and are read when somebody asks."""
    _events: EventReader | None = None
    _elements: ElementReader | None = None
    _began: bool = False
    _over: bool = False
    _heard: bool = False
    """A document has come: this is a stream."""
    _head: bytes = b""
    """What came before any did."""
    _blocked: str | None = None
    _candidates: dict[int, _Heard] = field(default_factory=dict)

    @property
    def usage(self) -> TokenUsage:
        """The counts so far."""
        if self._unread_usage is not None:
            self._usage = usage_of(self._unread_usage, self._usage)
            self._unread_usage = None
        return self._usage

    @property
    def ended(self) -> bool:
        """Never: this wire ends where the body does."""
        return False

    @property
    def complete(self) -> bool:
        """Whether every candidate has named its reason to end."""
        heard = self._candidates.values()
        return not self._over and bool(heard) and all(one.finish is not None for one in heard)

    def feed(self, data: bytes) -> list[ReplyEvent]:
        """Return the events of the responses that these bytes complete.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) for what is no stream.
        """
        found: list[ReplyEvent] = []
        if self._over:
            return found
        documents = self._documents(data)
        if not self._heard:
            self._heard, self._head = bool(documents), (self._head + data)[:_MOST_OF_NO_STREAM]
        for document in documents:
            self._read(document, found)
            if self._over:
                break
        return found

    def finish(self) -> list[ReplyEvent]:
        """Return how the candidates ended.

        Raises: :class:`GatewayError` (``UPSTREAM_BROKEN``) where one did not.
        """
        found: list[ReplyEvent] = []
        if self._events is not None and not self._over:
            for event in self._events.finish():
                self._read(event.data, found)
                if self._over:
                    break
        if self._over:
            return found
        self._over = True
        return found + self._ended()

    def _ended(self) -> list[ReplyEvent]:
        if self._elements is not None:
            self._elements.finish()
        if self._blocked is not None and not self._candidates:
            return [*self._counted(), RefusalAdded(self._blocked), Ended(StopReason.REFUSAL)]
        heard = sorted(self._candidates.values(), key=lambda one: one.number)
        if self._blocked is not None:
            for one in heard:
                if one.finish is None:
                    one.finish, one.explained = BLOCKED, self._blocked
        if not heard or any(one.finish is None for one in heard):
            words = "" if self._heard or self._head.startswith(_OF_A_STREAM) else spoken_by_proxy(self._head)
            if words:
                return [Broke(UpstreamError(502, f"the provider's response is not a stream: {words}"))]
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, "the provider's stream ended before the response was complete"
            )
        failed = _failure(heard)
        if failed is not None:
            return [failed]
        return [*self._counted(), *(event for one in heard for event in _ending(one))]

    def _counted(self) -> list[ReplyEvent]:
        return [] if self.usage == NO_USAGE else [Counted(self.usage)]

    def _documents(self, data: bytes) -> list[bytes]:
        if self._events is not None:
            return [event.data for event in self._events.feed(data)]
        if self._elements is None:
            begin = data.lstrip(_BLANKS)
            if not begin:
                return []
            if not begin.startswith(b"["):
                self._events = EventReader(bare=True)
                return [event.data for event in self._events.feed(data)]
            self._elements = ElementReader()
        return self._elements.feed(data)

    def _read(self, document: bytes, found: list[ReplyEvent]) -> None:
        response = wire.response_of(document)
        if response is None or response.error or _is_bare(response):
            if document != _DONE:
                self._tell_error(document, response, found)
            return
        if wire.is_there(response.usage_metadata):
            self._unread_usage = bytes(response.usage_metadata)
        if not self._began:
            self._began = True
            found.append(Began(response.response_id, response.model_version, self.usage))
        feedback = response.prompt_feedback
        if feedback is not None and feedback.block_reason:
            self._blocked = block_message(feedback.block_reason, feedback.block_reason_message)
        for place, candidate in enumerate(response.candidates or ()):
            number = place if candidate.index is None else candidate.index
            if 0 <= number < _MOST_CANDIDATES:
                self._hear(candidate, number, found)

    def _tell_error(self, document: bytes, response: wire.Response | None, found: list[ReplyEvent]) -> None:
        """Break with the error that a document is; one that means nothing is skipped."""
        error = error_in(document)
        if response is not None and not response.error and error is None:
            return
        self._over = True
        if error is not None:
            found.append(Broke(error))
        elif response is None:
            found.append(UNREADABLE_EVENT)
        else:
            found.append(Broke(UpstreamError(502, "the provider's stream ended with an error")))

    def _hear(self, candidate: wire.Candidate, number: int, found: list[ReplyEvent]) -> None:
        heard = self._candidates.get(number)
        if heard is None:
            heard = self._candidates[number] = _Heard(number)
        for part in wire.parts_of(candidate.content):
            self._part(part, heard, found)
        found += [
            CitationAdded(citation, number) for citation in wire.citations_of(candidate.citation_metadata)
        ]
        tokens = wire.logprobs_of(candidate.logprobs_result)
        if tokens:
            found.append(LogprobsAdded(tokens, number))
        if candidate.finish_reason:
            heard.finish = candidate.finish_reason
            heard.explained = candidate.finish_message

    def _part(self, part: wire.Part, heard: _Heard, found: list[ReplyEvent]) -> None:
        value, number = part.thought_signature, heard.number
        signature = Signature(Family.GEMINI, value) if value else None
        if part.function_call is not None:
            self._call(part.function_call, signature, heard, found)
        elif part.inline_data is not None:
            found += _thought_over(heard)
            heard.any = True
            media = blob_media(part.inline_data.mime_type, part.inline_data.data or "")
            found.append(MediaAdded(media, number))
        elif part.thought:
            if part.text:
                heard.thinking = True
                found.append(ThinkingAdded(part.text, number))
            if signature is not None:
                heard.thinking = False
                found.append(ThinkingSigned(signature, number))
        else:
            if part.text:
                found += _thought_over(heard)
                heard.any = True
                found.append(TextAdded(part.text, number))
            if signature is not None:
                found += _thought_over(heard)
                found.append(TextSigned(signature, number))

    def _call(
        self, call: wire.Call, signature: Signature | None, heard: _Heard, found: list[ReplyEvent]
    ) -> None:
        if not call.name:
            return
        found += _thought_over(heard)
        place, number = heard.calls, heard.number
        heard.calls += 1
        heard.any = True
        call_id = call.id or answered_id(self.seed, number, place)
        found += (
            CallBegan(place, call_id, call.name, signature, number),
            ArgumentsAdded(place, compact(call.args), number),
            CallEnded(place, number),
        )


def _thought_over(heard: _Heard) -> Iterator[ReplyEvent]:
    """Yield the end of a thought that nobody signed, so that nobody takes it for one of its own."""
    if heard.thinking:
        heard.thinking = False
        yield ThinkingSigned(_UNSIGNED, heard.number)


def _ending(heard: _Heard) -> Iterator[ReplyEvent]:
    stop, unknown = stop_of(heard.finish or "STOP", calls=heard.calls > 0)
    yield from _thought_over(heard)
    if stop is StopReason.REFUSAL and not heard.any and heard.explained:
        yield RefusalAdded(heard.explained, heard.number)
    yield Ended(stop, None, unknown, heard.number)


def _failure(heard: list[_Heard]) -> Broke | None:
    """Return what to tell of an answer that is nothing but a failure of the model."""
    if any(one.any for one in heard):
        return None
    for one in heard:
        if one.finish in FAILURES:
            return Broke(UpstreamError(502, failure_message(one.finish, one.explained), one.finish))
    return None


def _is_bare(response: wire.Response) -> bool:
    """Whether a response says nothing that an answer does."""
    return (
        response.candidates is None
        and response.prompt_feedback is None
        and not wire.is_there(response.usage_metadata)
    )
