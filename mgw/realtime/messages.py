"""Messages of a client that name models: held until they are whole, and rewritten where the name changes.

All other messages pass as they come (:mod:`mgw.realtime.direction`).  A message that keeps its model passes
as the bytes that it came in; one that does not is sent in one frame of the gateway's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import urandom
from typing import Final

from msgspec.json import encode

from mgw.bodies.budget import Reservation
from mgw.errors import GatewayError, Reason
from mgw.realtime.direction import Direction
from mgw.wire.frames import FrameReader, Message, render_frame
from mgw.wire.json_spans import NestedString, apply_edits, find_nested_strings

MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""A longer message is not searched for a model: that would hold everybody else up for too long."""
MAX_FRAMING_BYTES: Final = 1024 * 1024
"""Of a message that is held: the headers of its frames, and control frames between them."""
_MASK_BYTES: Final = 4

ModelPath = tuple[str, ...]


def find_message_models(payload: bytes, path: ModelPath) -> list[NestedString]:
    """Return the models that a message names, the last of which counts; none where it is no JSON."""
    try:
        return find_nested_strings(payload, path)
    except GatewayError:  # the provider's to refuse
        return []


def rewrite_models(payload: bytes, found: Sequence[NestedString], new: str) -> bytes:
    """Return a message with another name for its model; the same object where that changes nothing."""
    literal = encode(new)
    return apply_edits(payload, [(one.span, literal) for one in found if one.value != new])


class RewritingDirection(Direction):
    """What a client sends, where its messages may name models.

    :param rewrite: returns what is sent in place of a message: the payload itself where nothing changes,
        ``None`` for nothing.
    :param memory: holds the messages that are not whole.
    :param first_only: only the first message names one; those behind it pass as they come.
    """

    __slots__ = ("_first_only", "_held", "_held_bytes", "_is_plain", "_memory", "_message_began", "_rewrite")

    def __init__(
        self,
        reader: FrameReader,
        write: Callable[[bytes], None],
        on_end: Callable[[Direction], None],
        rewrite: Callable[[bytes], bytes | None],
        memory: Reservation,
        *,
        first_only: bool = False,
    ) -> None:
        super().__init__(reader, write, _take_none, on_end)
        self._first_only = first_only
        self._is_plain = False
        self._rewrite = rewrite
        self._memory = memory
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._message_began = 0

    def feed(self, data: bytes) -> None:
        """Take what the client has sent, and pass on what is whole.

        :raises GatewayError: ``BODY_TOO_LARGE``, or ``OVERLOADED``: it cannot be held.
        """
        if self._is_plain or self._waits:
            super().feed(data)
            return
        reader, start = self._reader, 0
        for message in reader.feed(data):
            self._pass_message(message, data[start : message.end])
            start = message.end
            if self._first_only:
                self._is_plain = True
                reader.ignore_messages()
                break
        end = max(start, reader.forwardable)
        rest = data[start:end] if start or end < len(data) else data
        if self._is_plain or self._is_between_messages():
            self._pass(rest)
            self._message_began = reader.payload_bytes
        else:
            self._hold(rest)
        if reader.close is not None or reader.fault is not None:
            self._notice_end()

    def end_with(self, close_frame: bytes) -> None:
        """Send the provider a close frame; what is held is dropped, since its rest never comes."""
        if self._held:
            self._drop_held()
            self._ended = self._waits = True
            self._write(close_frame)
        else:
            super().end_with(close_frame)

    def _pass_message(self, message: Message, raw: bytes) -> None:
        new = self._rewrite(message.payload)
        if new is message.payload:
            self._pass(raw)
            return
        self._drop_held()
        if new is not None:
            self._write(render_frame(message.opcode, new, urandom(_MASK_BYTES)))

    def _pass(self, raw: bytes) -> None:
        for piece in self._held:
            self._write(piece)
        self._drop_held()
        if raw:
            self._write(raw)

    def _hold(self, piece: bytes) -> None:
        held_bytes = self._held_bytes + len(piece)
        payload_bytes = self._reader.payload_bytes - self._message_began
        if payload_bytes > MAX_MESSAGE_BYTES or held_bytes > MAX_MESSAGE_BYTES + MAX_FRAMING_BYTES:
            message = f"a message has more than {MAX_MESSAGE_BYTES} bytes"
            raise GatewayError(Reason.BODY_TOO_LARGE, message)
        self._memory.reserve(len(piece))
        self._held.append(piece)
        self._held_bytes = held_bytes

    def _drop_held(self) -> None:
        self._held.clear()
        self._held_bytes = 0
        self._memory.release_all()


def _take_none(_: Sequence[Message]) -> None:
    """What a client says is not metered."""
