"""One choice of an answer, as it comes in: deltas to events.

Sources: the SDK's ``ChoiceDelta`` and ``Choice``.  A unary message has the same fields as a delta, so it is
read as a delta that holds everything.  Hosts add ``reasoning_content`` (DeepSeek, vLLM) or ``reasoning``
(OpenRouter, vLLM), ``reasoning_details`` (OpenRouter), content in parts (Mistral), ``images`` (OpenRouter)
and ``extra_content`` (Google).  Whatever has another type than it should is skipped.
"""

from __future__ import annotations

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
from mgw.dialects.openai.calls import Calls, host_signed
from mgw.dialects.openai.content import media_of, spoken_thought
from mgw.dialects.openai.thoughts import UNSIGNED, host_signature, host_words

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
_FAILURES: Final = MappingProxyType({"error": 502, "insufficient_system_resource": 503})
"""What OpenRouter and Mistral, and DeepSeek, say of an answer that broke, and the status it stands for."""

_HUGE: Final = 2**63
"""No logarithm is as large, though an integer of JSON may be larger than any float."""


class Delta(Struct):
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


_QUIET: Final = Delta()


class Choice(Struct):
    """The fields of a choice that are read, in a stream or not."""

    index: Any = 0  # Any: hosts write all kinds of types
    delta: Delta | None = None
    message: Delta | None = None
    finish_reason: Any = None
    logprobs: Any = None
    error: Any = None
    """OpenRouter: what broke it."""
    usage: Any = None
    """Moonshot: in the last of a stream."""


class ChoiceReader:
    """Reads one choice."""

    __slots__ = ("_calls", "_detail", "_images", "_refused", "_thinking", "candidate", "ended")

    def __init__(self, candidate: int, seed: str) -> None:
        self.candidate = candidate
        self.ended = False
        self._calls = Calls(candidate, seed)
        self._thinking = False
        """A thought is open."""
        self._detail: JsonObject | None = None
        """What belongs to it, from ``reasoning_details``."""
        self._refused = False

    @property
    def is_cut(self) -> bool:
        """Whether it cannot have ended here: it is in the midst of a call."""
        return not self.ended and self._calls.is_cut

    def take(self, choice: Choice, events: list[ReplyEvent]) -> None:
        """Read a choice of a chunk."""
        if self.ended:
            return
        delta = choice.delta or choice.message or _QUIET
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._think(delta, events)
        if delta.content:
            self._speak(delta.content, events)
        if choice.logprobs is not None and (tokens := _logprobs(choice.logprobs)):
            events.append(LogprobsAdded(tokens, self.candidate))
        self._rest(delta, events)
        if type(choice.finish_reason) is str and choice.finish_reason:
            self.finish(choice.finish_reason, events)

    def finish(self, word: str, events: list[ReplyEvent]) -> None:
        """End the choice for the reason that the provider states."""
        if word in _FAILURES:
            events.append(Broke(UpstreamError(_FAILURES[word], "the upstream broke off its response", word)))
            self.ended = True
            return
        self._close(events)
        self._calls.finish(events)
        stop = _STOPS.get(word)
        if self._calls.is_nameless(wanted=stop is StopReason.TOOL_USE):
            events.append(Broke(UpstreamError(502, "the upstream's response has a tool call without a name")))
            self.ended = True
            return
        unknown = word if stop is None else None
        events.append(Ended(self._settled(stop), unknown_stop=unknown, candidate=self.candidate))
        self.ended = True

    def _settled(self, stop: StopReason | None) -> StopReason:
        """Let calls and a refusal win over an end; there is no use of tools without a call."""
        if stop in {StopReason.LENGTH, StopReason.REFUSAL}:
            return stop or StopReason.END
        if self._calls.begun:
            return StopReason.TOOL_USE
        if self._refused:
            return StopReason.REFUSAL
        return StopReason.STOP_SEQUENCE if stop is StopReason.STOP_SEQUENCE else StopReason.END

    def _think(self, delta: Delta, events: list[ReplyEvent]) -> None:
        told = _string(delta.reasoning_content) or _string(delta.reasoning)
        details = delta.reasoning_details
        entries = [entry for entry in details if type(entry) is dict] if type(details) is list else []
        words = [host_words(entry) for entry in entries]
        if told and told != "".join(words):  # the words stand beside the entries only
            words = [told, *[""] * (len(entries) - 1)]
        for entry, own in zip(entries, words, strict=False):
            self._follow(entry, events)
            self._add_thought(own, events)
            self._merge(entry)
        if not entries:
            self._add_thought(told, events)

    def _add_thought(self, words: str, events: list[ReplyEvent]) -> None:
        if words:
            self._thinking = True
            events.append(ThinkingAdded(words, self.candidate))

    def _follow(self, entry: JsonObject, events: list[ReplyEvent]) -> None:
        """End the thought before, where an entry belongs to another."""
        before = self._detail
        if before is not None and _identity(before) != _identity(entry):
            self._close(events)

    def _merge(self, entry: JsonObject) -> None:
        said = {key: value for key, value in entry.items() if value is not None}
        self._detail = {**(self._detail or {}), **said}

    def _close(self, events: list[ReplyEvent]) -> None:
        """End the open thought."""
        if self._detail is not None:
            signature = host_signature(self._detail)
            if signature.redacted and self._thinking:  # words that are not its own
                events.append(ThinkingSigned(UNSIGNED, self.candidate))
            events.append(ThinkingSigned(signature, self.candidate))
        elif self._thinking:
            events.append(ThinkingSigned(UNSIGNED, self.candidate))
        self._thinking = False
        self._detail = None

    def _speak(self, content: Any, events: list[ReplyEvent]) -> None:  # Any: JSON of whatever type
        if type(content) is str:
            self._say(content, events)
        elif type(content) is list:
            for block in content:
                if type(block) is not dict:
                    continue
                if block.get("type") == "thinking":
                    self._add_thought(spoken_thought(block.get("thinking")), events)
                else:
                    self._say(_string(block.get("text")), events)

    def _say(self, text: str, events: list[ReplyEvent]) -> None:
        if text:
            if self._thinking or self._detail is not None:
                self._close(events)
            if self._calls.waiting:
                self._calls.settle(events)
            events.append(TextAdded(text, self.candidate))

    def _rest(self, delta: Delta, events: list[ReplyEvent]) -> None:
        """Read what few deltas have."""
        if delta.refusal and type(delta.refusal) is str:
            self._close(events)
            self._refused = True
            events.append(RefusalAdded(delta.refusal, self.candidate))
        if type(delta.images) is list:
            self._show(delta.images, events)
        if type(delta.annotations) is list:
            events.extend(
                CitationAdded(found, self.candidate) for found in map(_citation, delta.annotations) if found
            )
        if delta.extra_content is not None and (signature := host_signed(delta.extra_content)):
            self._close(events)
            events.append(TextSigned(signature, self.candidate))
        if delta.tool_calls or delta.function_call:
            self._close(events)
            if type(delta.tool_calls) is list:
                self._calls.take(delta.tool_calls, events)
            self._calls.take_deprecated(delta.function_call, events)

    def _show(self, images: list[Any], events: list[ReplyEvent]) -> None:  # Any: JSON of whatever type
        for image in images:
            address = image.get("image_url") if type(image) is dict else None
            url = address.get("url") if type(address) is dict else address
            media = media_of(url, MediaKind.IMAGE) if type(url) is str else None
            if media is not None:
                self._close(events)
                events.append(MediaAdded(media, self.candidate))


def _string(value: Any) -> str:  # Any: JSON of whatever type
    return value if type(value) is str else ""


def _identity(entry: JsonObject) -> tuple[Any, Any]:  # Any: JSON of whatever type
    return entry.get("type"), entry.get("index")


def _citation(value: Any) -> Citation | None:  # Any: JSON of whatever type
    cited = value.get("url_citation") if type(value) is dict else None
    if type(cited) is not dict:
        return None
    url, title = _string(cited.get("url")) or None, _string(cited.get("title")) or None
    start, end = cited.get("start_index"), cited.get("end_index")
    return Citation(url, title, start if type(start) is int else None, end if type(end) is int else None)


def _logprobs(value: Any) -> tuple[TokenLogprob, ...]:  # Any: JSON of whatever type
    tokens = value.get("content") if type(value) is dict else None
    if type(tokens) is not list:
        return ()
    found: list[TokenLogprob] = []
    for token in tokens:
        one = _alternative(token)
        if one is not None:
            top = token.get("top_logprobs")
            others = map(_alternative, top) if type(top) is list else ()
            found.append(TokenLogprob(one.token, one.logprob, tuple(other for other in others if other)))
    return tuple(found)


def _alternative(value: Any) -> Alternative | None:  # Any: JSON of whatever type
    if type(value) is not dict:
        return None
    token, logprob = value.get("token"), value.get("logprob")
    if type(token) is not str or not isinstance(logprob, int | float) or not abs(logprob) < _HUGE:
        return None
    return Alternative(token, float(logprob))
