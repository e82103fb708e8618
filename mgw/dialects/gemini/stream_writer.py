"""A streamed response as Google's clients read it: an event stream of ``data:`` lines alone, or an array.

Every piece is a whole ``GenerateContentResponse``.  Texts and thoughts go out as they come.  A call goes out
when it has ended, since ``args`` is an object; one whose arguments are none by then, and the calls behind it,
wait for the end, which tells whether they were cut off.  The last response, at the very end, has the reason
why each candidate ended and all counts::

    (text | thought | call | media | log probabilities)*  last response  -- or an error

Sources: ``GenerateContentResponse`` of google-genai 3.4; contract 8.11, 8.20, 8.23, 8.24.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw
from msgspec.json import Encoder

from mgw.canonical.conversation import Citation, JsonObject, Signature
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    CitationAdded,
    Ended,
    LogprobsAdded,
    MediaAdded,
    RefusalAdded,
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.gemini.blocks import render_call, render_text, render_thought
from mgw.dialects.gemini.errors import render_error_value, render_refusal
from mgw.dialects.gemini.options import ContentReplyOptions
from mgw.dialects.gemini.reply import (
    render_args,
    render_citations,
    render_logprobs,
    render_reply_media,
    render_stop,
    render_whole_args,
)
from mgw.dialects.gemini.thoughts import ThoughtSigner, render_call_signature, render_signature
from mgw.dialects.gemini.usage import render_usage
from mgw.dialects.stream import StreamWriter
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.json_array import ArrayWriter
from mgw.wire.sse import escape_line_ends

MAX_HELD_CHARACTERS: Final = 32 * 2**20
"""How much of calls that have not ended, and of what the last response holds, is kept."""
KEEPALIVE: Final = b"\n"
"""A line break, which means nothing between events and between elements."""
_PART_RESPONSE: Final = b'{"candidates":[{"content":{"parts":[%b],"role":"model"},"index":%d}]%b'
_EVENT: Final = b"data: %b\n\n"
_LINE_BREAKS: Final = b"\r\n"
"""Within JSON they stand between tokens only, where they mean nothing."""
_encode: Final = Encoder().encode


@dataclass(slots=True)
class _PendingCall:
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
class _OutgoingCandidate:
    """One candidate so far."""

    calls: dict[int, _PendingCall] = field(default_factory=dict)
    """Calls that have not ended or may have been cut off, and what stands behind them, in their order."""
    last_calls: list[_PendingCall] = field(default_factory=list)
    """The calls that have ended, while nothing came since."""
    has_call: bool = False
    """The first call has been written."""
    signer: ThoughtSigner = field(default_factory=ThoughtSigner)
    citations: list[Citation] = field(default_factory=list)
    end: Ended | None = None


class ContentStreamWriter(StreamWriter):
    """Writes one response."""

    __slots__ = ("_array", "_candidates", "_context", "_held", "_tail")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._context = context
        self._array = ArrayWriter() if ContentReplyOptions.of(context.options).in_array else None
        self._candidates: dict[int, _OutgoingCandidate] = {}
        self._held = 0
        """The characters of calls and citations that wait to be written."""
        self._tail = self._make_tail(None, None)
        """What closes every response."""

    @property
    def content_type(self) -> bytes:
        """The media type of the stream."""
        return b"text/event-stream" if self._array is None else b"application/json"

    def on_began(self, event: Began) -> None:
        """Take the names that every response has; nothing is written yet."""
        super().on_began(event)
        self._tail = self._make_tail(event.model, event.id)

    def on_text(self, event: TextAdded | RefusalAdded) -> None:
        """Write text."""
        candidate = self._open_candidate(event.candidate) if event.text else None
        if candidate is not None:
            if candidate.last_calls:
                self._follow(candidate, event.candidate)
            candidate.signer.interrupt()
            self._write_part(b'{"text":%b}' % _encode(event.text), event.candidate)

    def on_text_signed(self, event: TextSigned) -> None:
        """Write the signature of a text."""
        self._write_other_part(render_text("", render_signature(event.signature)), event.candidate)

    def on_thinking(self, event: ThinkingAdded) -> None:
        """Write a part of a thought."""
        candidate = self._open_candidate(event.candidate)
        if candidate is not None:
            self._follow(candidate, event.candidate)
            candidate.signer.add(event.text)
            self._write_part(_encode(render_thought(event.text)), event.candidate)

    def on_thinking_signed(self, event: ThinkingSigned) -> None:
        """Write the signature of a thought."""
        candidate = self._open_candidate(event.candidate)
        if candidate is None:
            return
        self._follow(candidate, event.candidate)
        signature = candidate.signer.sign(event.signature)
        if signature is not None:
            self._write_part(_encode(render_thought("", signature)), event.candidate)

    def on_refusal(self, event: RefusalAdded) -> None:
        """Write the words of a refusal, which are text here."""
        self.on_text(event)

    def on_citation(self, event: CitationAdded) -> None:
        """Keep where a text comes from for the last response."""
        candidate = self._open_candidate(event.candidate)
        if candidate is not None:
            candidate.citations.append(event.citation)
            self._hold(len(event.citation.url or "") + len(event.citation.title or ""))

    def on_media(self, event: MediaAdded) -> None:
        """Write a piece of media."""
        self._write_other_part(render_reply_media(event.media), event.candidate)

    def on_logprobs(self, event: LogprobsAdded) -> None:
        """Write how likely the last tokens were."""
        candidate = self._open_candidate(event.candidate)
        if candidate is not None:
            candidate.signer.interrupt()
            piece: JsonObject = {
                "content": {"parts": [render_text("")], "role": "model"},
                "index": event.candidate,
                "logprobsResult": render_logprobs(event.tokens),
            }
            self._write_response(_encode({"candidates": [piece]})[:-1] + self._tail)

    def on_call_began(self, event: CallBegan) -> None:
        """Begin a call, which is written when it is whole."""
        candidate = self._open_candidate(event.candidate)
        if candidate is not None and event.call not in candidate.calls:
            self._follow(candidate, event.candidate)
            carried = candidate.signer.pop_carried()
            candidate.calls[event.call] = _PendingCall(event.id, event.name, event.signature, carried)

    def on_arguments(self, event: ArgumentsAdded) -> None:
        """Keep a part of a call's arguments."""
        candidate = self._open_candidate(event.candidate)
        call = None if candidate is None else candidate.calls.get(event.call)
        if call is not None and not call.ended:
            call.pieces.append(event.text)
            self._hold(len(event.text))

    def on_call_ended(self, event: CallEnded) -> None:
        """Write a call, if it is whole and none before it waits."""
        candidate = self._open_candidate(event.candidate)
        call = None if candidate is None else candidate.calls.get(event.call)
        if candidate is not None and call is not None and not call.ended:
            call.ended = True
            call.args = render_whole_args(call.arguments(), followed=False)
            candidate.last_calls.append(call)
            self._write_whole_calls(candidate, event.candidate)

    def on_ended(self, event: Ended) -> None:
        """Write the calls that waited, without those that were cut off; the last response has the rest."""
        candidate = self._open_candidate(event.candidate)
        if candidate is None:
            return
        calls = list(candidate.calls.values())
        for call in calls:
            followed = call.followed or call is not calls[-1]
            args = render_args(call.arguments(), event.stop, followed=followed)
            if args is not None:
                self._write_call(call, args, candidate, event.candidate)
        candidate.calls.clear()
        candidate.end = event

    def on_finish(self) -> None:
        """Write the last response; an error where a candidate has not ended."""
        if not self._candidates or any(one.end is None for one in self._candidates.values()):
            self._break(
                GatewayError(
                    Reason.UPSTREAM_BROKEN, "the provider's stream ended before the response was complete"
                )
            )
            return
        last: JsonObject = {
            "candidates": [
                _render_end(self._candidates[number], number) for number in sorted(self._candidates)
            ]
        }
        usage = render_usage(self._usage)
        if usage:
            last["usageMetadata"] = usage
        self._write_response(_encode(last)[:-1] + self._tail)
        self._close_array()

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write an error in place of what is missing."""
        if isinstance(error, GatewayError):
            self._write_response(render_refusal(error, self._request_id))
        else:
            self._write_response(_encode(render_error_value(error)))
        self._close_array()

    def _keepalive(self) -> bytes:
        return KEEPALIVE

    def _escape(self, data: bytes) -> bytes:
        """Return it as it is: each event was made safe, and an array has no lines."""
        return data

    def _open_candidate(self, number: int) -> _OutgoingCandidate | None:
        """Return a candidate that has not ended."""
        candidate = self._candidates.get(number)
        if candidate is None:
            candidate = self._candidates[number] = _OutgoingCandidate()
        return candidate if candidate.end is None else None

    def _make_tail(self, model: str | None, response_id: str | None) -> bytes:
        names = {
            "modelVersion": model or self._context.model,
            "responseId": response_id or self._context.request_id,
        }
        return b"," + _encode(names)[1:]

    def _hold(self, characters: int) -> None:
        self._held += characters
        if self._held > MAX_HELD_CHARACTERS:
            self._break(GatewayError(Reason.UPSTREAM_BROKEN, "the model's tool calls are too long"))

    def _follow(self, candidate: _OutgoingCandidate, number: int) -> None:
        """Know that something comes behind the calls that have ended."""
        if not candidate.last_calls:
            return
        for call in candidate.last_calls:
            call.followed = True
            if call.args is None:
                call.args = render_whole_args(call.arguments(), followed=True)
        candidate.last_calls.clear()
        self._write_whole_calls(candidate, number)

    def _write_whole_calls(self, candidate: _OutgoingCandidate, number: int) -> None:
        """Write the calls up to the first of which it is not known that it is whole."""
        while candidate.calls:
            place, call = next(iter(candidate.calls.items()))
            if call.args is None:
                return
            del candidate.calls[place]
            self._write_call(call, call.args, candidate, number)

    def _write_call(self, call: _PendingCall, args: Raw, candidate: _OutgoingCandidate, number: int) -> None:
        candidate.signer.interrupt()
        signature = render_call_signature(call.signature, call.carried, first=not candidate.has_call)
        part = render_call(call.call_id, call.name, args, signature)
        candidate.has_call = True
        self._held -= sum(map(len, call.pieces))
        self._write_part(_encode(part).translate(None, _LINE_BREAKS), number)  # args are as they came

    def _write_other_part(self, part: JsonObject, number: int) -> None:
        """Write a part that is no thought."""
        candidate = self._open_candidate(number)
        if candidate is not None:
            self._follow(candidate, number)
            candidate.signer.interrupt()
            self._write_part(_encode(part), number)

    def _write_part(self, part: bytes, number: int) -> None:
        array = self._array
        response = _PART_RESPONSE % (part, number, self._tail)
        self._out.append(_EVENT % escape_line_ends(response) if array is None else array.element(response))

    def _write_response(self, response: bytes) -> None:
        if self._array is not None:
            self._out.append(self._array.element(response))
        else:
            self._out.append(_EVENT % escape_line_ends(response))

    def _close_array(self) -> None:
        if self._array is not None:
            self._out.append(self._array.finish())


def _render_end(candidate: _OutgoingCandidate, number: int) -> JsonObject:
    assert candidate.end is not None, "only a candidate that has ended has a last response"
    rendered: JsonObject = {
        "content": {"parts": [render_text("")], "role": "model"},
        "finishReason": render_stop(candidate.end.stop),
        "index": number,
    }
    if candidate.citations:
        rendered["citationMetadata"] = render_citations(candidate.citations)
    return rendered
