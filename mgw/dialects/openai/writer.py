"""Events, as a stream of chunks for a client of chat completions.

Source: the SDK's ``ChatCompletionChunk`` and its accumulator (``ChatCompletionStreamState``), which builds
from the chunks what :func:`mgw.dialects.openai.reply.render_reply` writes whole.  The grammar::

    stream  = (role (delta)* finish)  of each choice, their chunks mixed
              usage?  "[DONE]"        -- or, at any place, an error, and nothing after it

* ``role`` is the first chunk of a choice, in the order of the choices: the accumulator counts on it.  It
  comes with the first thing that the choice says, so that ``content`` is ``""`` before text, else null.
* ``delta``: ``content``, ``reasoning_content``, ``reasoning_details``, ``refusal``, ``tool_calls`` or
  ``images``; entries of lists have an ``index``, since the accumulator merges them by it.
* Citations and the signature of the text come in one delta before ``finish``: what comes twice is added up.
* ``usage`` is written if the client asked for it; then all other chunks have ``"usage":null``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

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
from mgw.dialects.identifiers import CHAT_ID, unused_id
from mgw.dialects.metering import updated
from mgw.dialects.openai.answer import (
    annotations_of,
    call_object,
    completion_id,
    extra_object,
    finish_word,
    logprobs_object,
    usage_object,
)
from mgw.dialects.openai.content import image_object
from mgw.dialects.openai.errors import error_body, render_error
from mgw.dialects.openai.thoughts import Thoughts
from mgw.errors import GatewayError, Reason
from mgw.wire.sse import escape_line_ends, render_event

MAX_HELD: Final = 32 * 2**20
"""Characters that may wait for their place before the answer counts as broken."""

_ENCODER: Final = Encoder()
_DONE: Final = b"data: [DONE]\n\n"
KEEPALIVE: Final = b": ping\n\n"
_MOST_CHOICES: Final = 128


class _Call:
    """A call that the client has been told of."""

    __slots__ = ("ended", "index", "written")

    def __init__(self, index: int) -> None:
        self.index = index
        self.written = False
        """It has arguments."""
        self.ended = False


class _Choice:
    """What the client has been told of one choice."""

    __slots__ = (
        "call_ids",
        "calls",
        "characters",
        "citations",
        "ended",
        "head",
        "images",
        "said",
        "signature",
        "thoughts",
    )

    def __init__(self, head: bytes) -> None:
        self.head = head
        """A chunk up to its delta."""
        self.calls: dict[int, _Call] = {}
        self.call_ids: set[str] = set()
        self.characters = 0
        self.citations: list[Citation] = []
        self.ended = False
        self.images = 0
        self.said = False
        """It has text, a refusal or a call."""
        self.signature: Signature | None = None
        self.thoughts = Thoughts()


class ChatStreamWriter:
    """Writes a stream of chat completions; whatever events come, in whatever order, the grammar holds."""

    __slots__ = (
        "_choices",
        "_closed",
        "_context",
        "_deprecated",
        "_held",
        "_shared",
        "_tail",
        "_usage",
        "broken",
    )

    content_type = b"text/event-stream"
    """The media type of the stream."""

    def __init__(self, context: ReplyContext) -> None:
        self._context = context
        self._deprecated = context.options.legacy_functions
        self._choices: list[_Choice] = []
        self._closed = False
        self.broken = False
        """The stream was ended with an error."""
        self._held = 0
        """Characters that wait."""
        self._shared: bytes | None = None
        """What every chunk begins with; ``None`` before anything began."""
        self._tail = b',"usage":null}\n\n' if context.options.include_usage else b"}\n\n"
        self._usage: TokenUsage = NO_USAGE

    def write(self, events: Iterable[ReplyEvent]) -> bytes:
        """Return the bytes of these events; what has no place any more is left out."""
        out: list[bytes] = []
        for event in events:
            if self._closed:
                break
            _WRITERS[type(event)](self, event, out)
        return escape_line_ends(b"".join(out))

    def finish(self) -> bytes:
        """Return the end of the stream; an error where a choice has not ended."""
        if self._closed:
            return b""
        if not self._choices or not all(choice.ended for choice in self._choices):
            return self.fail(GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response has no end"))
        self._closed = True
        if not self._context.options.include_usage:
            return _DONE
        usage = _ENCODER.encode(usage_object(self._usage))
        return b"".join((self._start(), b'"choices":[],"usage":', usage, b"}\n\n", _DONE))

    def fail(self, error: GatewayError | UpstreamError) -> bytes:
        """Return an error event; there is no ``[DONE]`` after it."""
        if self._closed:
            return b""
        self._closed = self.broken = True
        if isinstance(error, GatewayError):
            body = error_body(error, self._context.request_id)
        else:
            body = render_error(error, self._context.request_id)[1]
        return escape_line_ends(render_event(b"", body))

    def keepalive(self) -> bytes:
        """Return a comment."""
        return b"" if self._closed else KEEPALIVE

    def _start(self, own_id: str | None = None, model: str | None = None) -> bytes:
        """Return what every chunk begins with, settled the first time."""
        if self._shared is None:
            context = self._context
            frame = {
                "id": completion_id(own_id, context),
                "object": "chat.completion.chunk",
                "created": context.created,
                "model": model or context.model,
            }
            self._shared = b"data: " + _ENCODER.encode(frame)[:-1] + b","
        return self._shared

    def _choice(self, candidate: int, out: list[bytes], *, text: bool = False) -> _Choice | None:
        """Return a choice that still speaks, with its role and that of those before it written."""
        choices = self._choices
        if candidate >= len(choices):
            if candidate >= _MOST_CHOICES:
                return None
            self._open(candidate, out, text=text)
        choice = choices[candidate]
        return None if choice.ended else choice

    def _open(self, candidate: int, out: list[bytes], *, text: bool) -> None:
        while len(self._choices) <= candidate:
            index = len(self._choices)
            choice = _Choice(self._start() + b'"choices":[{"index":%d,"delta":' % index)
            self._choices.append(choice)
            content = "" if text and index == candidate else None
            self._delta(choice, {"role": "assistant", "content": content}, out)

    def _delta(self, choice: _Choice, delta: JsonObject, out: list[bytes]) -> None:
        self._chunk(choice, _ENCODER.encode(delta), b"null", b"null", out)

    def _chunk(self, choice: _Choice, delta: bytes, logprobs: bytes, finish: bytes, out: list[bytes]) -> None:
        out += (
            choice.head,
            delta,
            b',"logprobs":',
            logprobs,
            b',"finish_reason":',
            finish,
            b"}]",
            self._tail,
        )

    def _began(self, event: Began, out: list[bytes]) -> None:  # noqa: ARG002 - the role comes with its choice
        self._start(event.id, event.model)
        self._usage = updated(self._usage, event.usage)

    def _counted(self, event: Counted, out: list[bytes]) -> None:  # noqa: ARG002 - usage is told at the end
        self._usage = updated(self._usage, event.usage)

    def _text(self, event: TextAdded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out, text=True)
        if choice is None or not event.text:
            return
        self._release(choice)
        choice.said = True
        choice.characters += len(event.text)
        out += (
            choice.head,
            b'{"content":',
            _ENCODER.encode(event.text),
            b'},"logprobs":null,"finish_reason":null}]',
            self._tail,
        )

    def _release(self, choice: _Choice) -> None:
        """End a thought that is not signed, and what was kept of it."""
        self._held -= choice.thoughts.held
        choice.thoughts.close()

    def _think(self, event: ThinkingAdded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is None or not event.text:
            return
        before = choice.thoughts.held
        choice.thoughts.add(event.text)
        self._held += choice.thoughts.held - before
        if self._held > MAX_HELD:
            out.append(
                self.fail(GatewayError(Reason.UPSTREAM_BROKEN, "a thought in the response is too long"))
            )
            return
        self._delta(choice, {"reasoning_content": event.text}, out)

    def _think_signed(self, event: ThinkingSigned, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is None:
            return
        self._held -= choice.thoughts.held
        entry = choice.thoughts.sign(event.signature, choice.characters, len(choice.calls))
        self._delta(choice, {"reasoning_details": [entry]}, out)

    def _refuse(self, event: RefusalAdded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is not None and event.text:
            self._release(choice)
            choice.said = True
            self._delta(choice, {"refusal": event.text}, out)

    def _sign(self, event: TextSigned, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is not None:
            self._release(choice)
            choice.signature = event.signature

    def _cite(self, event: CitationAdded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is not None:
            self._release(choice)
            choice.citations.append(event.citation)

    def _show(self, event: MediaAdded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is not None:
            self._release(choice)
            self._delta(choice, {"images": [image_object(event.media, choice.images)]}, out)
            choice.images += 1

    def _weigh(self, event: LogprobsAdded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is not None and event.tokens:
            self._chunk(choice, b"{}", _ENCODER.encode(logprobs_object(event.tokens)), b"null", out)

    def _call(self, event: CallBegan, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is None or event.call in choice.calls:
            return
        self._release(choice)
        choice.said = True
        call = choice.calls[event.call] = _Call(len(choice.calls))
        if self._deprecated:
            if call.index == 0:  # this kind has one call only
                self._delta(choice, {"function_call": {"name": event.name, "arguments": ""}}, out)
            return
        call_id = unused_id(event.id, choice.call_ids, CHAT_ID)
        entry = call_object(call_id, event.name, "", event.signature)
        self._delta(choice, {"tool_calls": [{"index": call.index, **entry}]}, out)

    def _argue(self, event: ArgumentsAdded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        call = choice.calls.get(event.call) if choice is not None else None
        if choice is not None and call is not None and not call.ended and event.text:
            self._arguments(choice, call, event.text, out)

    def _arguments(self, choice: _Choice, call: _Call, text: str, out: list[bytes]) -> None:
        call.written = True
        if not self._deprecated:
            entry = {"index": call.index, "function": {"arguments": text}}
            self._delta(choice, {"tool_calls": [entry]}, out)
        elif call.index == 0:
            self._delta(choice, {"function_call": {"arguments": text}}, out)

    def _call_ended(self, event: CallEnded, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        call = choice.calls.get(event.call) if choice is not None else None
        if choice is not None and call is not None:
            self._end_call(choice, call, out)

    def _end_call(self, choice: _Choice, call: _Call, out: list[bytes]) -> None:
        """End a call; one without arguments has an empty object of them."""
        if not call.ended and not call.written:
            self._arguments(choice, call, "{}", out)
        call.ended = True

    def _ended(self, event: Ended, out: list[bytes]) -> None:
        choice = self._choice(event.candidate, out)
        if choice is None:
            return
        self._release(choice)
        for call in choice.calls.values():
            self._end_call(choice, call, out)
        last: JsonObject = {} if choice.said else {"content": ""}
        if annotations := annotations_of(choice.citations):
            last["annotations"] = annotations
        if choice.signature is not None:
            last["extra_content"] = extra_object(choice.signature)
        if last:
            self._delta(choice, last, out)
        word = finish_word(event.stop, calls=bool(choice.calls), deprecated=self._deprecated)
        self._chunk(choice, b"{}", b"null", _ENCODER.encode(word), out)
        choice.ended = True

    def _broke(self, event: Broke, out: list[bytes]) -> None:
        out.append(self.fail(event.error))


_WRITERS: Final[
    dict[type, Callable[[ChatStreamWriter, Any, list[bytes]], None]]
] = {  # Any: the key's own type
    Began: ChatStreamWriter._began,
    TextAdded: ChatStreamWriter._text,
    TextSigned: ChatStreamWriter._sign,
    ThinkingAdded: ChatStreamWriter._think,
    ThinkingSigned: ChatStreamWriter._think_signed,
    RefusalAdded: ChatStreamWriter._refuse,
    CitationAdded: ChatStreamWriter._cite,
    MediaAdded: ChatStreamWriter._show,
    LogprobsAdded: ChatStreamWriter._weigh,
    CallBegan: ChatStreamWriter._call,
    ArgumentsAdded: ChatStreamWriter._argue,
    CallEnded: ChatStreamWriter._call_ended,
    Counted: ChatStreamWriter._counted,
    Ended: ChatStreamWriter._ended,
    Broke: ChatStreamWriter._broke,
}
