"""Events, written as a stream of chunks for a client of chat completions.

Source: the SDK's ``ChatCompletionChunk`` and its accumulator (``ChatCompletionStreamState``), which builds
from the chunks what :func:`mgw.dialects.openai.reply.render_reply` writes whole.  The grammar::

    stream  = (role (delta)* finish)  of each choice, their chunks mixed
              usage?  "[DONE]"        -- or, at any place, an error, and nothing after it

* ``role`` is the first chunk of a choice, in the order of the choices: the accumulator counts on it.  It
  comes with the first content of the choice, so that ``content`` is ``""`` before text, else null.
* ``delta``: ``content``, ``reasoning_content``, ``reasoning_details``, ``refusal``, ``tool_calls`` or
  ``images``; entries of lists have an ``index``, since the accumulator merges them by it.
* Citations and the signature of the text come in one delta before ``finish``: what comes twice is added up.
* ``usage`` is written if the client asked for it; then all other chunks have ``"usage":null``.
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import Citation, JsonObject, Signature
from mgw.canonical.identifiers import CHAT_ID, make_unique_id
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
from mgw.dialects.openai.blocks import render_call
from mgw.dialects.openai.candidates import (
    render_citations,
    render_id,
    render_logprobs,
    render_stop,
)
from mgw.dialects.openai.errors import render_error, render_refusal
from mgw.dialects.openai.media import render_image
from mgw.dialects.openai.options import ChatReplyOptions
from mgw.dialects.openai.thoughts import ThoughtRenderer, render_extra_content, render_signature
from mgw.dialects.openai.usage import render_usage
from mgw.dialects.stream import StreamWriter
from mgw.nouns.errors import GatewayError, Reason
from mgw.wire.sse import render_event

MAX_HELD: Final = 32 * 2**20
"""Characters of open thoughts that are kept before the answer counts as broken."""
KEEPALIVE: Final = b": ping\n\n"

_ENCODER: Final = Encoder()
_TEXT_CHUNK: Final = b'%b{"content":%b},"logprobs":null,"finish_reason":null}]%b'
_CHUNK: Final = b'%b%b,"logprobs":%b,"finish_reason":%b}]%b'
_DONE: Final = b"data: [DONE]\n\n"
_MAX_CHOICES: Final = 128


class _CallState:
    """What has been written of a call."""

    __slots__ = ("ended", "has_arguments", "index")

    def __init__(self, index: int) -> None:
        self.index = index
        self.has_arguments = False
        self.ended = False


class _ChoiceState:
    """What has been written of a choice, and what waits for its end."""

    __slots__ = (
        "call_ids",
        "calls",
        "characters",
        "citations",
        "ended",
        "has_content",
        "head",
        "images",
        "signature",
        "thoughts",
    )

    def __init__(self, head: bytes) -> None:
        self.head = head
        """A chunk up to its delta."""
        self.calls: dict[int, _CallState] = {}
        self.call_ids: set[str] = set()
        self.characters = 0
        self.citations: list[Citation] = []
        self.ended = False
        self.has_content = False
        """Whether it has text, a refusal or a call."""
        self.images = 0
        self.signature: Signature | None = None
        self.thoughts = ThoughtRenderer()


class ChatStreamWriter(StreamWriter):
    """Writes a stream of chat completions; whatever events come, in whatever order, the grammar holds."""

    __slots__ = ("_choices", "_context", "_deprecated", "_held", "_shared_head", "_tail", "_tells_usage")

    content_type = b"text/event-stream"
    """The media type of the stream."""

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._context = context
        options = ChatReplyOptions.of(context.options)
        self._deprecated = options.legacy_functions
        self._tells_usage = options.include_usage
        self._choices: list[_ChoiceState] = []
        self._held = 0
        """The number of characters of open thoughts."""
        self._shared_head: bytes | None = None
        """What every chunk begins with; ``None`` before anything began."""
        self._tail = b',"usage":null}\n\n' if self._tells_usage else b"}\n\n"

    def on_began(self, event: Began) -> None:
        """Take the identifier and the model; the role comes with its choice."""
        super().on_began(event)
        self._head(event.id, event.model)

    def on_text(self, event: TextAdded) -> None:
        """Write text."""
        number = event.candidate
        begun = self._choices[number] if number < len(self._choices) else None
        # Most chunks are text of a choice that has begun: there is nothing to be found.
        choice = self._find_choice(number, text=True) if begun is None or begun.ended else begun
        if choice is None or not event.text:
            return
        if choice.thoughts.held:  # asked here, since text is what most chunks are
            self._close_thought(choice)
        choice.has_content = True
        choice.characters += len(event.text)
        self._out.append(_TEXT_CHUNK % (choice.head, _ENCODER.encode(event.text), self._tail))

    def on_text_signed(self, event: TextSigned) -> None:
        """Keep the signature for the end of the choice."""
        choice = self._find_choice(event.candidate)
        if choice is not None:
            self._close_thought(choice)
            choice.signature = event.signature

    def on_thinking(self, event: ThinkingAdded) -> None:
        """Write a part of a thought, and keep it for the entry that its signature makes."""
        choice = self._find_choice(event.candidate)
        if choice is None or not event.text:
            return
        before = choice.thoughts.held
        choice.thoughts.add(event.text)
        self._held += choice.thoughts.held - before
        if self._held > MAX_HELD:
            self._break(GatewayError(Reason.UPSTREAM_BROKEN, "the reasoning in the response is too long"))
            return
        self._write_delta(choice, {"reasoning_content": event.text})

    def on_thinking_signed(self, event: ThinkingSigned) -> None:
        """Write the entry of ``reasoning_details`` for a signed thought."""
        choice = self._find_choice(event.candidate)
        if choice is None:
            return
        self._held -= choice.thoughts.held
        entry = choice.thoughts.sign(event.signature, choice.characters, len(choice.calls))
        self._write_delta(choice, {"reasoning_details": [entry]})

    def on_refusal(self, event: RefusalAdded) -> None:
        """Write the words of a refusal."""
        choice = self._find_choice(event.candidate)
        if choice is not None and event.text:
            self._close_thought(choice)
            choice.has_content = True
            self._write_delta(choice, {"refusal": event.text})

    def on_citation(self, event: CitationAdded) -> None:
        """Keep a citation for the end of the choice."""
        choice = self._find_choice(event.candidate)
        if choice is not None:
            self._close_thought(choice)
            choice.citations.append(event.citation)

    def on_media(self, event: MediaAdded) -> None:
        """Write an image."""
        choice = self._find_choice(event.candidate)
        if choice is not None:
            self._close_thought(choice)
            self._write_delta(choice, {"images": [render_image(event.media, choice.images)]})
            choice.images += 1

    def on_logprobs(self, event: LogprobsAdded) -> None:
        """Write how likely the last tokens were."""
        choice = self._find_choice(event.candidate)
        if choice is not None and event.tokens:
            self._write_chunk(choice, b"{}", _ENCODER.encode(render_logprobs(event.tokens)), b"null")

    def on_call_began(self, event: CallBegan) -> None:
        """Begin a call."""
        choice = self._find_choice(event.candidate)
        if choice is None or event.call in choice.calls:
            return
        self._close_thought(choice)
        choice.has_content = True
        call = choice.calls[event.call] = _CallState(len(choice.calls))
        if self._deprecated:
            if call.index == 0:  # this kind has one call only
                self._write_delta(choice, {"function_call": {"name": event.name, "arguments": ""}})
            return
        call_id = make_unique_id(event.id, choice.call_ids, CHAT_ID)
        entry = render_call(call_id, event.name, "", render_signature(event.signature))
        self._write_delta(choice, {"tool_calls": [{"index": call.index, **entry}]})

    def on_arguments(self, event: ArgumentsAdded) -> None:
        """Write a part of a call's arguments."""
        choice = self._find_choice(event.candidate)
        call = choice.calls.get(event.call) if choice is not None else None
        if choice is not None and call is not None and not call.ended and event.text:
            self._write_arguments(choice, call, event.text)

    def on_call_ended(self, event: CallEnded) -> None:
        """End a call."""
        choice = self._find_choice(event.candidate)
        call = choice.calls.get(event.call) if choice is not None else None
        if choice is not None and call is not None:
            self._end_call(choice, call)

    def on_ended(self, event: Ended) -> None:
        """End a choice, with what has waited for that."""
        choice = self._find_choice(event.candidate)
        if choice is None:
            return
        self._close_thought(choice)
        for call in choice.calls.values():
            self._end_call(choice, call)
        last: JsonObject = {} if choice.has_content else {"content": ""}
        if annotations := render_citations(choice.citations):
            last["annotations"] = annotations
        if signature := render_signature(choice.signature):
            last["extra_content"] = render_extra_content(signature)
        if last:
            self._write_delta(choice, last)
        reason = render_stop(event.stop, calls=bool(choice.calls), deprecated=self._deprecated)
        self._write_chunk(choice, b"{}", b"null", _ENCODER.encode(reason))
        choice.ended = True

    def on_finish(self) -> None:
        """Write usage, if the client asked for it, and ``[DONE]``; an error where a choice has not ended."""
        if not self._choices or not all(choice.ended for choice in self._choices):
            self._break(GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response has no finish reason"))
            return
        if self._tells_usage:
            usage = _ENCODER.encode(render_usage(self._usage))
            self._out += (self._head(), b'"choices":[],"usage":', usage, b"}\n\n")
        self._out.append(_DONE)

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write an error event; there is no ``[DONE]`` after it."""
        if isinstance(error, GatewayError):
            body = render_refusal(error, self._request_id)
        else:
            body = render_error(error, self._request_id)[1]
        self._out.append(render_event(b"", body))

    def _keepalive(self) -> bytes:
        """Return a comment."""
        return KEEPALIVE

    def _head(self, reply_id: str | None = None, model: str | None = None) -> bytes:
        """Return what every chunk begins with, settled the first time."""
        if self._shared_head is None:
            context = self._context
            fields = {
                "id": render_id(reply_id, context),
                "object": "chat.completion.chunk",
                "created": context.created,
                "model": model or context.model,
            }
            self._shared_head = b"data: " + _ENCODER.encode(fields)[:-1] + b","
        return self._shared_head

    def _find_choice(self, candidate: int, *, text: bool = False) -> _ChoiceState | None:
        """Return a choice that has not ended, with its role and that of those before it written."""
        choices = self._choices
        if candidate >= len(choices):
            if candidate >= _MAX_CHOICES:
                return None
            self._begin_choices(candidate, text=text)
        choice = choices[candidate]
        return None if choice.ended else choice

    def _begin_choices(self, candidate: int, *, text: bool) -> None:
        while len(self._choices) <= candidate:
            index = len(self._choices)
            choice = _ChoiceState(self._head() + b'"choices":[{"index":%d,"delta":' % index)
            self._choices.append(choice)
            content = "" if text and index == candidate else None
            self._write_delta(choice, {"role": "assistant", "content": content})

    def _write_delta(self, choice: _ChoiceState, delta: JsonObject) -> None:
        self._write_chunk(choice, _ENCODER.encode(delta), b"null", b"null")

    def _write_chunk(self, choice: _ChoiceState, delta: bytes, logprobs: bytes, finish_reason: bytes) -> None:
        self._out.append(_CHUNK % (choice.head, delta, logprobs, finish_reason, self._tail))

    def _close_thought(self, choice: _ChoiceState) -> None:
        """End a thought that is not signed, and forget what was kept of it."""
        self._held -= choice.thoughts.held
        choice.thoughts.close()

    def _write_arguments(self, choice: _ChoiceState, call: _CallState, text: str) -> None:
        call.has_arguments = True
        if not self._deprecated:
            entry = {"index": call.index, "function": {"arguments": text}}
            self._write_delta(choice, {"tool_calls": [entry]})
        elif call.index == 0:
            self._write_delta(choice, {"function_call": {"arguments": text}})

    def _end_call(self, choice: _ChoiceState, call: _CallState) -> None:
        """End a call; one without arguments has an empty object of them."""
        if not call.ended and not call.has_arguments:
            self._write_arguments(choice, call, "{}")
        call.ended = True
