"""One choice of a chat completion: its delta read as events, and its fields as they are written.

Sources: the SDK's ``ChoiceDelta``, ``Choice``, ``AnnotationURLCitation`` and ``ChatCompletionTokenLogprob``.
A message has the same fields as a delta, so it is read as a delta that holds everything.  Hosts add
``reasoning_content`` (DeepSeek, vLLM) or ``reasoning`` (OpenRouter, vLLM), ``reasoning_details``
(OpenRouter), content in parts (Mistral), ``images`` (OpenRouter) and ``extra_content`` (Google).  Whatever
has another type than it should is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from mgw.canonical.conversation import Citation, JsonObject, MediaKind
from mgw.canonical.reply import (
    Alternative,
    Broke,
    CitationAdded,
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
    TokenLogprob,
    UpstreamError,
)
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.openai.blocks import parse_thinking_text
from mgw.dialects.openai.calls import CallsReader
from mgw.dialects.openai.media import parse_url
from mgw.dialects.openai.thoughts import (
    UNSIGNED,
    parse_host_extra_content,
    parse_host_signature,
    parse_host_text,
)

_STOPS: Final = MappingProxyType(
    {
        "stop": StopReason.END,
        "length": StopReason.LENGTH,
        "tool_calls": StopReason.TOOL_USE,
        "function_call": StopReason.TOOL_USE,
        "content_filter": StopReason.REFUSAL,
        "model_length": StopReason.LENGTH,  # Mistral
        "eos_token": StopReason.END,  # TGI
        "stop_sequence": StopReason.STOP_SEQUENCE,  # TGI
    }
)
_FINISH_REASONS: Final = MappingProxyType(
    {
        StopReason.END: "stop",
        StopReason.STOP_SEQUENCE: "stop",
        StopReason.LENGTH: "length",
        StopReason.TOOL_USE: "tool_calls",
        StopReason.REFUSAL: "content_filter",
    }
)
_TOOL_USE: Final = (
    StopReason.TOOL_USE
)  # a member of an enumeration is looked up in Python's slow way each time
_BEFORE_CALLS: Final = frozenset({StopReason.LENGTH, StopReason.REFUSAL})
"""What an answer ended for, even if it has calls."""
_FAILURES: Final = MappingProxyType({"error": 502, "insufficient_system_resource": 503})
"""The finish reasons of answers that broke (OpenRouter, Mistral, DeepSeek), and the status of each."""

_HUGE: Final = 2**63
"""No logarithm is as large, though an integer of JSON may be larger than any float."""


class ChoiceDelta(Struct):
    """The fields of a delta, and of a message, that are read; Any: hosts write all kinds of types."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    annotations: Any = None
    images: Any = None
    extra_content: Any = None


_EMPTY_DELTA: Final = ChoiceDelta()


def bare_text(delta: ChoiceDelta) -> str | None:
    """Return the text of a delta or message that says nothing else; ``None``: it says more, or nothing."""
    if (
        type(delta.content) is not str
        or delta.reasoning_content
        or delta.reasoning
        or delta.reasoning_details
        or delta.refusal
        or delta.tool_calls
        or delta.function_call
        or delta.annotations
        or delta.images
        or delta.extra_content
    ):
        return None
    return delta.content or None


class Choice(Struct):
    """The fields of a choice that are read, in a stream or not."""

    index: Any = 0  # Any: hosts write all kinds of types
    delta: ChoiceDelta | None = None
    message: ChoiceDelta | None = None
    finish_reason: Any = None
    logprobs: Any = None
    error: Any = None
    """OpenRouter: what broke it."""
    usage: Any = None
    """Moonshot: in the last of a stream."""


class ChoiceReader:
    """Reads one choice."""

    __slots__ = (
        "_calls",
        "_detail",
        "_is_closed",
        "_is_thinking",
        "_reason",
        "_refused",
        "candidate",
        "ended",
        "went_on",
    )

    def __init__(self, candidate: int, seed: str) -> None:
        self.candidate = candidate
        self.ended = False
        """Whether the choice has a reason to end."""
        self.went_on = False
        """Whether more came behind that: this host names a reason in every chunk, so it tells nothing."""
        self._reason = ""
        self._is_closed = False
        """Whether its end has been told, and nothing that comes is read any more."""
        self._calls = CallsReader(candidate, seed)
        self._is_thinking = False
        """A thought is open."""
        self._detail: JsonObject | None = None
        """What belongs to it, from ``reasoning_details``."""
        self._refused = False

    @property
    def is_cut(self) -> bool:
        """Whether it cannot have ended here: it is in the middle of a call."""
        return not self.ended and self._calls.is_cut

    def on_choice(self, choice: Choice, events: list[ReplyEvent]) -> None:
        """Read a choice of a chunk."""
        if self.ended:
            self._go_on(choice, events)
            return
        delta = choice.delta or choice.message or _EMPTY_DELTA
        text = bare_text(delta)
        if text is None:
            self._on_words(delta, events)
        else:  # as in nearly all chunks
            if self._is_thinking or self._detail is not None or self._calls.waiting:
                self._end_what_is_open(events)
            events.append(TextAdded(text, self.candidate))
        if choice.logprobs is not None and (tokens := parse_logprobs(choice.logprobs)):
            events.append(LogprobsAdded(tokens, self.candidate))
        if text is None:
            self._on_rare_fields(delta, events)
        if type(choice.finish_reason) is str and choice.finish_reason:
            self.on_finish_reason(choice.finish_reason, events)

    def _on_words(self, delta: ChoiceDelta, events: list[ReplyEvent]) -> None:
        """Read the thoughts and the content of a delta."""
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._on_reasoning(delta, events)
        content = delta.content
        if type(content) is str:
            self._add_text(content, events)
        elif content:
            self._on_content_parts(content, events)

    def _go_on(self, choice: Choice, events: list[ReplyEvent]) -> None:
        """Read words behind a reason to end, but no message, which says all of them again."""
        if self._is_closed or choice.delta is None:
            return
        reason, before = self._reason, len(events)
        self.ended = False
        self.on_choice(choice, events)
        self.ended = True
        if len(events) > before:
            self.went_on = True
        else:
            self._reason = reason

    def on_finish_reason(self, reason: str, events: list[ReplyEvent]) -> None:
        """Take the reason to end that the provider states; :meth:`close` tells it, once nothing follows."""
        self.ended = True
        self._reason = reason
        if reason in _FAILURES:
            self._is_closed = True
            message = "the upstream cut off its response"
            events.append(Broke(UpstreamError(_FAILURES[reason], message, reason)))

    def close(self, events: list[ReplyEvent]) -> None:
        """Tell how the choice ended, once; without a reason it ended by itself."""
        if self._is_closed:
            return
        self.ended = self._is_closed = True
        reason = self._reason or "stop"
        self._close_thought(events)
        self._calls.on_finish(events)
        stop = _STOPS.get(reason)
        if self._calls.lack_name(wanted=stop is StopReason.TOOL_USE):
            events.append(Broke(UpstreamError(502, "the upstream's response has a tool call without a name")))
            return
        unknown = reason if stop is None else None
        events.append(Ended(self._resolve_stop(stop), unknown_stop=unknown, candidate=self.candidate))

    def _resolve_stop(self, stop: StopReason | None) -> StopReason:
        """Let calls and a refusal win over an end; there is no use of tools without a call."""
        if stop is not None and stop in _BEFORE_CALLS:
            return stop
        if self._calls.begun:
            return StopReason.TOOL_USE
        if self._refused:
            return StopReason.REFUSAL
        return StopReason.STOP_SEQUENCE if stop is StopReason.STOP_SEQUENCE else StopReason.END

    def _on_reasoning(self, delta: ChoiceDelta, events: list[ReplyEvent]) -> None:
        reasoning = _string(delta.reasoning_content) or _string(delta.reasoning)
        details = delta.reasoning_details
        entries = [entry for entry in details if type(entry) is dict] if type(details) is list else []
        texts = [parse_host_text(entry) for entry in entries]
        if reasoning and reasoning != "".join(texts):  # the text stands beside the entries only
            texts = [reasoning, *[""] * (len(entries) - 1)]
        for entry, text in zip(entries, texts, strict=False):
            if self._detail is not None and _identity(self._detail) != _identity(entry):
                self._close_thought(events)  # the entry belongs to another
            self._add_thought(text, events)
            self._merge_detail(entry)
        if not entries:
            self._add_thought(reasoning, events)

    def _add_thought(self, text: str, events: list[ReplyEvent]) -> None:
        if text:
            self._is_thinking = True
            events.append(ThinkingAdded(text, self.candidate))

    def _merge_detail(self, entry: JsonObject) -> None:
        known = {key: value for key, value in entry.items() if value is not None}
        self._detail = {**(self._detail or {}), **known}

    def _close_thought(self, events: list[ReplyEvent]) -> None:
        """End the open thought."""
        if self._detail is not None:
            signature = parse_host_signature(self._detail)
            if signature.redacted and self._is_thinking:  # text that is not its own
                events.append(ThinkingSigned(UNSIGNED, self.candidate))
            events.append(ThinkingSigned(signature, self.candidate))
        elif self._is_thinking:
            events.append(ThinkingSigned(UNSIGNED, self.candidate))
        self._is_thinking = False
        self._detail = None

    def _on_content_parts(self, content: Any, events: list[ReplyEvent]) -> None:  # Any: any JSON
        if type(content) is list:
            for block in content:
                if type(block) is not dict:
                    continue
                if block.get("type") == "thinking":
                    self._add_thought(parse_thinking_text(block.get("thinking")), events)
                else:
                    self._add_text(_string(block.get("text")), events)

    def _add_text(self, text: str, events: list[ReplyEvent]) -> None:
        if text:
            self._end_what_is_open(events)
            events.append(TextAdded(text, self.candidate))

    def _end_what_is_open(self, events: list[ReplyEvent]) -> None:
        """End the open thought, and begin the calls that waited: text follows."""
        self._close_thought(events)
        if self._calls.waiting:
            self._calls.begin_waiting(events)

    def _on_rare_fields(self, delta: ChoiceDelta, events: list[ReplyEvent]) -> None:
        """Read what few deltas have."""
        if delta.refusal and type(delta.refusal) is str:
            self._close_thought(events)
            self._refused = True
            events.append(RefusalAdded(delta.refusal, self.candidate))
        if type(delta.images) is list:
            self._on_images(delta.images, events)
        if type(delta.annotations) is list:
            citations = map(parse_citation, delta.annotations)
            events.extend(CitationAdded(citation, self.candidate) for citation in citations if citation)
        if delta.extra_content is not None and (signature := parse_host_extra_content(delta.extra_content)):
            self._close_thought(events)
            events.append(TextSigned(signature, self.candidate))
        if delta.tool_calls or delta.function_call:
            self._close_thought(events)
            if type(delta.tool_calls) is list:
                self._calls.on_tool_calls(delta.tool_calls, events)
            self._calls.on_function_call(delta.function_call, events)

    def _on_images(self, images: list[Any], events: list[ReplyEvent]) -> None:  # Any: JSON of whatever type
        for image in images:
            address = image.get("image_url") if type(image) is dict else None
            url = address.get("url") if type(address) is dict else address
            media = parse_url(url, MediaKind.IMAGE) if type(url) is str else None
            if media is not None:
                self._close_thought(events)
                events.append(MediaAdded(media, self.candidate))


def _string(value: Any) -> str:  # Any: JSON of whatever type
    return value if type(value) is str else ""


def _identity(entry: JsonObject) -> tuple[Any, Any]:  # Any: JSON of whatever type
    return entry.get("type"), entry.get("index")


def parse_citation(value: Any) -> Citation | None:  # Any: JSON of whatever type
    """Return the citation that an annotation is."""
    cited = value.get("url_citation") if type(value) is dict else None
    if type(cited) is not dict:
        return None
    url, title = _string(cited.get("url")) or None, _string(cited.get("title")) or None
    start, end = cited.get("start_index"), cited.get("end_index")
    return Citation(url, title, start if type(start) is int else None, end if type(end) is int else None)


def parse_logprobs(value: Any) -> tuple[TokenLogprob, ...]:  # Any: JSON of whatever type
    """Return the tokens of ``logprobs``."""
    tokens = value.get("content") if type(value) is dict else None
    if type(tokens) is not list:
        return ()
    parsed: list[TokenLogprob] = []
    for entry in tokens:
        token = _parse_logprob(entry)
        if token is not None:
            top = entry.get("top_logprobs")
            others = map(_parse_logprob, top) if type(top) is list else ()
            parsed.append(TokenLogprob(token.token, token.logprob, tuple(other for other in others if other)))
    return tuple(parsed)


def _parse_logprob(value: Any) -> Alternative | None:  # Any: JSON of whatever type
    if type(value) is not dict:
        return None
    token, logprob = value.get("token"), value.get("logprob")
    if type(token) is not str or not isinstance(logprob, int | float) or not abs(logprob) < _HUGE:
        return None
    return Alternative(token, float(logprob))


def render_stop(stop: StopReason, *, calls: bool, deprecated: bool) -> str:
    """Return the ``finish_reason``; where there are calls, an end is for them."""
    if calls and stop not in _BEFORE_CALLS:
        return "function_call" if deprecated else "tool_calls"
    return "stop" if stop is _TOOL_USE else _FINISH_REASONS[stop]


def render_id(reply_id: str | None, context: ReplyContext) -> str:
    """Return the provider's identifier, else one made from the request's."""
    return reply_id or f"chatcmpl-{context.request_id}"


def render_citations(citations: Iterable[Citation]) -> list[JsonObject]:
    """Return the citations that name an address as ``annotations``, which cannot carry others."""
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": citation.start or 0,
                "end_index": citation.end or 0,
                "title": citation.title or "",
                "url": citation.url,
            },
        }
        for citation in citations
        if citation.url is not None
    ]


def render_logprobs(tokens: Iterable[TokenLogprob]) -> JsonObject:
    """Return ``logprobs``."""
    content = [
        {**_render_logprob(token), "top_logprobs": [_render_logprob(other) for other in token.top]}
        for token in tokens
    ]
    return {"content": content, "refusal": None}


def _render_logprob(token: TokenLogprob | Alternative) -> JsonObject:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.token.encode())}
