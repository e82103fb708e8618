"""A streamed response of generateContent, read as events.

Each event, or element of the array, is a response: more parts of a candidate, and counts so far.  The last
response of a candidate names the reason why it ended.  Some hosts name it in every response, so a candidate
has ended when the stream has: Google closes it right behind the last response.  An error that breaks an
event stream off may be JSON in lines of its own, without ``data:``.  What some hosts put behind the last
response, ``[DONE]``, means nothing here.

Sources: ``GenerateContentResponse`` and ``_iter_response_stream`` of google-genai 3.4; the Gemini API's
reference of streamGenerateContent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mgw.canonical.conversation import Signature
from mgw.canonical.reply import (
    NO_USAGE,
    ArgumentsAdded,
    Began,
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
from mgw.dialects.arguments import compact_arguments
from mgw.dialects.gemini.blocks import UNSIGNED, make_call_id
from mgw.dialects.gemini.candidates import (
    NULL,
    CandidateShape,
    FunctionCallShape,
    GenerateContentResponse,
    PartShape,
    decode_response,
    is_present,
    parse_citations,
    parse_logprobs,
    sole_text,
    split_parts,
)
from mgw.dialects.gemini.errors import find_error
from mgw.dialects.gemini.media import parse_reply_media
from mgw.dialects.gemini.reply import BLOCKED, FAILURES, describe_block, describe_failure, parse_stop
from mgw.dialects.gemini.usage import parse_usage
from mgw.dialects.refusal import UNREADABLE_EVENT
from mgw.dialects.stream import DocumentReader, StreamHead
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family
from mgw.wire.json_array import ElementReader
from mgw.wire.sse import EventReader

_BLANKS: Final = b" \t\r\n"
_DONE: Final = b"[DONE]"
_SIGNS: Final = (b":", b"data:", b"event:", b"id:", b"retry:", b"[", b"{")
"""How a stream begins."""
_MAX_CANDIDATES: Final = 128
"""More than any provider gives; what claims to be a further one is skipped."""


@dataclass(slots=True)
class _IncomingCandidate:
    """One candidate so far."""

    number: int
    calls: int = 0
    thinking: bool = False
    """A thought is open that nobody signed."""
    has_content: bool = False
    """Whether there is more than thoughts."""
    finish_reason: str | None = None
    finish_message: str | None = None


class ContentStreamReader(DocumentReader[bytes]):
    """Reads an event stream or an array, as its first byte tells; ``seed`` makes identifiers of calls."""

    __slots__ = (
        "_began",
        "_blocked",
        "_candidates",
        "_elements",
        "_events",
        "_goes_on",
        "_head",
        "_seed",
        "_unread_usage",
        "_usage",
    )

    ended = False
    """Always false: this stream ends where the body does."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._seed = seed
        self._usage: TokenUsage = NO_USAGE
        self._unread_usage: bytes | None = None
        """The last counts, which stand in every response, and are read when somebody asks."""
        self._events: EventReader | None = None
        self._elements: ElementReader | None = None
        self._began = False
        self._goes_on = False
        """Whether more came behind a reason to end: this host names one in each, so it tells nothing."""
        self._head = StreamHead(_SIGNS)
        self._blocked: str | None = None
        self._candidates: dict[int, _IncomingCandidate] = {}

    @property
    def usage(self) -> TokenUsage:
        """The counts so far."""
        if self._unread_usage is not None:
            self._usage = parse_usage(self._unread_usage, self._usage)
            self._unread_usage = None
        return self._usage

    @property
    def complete(self) -> bool:
        """Whether every candidate has named its reason to end."""
        candidates = self._candidates.values()
        return (
            not self._closed and bool(candidates) and all(one.finish_reason is not None for one in candidates)
        )

    def _split(self, data: bytes) -> list[bytes]:
        if self._began and self._events is not None:
            return [event.data for event in self._events.feed(data)]
        documents = self._split_body(data)
        if not self._began:
            self._head.add(data, is_stream=bool(documents))
        return documents

    def _split_body(self, data: bytes) -> list[bytes]:
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

    def on_document(self, document: bytes, events: list[ReplyEvent]) -> None:
        """Read a response."""
        response = decode_response(document)
        if response is None or response.error or (response.candidates is None and _is_bare(response)):
            if document != _DONE:
                self._on_error(document, response, events)
            return
        if response.usage_metadata is not NULL and (usage := bytes(response.usage_metadata)) != b"null":
            self._unread_usage = usage
        if not self._began:
            self._began = True
            events.append(Began(response.response_id, response.model_version, self.usage))
        feedback = response.prompt_feedback
        if feedback is not None and feedback.block_reason:
            self._blocked = describe_block(feedback.block_reason, feedback.block_reason_message)
            self.finished = _MAX_CANDIDATES
        for place, candidate in enumerate(response.candidates or ()):
            number = place if candidate.index is None else candidate.index
            if 0 <= number < _MAX_CANDIDATES:
                self._on_candidate(candidate, number, events)

    def on_finish(self, events: list[ReplyEvent]) -> None:
        """Read the end of the stream: how the candidates ended.

        :raises GatewayError: ``UPSTREAM_BROKEN`` where one did not.
        """
        if self._events is not None:
            for event in self._events.finish():
                self.on_document(event.data, events)
                if self._closed:
                    return
        if self._elements is not None:
            self._elements.finish()
        self._end_candidates(events)

    def _end_candidates(self, events: list[ReplyEvent]) -> None:
        candidates = sorted(self._candidates.values(), key=lambda one: one.number)
        if self._blocked is not None:
            candidates = candidates or [_IncomingCandidate(0)]
            for one in candidates:
                if one.finish_reason is None:
                    one.finish_reason, one.finish_message = BLOCKED, self._blocked
        if not candidates or any(one.finish_reason is None for one in candidates):
            self._on_incomplete(events)
            return
        failure = _find_failure(candidates)
        if failure is not None:
            self._break(failure, events)
            return
        if self.usage != NO_USAGE:
            events.append(Counted(self.usage))
        for one in candidates:
            _end_candidate(one, events)

    def _on_incomplete(self, events: list[ReplyEvent]) -> None:
        refusal = self._head.refusal("the provider's response")
        if refusal is None:
            raise GatewayError(
                Reason.UPSTREAM_BROKEN, "the provider's stream ended before the response was complete"
            )
        self._break(refusal, events)

    def _on_error(
        self, document: bytes, response: GenerateContentResponse | None, events: list[ReplyEvent]
    ) -> None:
        """Break with the error that a document is; one that means nothing is skipped."""
        error = find_error(document)
        if error is not None:
            self._break(error, events)
        elif response is None:
            self._break(UNREADABLE_EVENT.error, events)
        elif response.error:
            self._break(UpstreamError(502, "the provider's stream ended with an error"), events)

    def _on_candidate(self, shape: CandidateShape, number: int, events: list[ReplyEvent]) -> None:
        candidate = self._candidates.get(number)
        if candidate is None:
            candidate = self._candidates[number] = _IncomingCandidate(number)
            self.finished = 0
        elif candidate.finish_reason is not None:
            self._goes_on = True
            self.finished = 0
        text = sole_text(shape.content)
        if text is None or candidate.thinking:
            for part in split_parts(shape.content):
                self._on_part(part, candidate, events)
        else:  # as in nearly all chunks
            candidate.has_content = True
            events.append(TextAdded(text, number))
        if shape.citation_metadata is not NULL:
            citations = parse_citations(shape.citation_metadata)
            events += [CitationAdded(citation, number) for citation in citations]
        if shape.logprobs_result is not NULL and (tokens := parse_logprobs(shape.logprobs_result)):
            events.append(LogprobsAdded(tokens, number))
        if shape.finish_reason:
            candidate.finish_reason = shape.finish_reason
            candidate.finish_message = shape.finish_message
            self.finished = len(self._candidates) if self.complete and not self._goes_on else 0

    def _on_part(self, part: PartShape, candidate: _IncomingCandidate, events: list[ReplyEvent]) -> None:
        value, number = part.thought_signature, candidate.number
        signature = Signature(Family.GEMINI, value) if value else None
        if part.function_call is not None:
            self._on_call(part.function_call, signature, candidate, events)
        elif part.inline_data is not None:
            _end_thought(candidate, events)
            candidate.has_content = True
            media = parse_reply_media(part.inline_data.mime_type, part.inline_data.data or "", signature)
            events.append(MediaAdded(media, number))
        elif part.thought:
            if part.text:
                candidate.thinking = True
                events.append(ThinkingAdded(part.text, number))
            if signature is not None:
                candidate.thinking = False
                events.append(ThinkingSigned(signature, number))
        else:
            if part.text:
                if candidate.thinking:
                    _end_thought(candidate, events)
                candidate.has_content = True
                events.append(TextAdded(part.text, number))
            if signature is not None:
                _end_thought(candidate, events)
                events.append(TextSigned(signature, number))

    def _on_call(
        self,
        call: FunctionCallShape,
        signature: Signature | None,
        candidate: _IncomingCandidate,
        events: list[ReplyEvent],
    ) -> None:
        if not call.name:
            return
        _end_thought(candidate, events)
        place, number = candidate.calls, candidate.number
        candidate.calls += 1
        candidate.has_content = True
        call_id = call.id or make_call_id(self._seed, number, place)
        events += (
            CallBegan(place, call_id, call.name, signature, number),
            ArgumentsAdded(place, compact_arguments(call.args), number),
            CallEnded(place, number),
        )


def _end_thought(candidate: _IncomingCandidate, events: list[ReplyEvent]) -> None:
    """End a thought that nobody signed, so that nobody takes it for one of its own."""
    if candidate.thinking:
        candidate.thinking = False
        events.append(ThinkingSigned(UNSIGNED, candidate.number))


def _end_candidate(candidate: _IncomingCandidate, events: list[ReplyEvent]) -> None:
    stop, unknown = parse_stop(candidate.finish_reason or "STOP", calls=candidate.calls > 0)
    _end_thought(candidate, events)
    if stop is StopReason.REFUSAL and not candidate.has_content and candidate.finish_message:
        events.append(RefusalAdded(candidate.finish_message, candidate.number))
    events.append(Ended(stop, None, unknown, candidate.number))


def _find_failure(candidates: list[_IncomingCandidate]) -> UpstreamError | None:
    """Return the error of a response that is nothing but a failure of the model."""
    if any(one.has_content for one in candidates):
        return None
    for one in candidates:
        if one.finish_reason in FAILURES:
            message = describe_failure(one.finish_reason, one.finish_message)
            return UpstreamError(502, message, one.finish_reason)
    return None


def _is_bare(response: GenerateContentResponse) -> bool:
    """Whether a document without candidates holds nothing of a response."""
    return response.prompt_feedback is None and not is_present(response.usage_metadata)
