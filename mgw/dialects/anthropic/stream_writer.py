"""A streaming response of the Messages API, rendered from events.

Source: the SDK's ``RawMessageStreamEvent``.  The grammar::

    message_start (ping | BLOCK)* message_delta message_stop  -- or, anywhere, error
    BLOCK = content_block_start (ping | content_block_delta)* content_block_stop

Blocks are numbered from 0, and one is open at a time.  Calls whose arguments interleave are therefore
written one after another: the first as it comes, the others from what was held meanwhile, and so is whatever
else comes while a call is open.  ``message_delta`` carries the final counts; those of some providers come
after the end of the response, so it waits for them, or for the end of the stream.  A ping may come before
``message_start``: the SDKs skip that event by its name.

A text that is only white space is none: the vendor refuses it when the client sends it back ("text content
blocks must contain non-whitespace text").
"""

from __future__ import annotations

from collections import deque
from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject, Signature
from mgw.canonical.identifiers import ANTHROPIC_ID, make_unique_id
from mgw.canonical.reply import (
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
    TextAdded,
    TextSigned,
    ThinkingAdded,
    ThinkingSigned,
    UpstreamError,
)
from mgw.dialects.anthropic.errors import error_body, upstream_error_body
from mgw.dialects.anthropic.reply import (
    describe_media,
    is_weak,
    render_envelope,
    render_signature,
    render_stop,
)
from mgw.dialects.anthropic.usage import render_usage
from mgw.dialects.arguments import embed_arguments
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.signatures import Digest
from mgw.dialects.stream import StreamWriter, incomplete
from mgw.errors import GatewayError, Reason
from mgw.wire.sse import render_event

KEEPALIVE: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
MAX_HELD_BYTES: Final = 32 * 1024 * 1024
"""How much is held while another call is open."""
MAX_BLANK: Final = 32_768
"""So many characters of white space are believed to be text."""

_ENCODER: Final = Encoder()
_MESSAGE_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_BLOCK_START: Final = (
    b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
)
_DELTA: Final = b'{"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":%b}}'
_BLOCK_DELTA: Final = b"event: content_block_delta\ndata: " + _DELTA + b"\n\n"
_TEXT_DELTA: Final = _BLOCK_DELTA.replace(b'"%b","%b"', b'"text_delta","text"')
_BLOCK_STOP: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_TEXT: Final = b"text"
_THINKING: Final = b"thinking"
_EMPTY_THOUGHT: Final = b'{"type":"thinking","thinking":"","signature":""}'
_EMPTY_BLOCKS: Final = {_TEXT: b'{"type":"text","text":""}', _THINKING: _EMPTY_THOUGHT}
_DELTA_TYPES: Final = {_TEXT: b"text_delta", _THINKING: b"thinking_delta"}

_HeldEvent = TextAdded | ThinkingAdded | ThinkingSigned | RefusalAdded | MediaAdded


class _HeldCall:
    """A call that is open, or waits for its turn."""

    __slots__ = ("began", "ended", "held", "is_object")

    def __init__(self, began: CallBegan) -> None:
        self.began = began
        self.ended = False
        self.held: list[str] = []
        """Arguments that are not written yet."""
        self.is_object: bool | None = None
        """Whether they begin like an object; ``None``: not known yet."""


class MessagesStreamWriter(StreamWriter):
    """Writes one message, of the first candidate, block by block."""

    __slots__ = (
        "_began",
        "_blocks",
        "_call",
        "_calls",
        "_context",
        "_ending",
        "_has_calls",
        "_has_refusal",
        "_held_bytes",
        "_waiting",
    )

    content_type = b"text/event-stream; charset=utf-8"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._context = context
        self._blocks = _BlockWriter(self._out)
        self._began = False
        self._call: _HeldCall | None = None
        """The one that is open."""
        self._calls: dict[int, _HeldCall] = {}
        """Those that have not ended, by their number."""
        self._waiting: deque[_HeldCall | _HeldEvent] = deque()
        """What comes after the open call."""
        self._held_bytes = 0
        self._has_calls = False
        self._has_refusal = False
        self._ending: Ended | None = None

    def on_began(self, event: Began) -> None:
        """Begin the message."""
        super().on_began(event)
        if not self._began:
            self._begin(event)

    def on_text(self, event: TextAdded) -> None:
        """Write text."""
        is_due = self._began and self._ending is None and not event.candidate  # as nearly always
        if is_due or self._accepts(event.candidate):
            if self._call is None:
                self._blocks.add_text(event.text)
            else:
                self._hold(event, len(event.text))

    def on_text_signed(self, event: TextSigned) -> None:
        """Skip the signature of a text: texts have none here."""

    def on_thinking(self, event: ThinkingAdded) -> None:
        """Write a part of a thought."""
        if self._accepts(event.candidate):
            if self._call is None:
                self._blocks.add_thinking(event.text)
            else:
                self._hold(event, len(event.text))

    def on_thinking_signed(self, event: ThinkingSigned) -> None:
        """Write the signature of a thought."""
        if self._accepts(event.candidate):
            if self._call is None:
                self._blocks.sign(event.signature)
            else:
                self._hold(event, 0)

    def on_refusal(self, event: RefusalAdded) -> None:
        """Write the words of a refusal, as text."""
        if self._accepts(event.candidate):
            if self._call is None:
                self._has_refusal = True
                self._blocks.add_text(event.text)
            else:
                self._hold(event, len(event.text))

    def on_citation(self, event: CitationAdded) -> None:
        """Skip where a text comes from: citations of URLs come from the vendor's own search here."""

    def on_media(self, event: MediaAdded) -> None:
        """Describe media in a text of its own."""
        if self._accepts(event.candidate):
            if self._call is None:
                self._blocks.write_text(describe_media(event.media))
            else:
                self._hold(event, len(event.media.data or ""))

    def on_logprobs(self, event: LogprobsAdded) -> None:
        """Skip log-probabilities, which this API does not have."""

    def on_call_began(self, event: CallBegan) -> None:
        """Begin a call, or hold it while another one is open."""
        if not self._accepts(event.candidate) or event.call in self._calls:
            return
        self._calls[event.call] = call = _HeldCall(event)
        if self._call is None:
            self._open_call(call)
        else:
            self._hold(call, len(event.name))

    def on_arguments(self, event: ArgumentsAdded) -> None:
        """Write a part of the open call's arguments, or hold it."""
        call = self._calls.get(event.call) if self._accepts(event.candidate) else None
        if call is None or not event.text:
            return
        if call is self._call and call.is_object:
            self._blocks.add_arguments(event.text)
            return
        call.held.append(event.text)
        if call is self._call:
            self._flush(call, event.text)
        self._count(len(event.text))

    def on_call_ended(self, event: CallEnded) -> None:
        """End a call."""
        if self._accepts(event.candidate):
            self._end_call(event.call)

    def on_counted(self, event: Counted) -> None:
        """Take the counts so far; those that come after the end were all that was missing."""
        super().on_counted(event)
        if self._ending is not None:
            self._conclude(self._ending)

    def on_ended(self, event: Ended) -> None:
        """End the content; the message itself may wait for its counts."""
        if self._accepts(event.candidate):
            for number in tuple(self._calls):
                self._end_call(number)
            self._blocks.close()
            self._ending = event

    def on_finish(self) -> None:
        """Write the end of the message."""
        if self._ending is None:
            self._break(incomplete())
        else:
            self._conclude(self._ending)

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write the ``error`` event."""
        if isinstance(error, GatewayError):
            body = error_body(error, self._request_id)
        else:
            body = upstream_error_body(error, self._request_id)
        self._out.append(render_event(b"error", body))
        self._waiting.clear()
        self._calls.clear()

    def _keepalive(self) -> bytes:
        return KEEPALIVE

    def _accepts(self, candidate: int) -> bool:
        """Whether an event of a candidate belongs to the message, which begins with it at the latest."""
        if candidate or self._ending is not None:
            return False
        if not self._began:
            self._begin(Began())
        return True

    def _begin(self, began: Began) -> None:
        self._began = True
        message = {
            **render_envelope(began.id, began.model, self._context),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": render_usage(self._usage),
        }
        event = {"type": "message_start", "message": message}
        self._out.append(render_event(b"message_start", _ENCODER.encode(event)))

    def _conclude(self, ending: Ended) -> None:
        stop = render_stop(
            ending.stop, ending.stop_sequence, calls=self._has_calls, refused=self._has_refusal
        )
        event = {"type": "message_delta", "delta": stop, "usage": render_usage(self._usage)}
        self._out += (render_event(b"message_delta", _ENCODER.encode(event)), _MESSAGE_STOP)
        self._closed = True

    def _hold(self, item: _HeldCall | _HeldEvent, size: int) -> None:
        self._waiting.append(item)
        self._count(size)

    def _count(self, size: int) -> None:
        self._held_bytes += size
        if self._held_bytes > MAX_HELD_BYTES:
            error = "the upstream's parallel tool calls are too large to be put in order"
            self._break(GatewayError(Reason.UPSTREAM_BROKEN, error))

    def _open_call(self, call: _HeldCall) -> None:
        self._blocks.open_call(call.began)
        self._call = call
        self._has_calls = True

    def _flush(self, call: _HeldCall, unseen: str) -> None:
        """Write what is held of the open call, if it begins like an object; ``unseen`` ends what is held.

        What does not is held to its end: clients parse the text as it comes, and fail on what is no JSON.
        """
        if call.is_object is None:
            begin = unseen.lstrip()  # all before it was blank
            if begin:
                call.is_object = begin.startswith("{")
        if call.is_object and call.held:
            text = "".join(call.held)
            call.held.clear()
            self._blocks.add_arguments(text)

    def _end_call(self, number: int) -> None:
        call = self._calls.pop(number, None)
        if call is None:
            return
        call.ended = True
        if call is self._call:
            self._close_call(call)
            self._write_waiting()

    def _close_call(self, call: _HeldCall) -> None:
        if call.is_object is False:
            self._blocks.add_arguments(bytes(embed_arguments("".join(call.held))).decode())
        self._blocks.close_call()
        self._call = None

    def _write_waiting(self) -> None:
        """Write what waited for the end of a call, up to the next call that has not ended."""
        while self._waiting and self._call is None:
            item = self._waiting.popleft()
            if not isinstance(item, _HeldCall):
                self._handlers[type(item)](self, item)
                continue
            self._open_call(item)
            self._flush(item, "".join(item.held))
            if item.ended:
                self._close_call(item)
        if not self._waiting:
            self._held_bytes = 0


class _BlockWriter:
    """Writes the content of a message; it opens and closes the blocks."""

    __slots__ = ("_blank", "_digest", "_ids", "_index", "_kind", "_out", "_weak")

    def __init__(self, out: list[bytes]) -> None:
        self._out = out
        self._ids: set[str] = set()
        self._index = -1
        self._kind: bytes | None = None
        """What the open block holds, where it is not a call."""
        self._blank = ""
        """White space that is text only if text follows."""
        self._digest = Digest()
        """Of the words of the open thought."""
        self._weak: Signature | None = None
        """Whose the open thought is, where it has ended without a proper signature."""

    def add_text(self, text: str) -> None:
        """Add text; white space waits for text to which it belongs."""
        if self._kind is _TEXT:  # as nearly always
            if text:
                self._out.append(_TEXT_DELTA % (self._index, _ENCODER.encode(text)))
            return
        text = self._blank + text
        if text.isspace() and len(text) <= MAX_BLANK:
            self._blank = text
        else:
            self._add(_TEXT, text)

    def write_text(self, text: str) -> None:
        """Write a text that is a block of its own."""
        self.close()
        self._add(_TEXT, text)
        self.close()

    def add_thinking(self, text: str) -> None:
        """Add to a thought; nothing is added to one that has ended."""
        self._blank = ""
        if self._weak is not None:
            self.close()
        self._add(_THINKING, text)
        self._digest.add(text)

    def sign(self, signature: Signature) -> None:
        """End a thought with its signature; a proper one without a thought is a block of its own."""
        if signature.redacted:
            self.close()
            self._open(_ENCODER.encode({"type": "redacted_thinking", "data": render_signature(signature)}))
            self._out.append(_BLOCK_STOP % self._index)
            return
        weak = is_weak(signature)
        if self._kind != _THINKING or self._weak is not None:
            if weak:
                return
            self._open_thought()
        self._weak = signature
        if not weak:
            self.close()

    def open_call(self, began: CallBegan) -> None:
        """Open a call; its signature is that of the thought before it, or of an empty one."""
        if began.signature is not None:
            if self._kind != _THINKING:
                self._open_thought()
            self._weak = began.signature
        self.close()
        call_id = make_unique_id(began.id, self._ids, ANTHROPIC_ID)
        block: JsonObject = {"type": "tool_use", "id": call_id, "name": began.name, "input": {}}
        self._open(_ENCODER.encode(block))

    def add_arguments(self, text: str) -> None:
        """Add to the open call's arguments."""
        self._add_delta(b"input_json_delta", b"partial_json", text)

    def close_call(self) -> None:
        """Close the open call."""
        self._out.append(_BLOCK_STOP % self._index)

    def close(self) -> None:
        """Close the open text or thought."""
        self._blank = ""
        if self._kind == _THINKING:
            self._add_delta(b"signature_delta", b"signature", render_signature(self._weak, self._digest))
            self._weak = None
            self._digest = Digest()
        if self._kind is not None:
            self._out.append(_BLOCK_STOP % self._index)
            self._kind = None

    def _add(self, kind: bytes, text: str) -> None:
        if not text:
            return
        if self._kind != kind:
            self.close()
            self._open(_EMPTY_BLOCKS[kind])
            self._kind = kind
        self._add_delta(_DELTA_TYPES[kind], kind, text)

    def _open_thought(self) -> None:
        self.close()
        self._open(_EMPTY_BLOCKS[_THINKING])
        self._kind = _THINKING

    def _open(self, block: bytes) -> None:
        self._index += 1
        self._out.append(_BLOCK_START % (self._index, block))

    def _add_delta(self, kind: bytes, key: bytes, text: str) -> None:
        self._out.append(_BLOCK_DELTA % (self._index, kind, key, _ENCODER.encode(text)))
