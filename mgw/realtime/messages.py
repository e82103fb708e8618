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
from mgw.wire.frames import FrameReader, Message, render_frame, without_last_message
from mgw.wire.json_spans import NestedString, apply_edits, find_nested_strings

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""A longer message is not searched for a model: that would hold everybody else up for too long."""
MAX_FRAMING_BYTES: Final = 256 * 1024
"""What the headers of its frames may take beside it, and frames of control within it: each takes time."""
_MAX_VALUES: Final = 1000
"""A message has a few dozen beside its model; to search millions would hold everybody else up."""
_MASK_BYTES: Final = 4

ModelPath = tuple[str, ...]


def find_message_models(payload: bytes, path: ModelPath) -> list[NestedString]:
    """Return the models that a message names, the last of which counts.

    There are none where it is no JSON, or an object of so many members that no API takes it.
    """
    try:
        return find_nested_strings(payload, path, max_values=_MAX_VALUES)
    except GatewayError:  # the provider's to refuse
        return []


def rewrite_models(payload: bytes, found: Sequence[NestedString], new: str) -> bytes:
    """Return a message with another name for its model; the same object where that changes nothing."""
    literal = encode(new)
    return apply_edits(payload, [(one.span, literal) for one in found if one.value != new])


class RewritingDirection(Direction):
    """What a client sends, where its messages may name models.

    What is held stands behind whole frames that have gone on, so that a close frame of ours may.

    :param rewrite: returns what is sent in place of a message: the payload itself where nothing changes,
        ``None`` for nothing.
    :param memory: holds the messages that are not whole.
    :param first_only: only the first message names one; those behind it pass as they come.
    """

    __slots__ = (
        *("_first_only", "_framing_bytes", "_held", "_is_plain", "_memory", "_rewrite", "_streams"),
        "passes_others",
    )

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
        self.passes_others = False
        """What the reader will not show passes as it comes; else a message that is too long is refused."""
        self._streams = False
        """A part of the unfinished message has gone on."""
        self._first_only = first_only
        self._is_plain = False
        self._rewrite = rewrite
        self._memory = memory
        self._held = bytearray()
        self._framing_bytes = 0
        """How many of them are no payload of data frames, as far as that is known."""

    def feed(self, data: bytes) -> None:
        """Take what the client has sent, and pass on what is whole.

        :raises GatewayError: ``BODY_TOO_LARGE``, or ``OVERLOADED``: it cannot be held.
        """
        if self._is_plain or self._waits:
            super().feed(data)
            return
        reader, start = self._reader, 0
        before = reader.payload_bytes
        for message in reader.feed(data):
            self._pass_message(message, data[start : message.end])
            start = message.end
            if self._ended:  # it was refused: nothing passes any more
                break
            if self._first_only:
                self._is_plain = True
                reader.ignore_messages()
                break
        if not self._ended:
            if not start:
                self._framing_bytes += len(data) - (reader.payload_bytes - before)
            end = max(start, reader.forwardable)
            self._pass_rest(data[start:end] if start or end < len(data) else data)
        if reader.close is not None or reader.fault is not None:
            self._notice_end()

    def end_with(self, close_frame: bytes) -> None:
        """Send the provider a close frame; what is held is dropped, since its rest never comes."""
        if self._is_plain or self._streams:
            super().end_with(close_frame)
        elif not self._ended:
            self._drop_held()
            self._reader.ignore_messages()
            self._ended = self._waits = True
            self._write(close_frame)

    def _pass_message(self, message: Message, raw: bytes) -> None:
        new = self._rewrite(message.payload)
        if new is message.payload:
            self._pass(raw)
        elif not self._ended:
            others = without_last_message(bytes(self._held + raw))
            self._drop_held()
            if others:
                self._write(others)
            if new is not None:
                self._write(render_frame(message.opcode, new, urandom(_MASK_BYTES)))

    def _pass_rest(self, rest: bytes) -> None:
        """Pass what stands behind the last whole message, or keep it until its message is whole."""
        is_whole = self._is_plain or self._is_between_messages() or self._reader.close is not None
        self._streams = not is_whole and self.passes_others and not self._reader.is_gathering
        if is_whole or self._streams:
            self._pass(rest)
        else:
            self._hold(rest)

    def _pass(self, raw: bytes) -> None:
        if self._held:
            self._write(bytes(self._held))
        self._drop_held()
        if raw:
            self._write(raw)

    def _hold(self, piece: bytes) -> None:
        size = len(self._held) + len(piece) - self._framing_bytes
        if size > MAX_MESSAGE_BYTES or self._framing_bytes > MAX_FRAMING_BYTES:
            message = f"a message has more than {MAX_MESSAGE_BYTES} bytes"
            raise GatewayError(Reason.BODY_TOO_LARGE, message)
        self._memory.reserve(len(piece))
        self._held += piece

    def _drop_held(self) -> None:
        self._framing_bytes = 0
        if self._held:
            self._held = bytearray()
            self._memory.release_all()


def _take_none(_: Sequence[Message]) -> None:
    """What a client says is not metered."""
