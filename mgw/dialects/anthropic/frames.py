"""The events of a stream as bytes, each block opened and closed in its turn.

Source: the SDK's ``RawMessageStreamEvent``.  The grammar::

    message_start (ping | BLOCK)* message_delta message_stop  -- or, anywhere, error
    BLOCK = content_block_start (ping | content_block_delta)* content_block_stop

Blocks are numbered from 0, and one is open at a time.  A text that is only white space is none: the vendor
refuses it when the client sends it back ("text content blocks must contain non-whitespace text").
"""

from __future__ import annotations

from typing import Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject, Signature
from mgw.canonical.reply import CallBegan, TokenUsage
from mgw.dialects.anthropic import usage
from mgw.dialects.anthropic.reply import is_weak, written_signature
from mgw.dialects.identifiers import ANTHROPIC_ID, unused_id
from mgw.dialects.signatures import Digest
from mgw.wire.sse import escape_line_ends

KEEPALIVE: Final = b'event: ping\ndata: {"type":"ping"}\n\n'
MAX_BLANK: Final = 32_768
"""So many characters of white space are believed to be text."""
_ENCODER: Final = Encoder()
_STOP: Final = b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
_START_BLOCK: Final = (
    b'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":%b}\n\n'
)
_DELTA: Final = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,'
    b'"delta":{"type":"%b","%b":%b}}\n\n'
)
_STOP_BLOCK: Final = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
_TEXT: Final = b"text"
_THINKING: Final = b"thinking"
_EMPTY: Final = {
    _TEXT: b'{"type":"text","text":""}',
    _THINKING: b'{"type":"thinking","thinking":"","signature":""}',
}
_DELTAS: Final = {_TEXT: b"text_delta", _THINKING: b"thinking_delta"}


class Frames:
    """Writes one message."""

    __slots__ = ("_blank", "_digest", "_ids", "_index", "_kind", "_out", "_weak")

    def __init__(self) -> None:
        self._out: list[bytes] = []
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

    def taken(self) -> bytes:
        """Return what has been written since the last time."""
        data = b"".join(self._out)
        self._out.clear()
        return escape_line_ends(data)

    def begin(self, frame: JsonObject, counts: TokenUsage) -> None:
        """Begin the message; ``frame`` is what it says of itself."""
        message = {
            **frame,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "stop_details": None,
            "usage": usage.rendered(counts),
        }
        data = _ENCODER.encode({"type": "message_start", "message": message})
        self._out.append(b"event: message_start\ndata: %b\n\n" % data)

    def text(self, text: str) -> None:
        """Add text; white space waits for text to which it belongs."""
        if self._kind != _TEXT:
            text = self._blank + text
            if text.isspace() and len(text) <= MAX_BLANK:
                self._blank = text
                return
        self._add(_TEXT, text)

    def lone_text(self, text: str) -> None:
        """Write a text that is a block of its own."""
        self.close()
        self._add(_TEXT, text)
        self.close()

    def thinking(self, text: str) -> None:
        """Add to a thought; one that has ended is not gone on with."""
        self._blank = ""
        if self._weak is not None:
            self.close()
        self._add(_THINKING, text)
        self._digest.add(text)

    def sign(self, signature: Signature) -> None:
        """End a thought with its signature; a proper one without a thought is a block of its own."""
        if signature.redacted:
            self.close()
            self._open(_ENCODER.encode({"type": "redacted_thinking", "data": written_signature(signature)}))
            self._out.append(_STOP_BLOCK % self._index)
            return
        weak = is_weak(signature)
        if self._kind != _THINKING or self._weak is not None:
            if weak:
                return
            self._begin_thought()
        self._weak = signature
        if not weak:
            self.close()

    def call(self, began: CallBegan) -> None:
        """Open a call; its signature is that of the thought before it, or of an empty one."""
        if began.signature is not None:
            if self._kind != _THINKING:
                self._begin_thought()
            self._weak = began.signature
        self.close()
        block = {
            "type": "tool_use",
            "id": unused_id(began.id, self._ids, ANTHROPIC_ID),
            "name": began.name,
            "input": {},
        }
        self._open(_ENCODER.encode(block))

    def arguments(self, text: str) -> None:
        """Add to the open call's arguments."""
        self._delta(b"input_json_delta", b"partial_json", text)

    def end_call(self) -> None:
        """Close the open call."""
        self._out.append(_STOP_BLOCK % self._index)

    def close(self) -> None:
        """Close the open text or thought."""
        self._blank = ""
        if self._kind == _THINKING:
            self._delta(b"signature_delta", b"signature", written_signature(self._weak, self._digest))
            self._weak = None
            self._digest = Digest()
        if self._kind is not None:
            self._out.append(_STOP_BLOCK % self._index)
            self._kind = None

    def end(self, ending: JsonObject, counts: TokenUsage) -> None:
        """End the message; ``ending`` says why."""
        said = {"type": "message_delta", "delta": ending, "usage": usage.rendered(counts)}
        self._out.append(b"event: message_delta\ndata: %b\n\n" % _ENCODER.encode(said))
        self._out.append(_STOP)

    def error(self, body: bytes) -> None:
        """Break the message."""
        self._out.append(b"event: error\ndata: %b\n\n" % body)

    def _add(self, kind: bytes, text: str) -> None:
        if not text:
            return
        if self._kind != kind:
            self.close()
            self._open(_EMPTY[kind])
            self._kind = kind
        self._delta(_DELTAS[kind], kind, text)

    def _begin_thought(self) -> None:
        self.close()
        self._open(_EMPTY[_THINKING])
        self._kind = _THINKING

    def _open(self, block: bytes) -> None:
        self._index += 1
        self._out.append(_START_BLOCK % (self._index, block))

    def _delta(self, kind: bytes, key: bytes, text: str) -> None:
        self._out.append(_DELTA % (self._index, kind, key, _ENCODER.encode(text)))
