"""A streaming response of the Messages API, rendered from events.

Source: the SDK's ``RawMessageStreamEvent``.  The grammar::

    message_start (ping | BLOCK)* message_delta message_stop  -- or, anywhere, error
    BLOCK = content_block_start (ping | content_block_delta)* content_block_stop

Blocks are numbered from 0, and one is open at a time (:mod:`mgw.dialects.serial_writer`).  ``message_delta``
carries the final counts.  A ping may come before ``message_start``: the SDKs skip that event by its name.

A text that is only white space is none: the vendor refuses it when the client sends it back ("text content
blocks must contain non-whitespace text").
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject, Signature
from mgw.canonical.identifiers import ANTHROPIC_ID, make_unique_id
from mgw.canonical.reply import (
    Began,
    CallBegan,
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
from mgw.dialects.anthropic.errors import render_refusal, render_upstream_error
from mgw.dialects.anthropic.reply import describe_media, render_envelope, render_stop
from mgw.dialects.anthropic.thoughts import is_weak, render_signature
from mgw.dialects.anthropic.usage import render_usage
from mgw.dialects.arguments import embed_arguments
from mgw.dialects.dialect import ReplyContext
from mgw.dialects.serial_writer import SerialStreamWriter
from mgw.dialects.signatures import Digest
from mgw.nouns.errors import GatewayError
from mgw.wire.sse import render_event

KEEPALIVE: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
MAX_BLANK: Final = 32_768
"""The most characters of white space that are believed to be text."""

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


class MessagesStreamWriter(SerialStreamWriter):
    """Writes one message, of the first candidate, block by block."""

    __slots__ = ("_blocks", "_context", "_has_calls", "_has_refusal", "_is_object", "_unsure")

    content_type = b"text/event-stream; charset=utf-8"

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context.request_id)
        self._context = context
        self._blocks = _BlockWriter(self._out)
        self._has_calls = False
        self._has_refusal = False
        self._is_object: bool | None = None
        """Whether the open call's arguments begin like an object; ``None``: not known yet."""
        self._unsure: list[str] = []
        """The arguments of the open call, as long as that is not known."""

    def on_text(self, event: TextAdded) -> None:
        """Write text."""
        is_due = self._began and self._ending is None and not event.candidate  # as nearly always
        if (is_due and self._call is None) or self._is_due(event, len(event.text)):
            self._blocks.add_text(event.text)

    def on_text_signed(self, event: TextSigned) -> None:
        """Skip the signature of a text: texts have none here."""

    def on_thinking(self, event: ThinkingAdded) -> None:
        """Write a part of a thought."""
        if self._is_due(event, len(event.text)):
            self._blocks.add_thinking(event.text)

    def on_thinking_signed(self, event: ThinkingSigned) -> None:
        """Write the signature of a thought."""
        if self._is_due(event, len(event.signature.value)):
            self._blocks.sign(event.signature)

    def on_refusal(self, event: RefusalAdded) -> None:
        """Write the words of a refusal, as text."""
        if self._is_due(event, len(event.text)):
            self._has_refusal = True
            self._blocks.add_text(event.text)

    def on_citation(self, event: CitationAdded) -> None:
        """Skip where a text comes from: citations of URLs come from the vendor's own search here."""

    def on_media(self, event: MediaAdded) -> None:
        """Describe media in a text of its own."""
        if self._is_due(event, len(event.media.data or "")):
            self._blocks.write_text(describe_media(event.media))

    def on_logprobs(self, event: LogprobsAdded) -> None:
        """Skip log-probabilities, which this API does not have."""

    def on_error(self, error: GatewayError | UpstreamError) -> None:
        """Write the ``error`` event."""
        if isinstance(error, GatewayError):
            body = render_refusal(error, self._request_id)
        else:
            body = render_upstream_error(error, self._request_id)
        self._out.append(render_event(b"error", body))
        self._forget_held()

    def _keepalive(self) -> bytes:
        return KEEPALIVE

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

    def _begin_call(self, began: CallBegan) -> None:
        self._blocks.open_call(began)
        self._has_calls = True
        self._is_object = None

    def _add_arguments(self, text: str) -> None:
        """Write arguments of the open call, if they begin like an object.

        What does not is held to its end: clients parse the text as it comes, and fail on what is no JSON.
        """
        if self._is_object:
            self._blocks.add_arguments(text)
            return
        self._unsure.append(text)
        if self._is_object is None:
            begin = text.lstrip()  # all before it was blank
            if begin:
                self._is_object = begin.startswith("{")
        if self._is_object:
            self._blocks.add_arguments(self._take_unsure())
        else:
            self._count_held(len(text))

    def _end_arguments(self) -> None:
        unsure = self._take_unsure()
        if self._is_object is False:
            self._blocks.add_arguments(bytes(embed_arguments(unsure)).decode())
        self._blocks.close_call()

    def _take_unsure(self) -> str:
        text = "".join(self._unsure)
        self._unsure.clear()
        return text

    def _end_content(self, ending: Ended) -> None:  # noqa: ARG002 - all ends are alike here
        self._blocks.close()


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
        """The digest of the open thought's words."""
        self._weak: Signature | None = None
        """The signature of an open thought that has ended without a proper one."""

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
