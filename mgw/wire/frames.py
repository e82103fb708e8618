"""WebSocket frames that pass through unchanged: walk their headers, and expose small messages.

Rules: RFC 6455, sections 5 (framing), 7.1 (closing) and 7.4 (codes), and IANA's registry of close codes.  No
extension is negotiated, so the reserved bits are 0.  Whether text is UTF-8 is the business of the ends, which
read it; a relay only needs to know where frames begin, and which of them end the session.

Nothing is held back: bytes may go on as soon as they have been fed, and ``forwardable`` says how many.  Of an
illegal frame that begins in the bytes last fed nothing goes on.  Of one that began before, what was fed then
has gone: a part of its header, or of a control frame, the first two bytes only if nothing is wrong with them.
Then ``at_boundary`` is false, so that nothing is put behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from mgw.wire.whole_frames import (
    BINARY,
    CLOSE,
    CONTROL,
    FINAL_BIT,
    LONG_LENGTHS,
    MASK_BIT,
    OPCODE_BITS,
    PING,
    PONG,
    TEXT,
    mask,
)

_RESERVED_BITS: Final = 0x70
_OPCODES: Final = frozenset({0, TEXT, BINARY, CLOSE, PING, PONG})
_MAX_CONTROL_BYTES: Final = 125
_MAX_LENGTH: Final = 127
_CONTROLS: Final = frozenset({FINAL_BIT | CLOSE, FINAL_BIT | PING, FINAL_BIT | PONG})
_BETWEEN_MESSAGES: Final = _CONTROLS | {TEXT, BINARY, FINAL_BIT | TEXT, FINAL_BIT | BINARY}
_WITHIN_A_MESSAGE: Final = _CONTROLS | {0, FINAL_BIT}
"""The first bytes that a frame may have (5.4): a message's later frames have the opcode 0."""

_CLOSE_CODES: Final = frozenset({*range(1000, 1004), *range(1007, 1015), *range(3000, 5000)})
HEAD_BYTES: Final = 128
"""The bytes of a message that are searched for a sign that it is of interest: most say their type first."""
_OPENING_BRACE: Final = ord("{")


class Message(Struct, frozen=True, gc=False):
    """A complete message, unmasked, and where it stands in the bytes that completed it."""

    opcode: int
    payload: bytes
    start: int
    """Where its first frame begins; below 0 where that came before."""
    end: int
    """Where its last frame ends."""


class Close(Struct, frozen=True, gc=False):
    """What a close frame says; without a code where it has no payload (7.1.5)."""

    code: int | None
    reason: str


class FrameReader:
    """Walk the frames of one direction of a connection, however they arrive.

    Messages of interest are text, or binary that begins with ``{``, of at most ``message_limit`` bytes, that
    contain one of ``markers``, where there are any, and have ``head_marker`` among their first
    :data:`HEAD_BYTES`, where there is one; with a limit of 0 there are none.  Held are the payload
    of an unfinished message that may be one, and the beginning of a header or a control frame.

    :param every_message: all messages are of interest, and one that is longer than the limit is a fault.
    :ivar began: where an unfinished message, or frame between two, begins in what was last fed; below 0:
        before that.
    :ivar frames: how many data frames had a complete header.
    :ivar payload_bytes: how many bytes the payloads of data frames had.
    :ivar forwardable: how many of the bytes last fed may go on.
    :ivar close: the close frame, once it is complete; nothing behind it may go on.
    :ivar fault: what was illegal, without any payload; from there on nothing may go on.
    :ivar is_too_long: whether the fault is a message over the limit, which is legal as such.
    """

    __slots__ = (
        "_expected",
        "_gathered",
        "_head_marker",
        "_held",
        "_is_final",
        "_is_over",
        "_key",
        "_left",
        "_limit",
        "_markers",
        "_mask_bit",
        "_mask_bytes",
        "_messages",
        "_object_opcode",
        "_offset",
        "_opcode",
        "began",
        "close",
        "fault",
        "forwardable",
        "frames",
        "is_too_long",
        "payload_bytes",
        "shows_all",
    )

    def __init__(
        self,
        *,
        masked: bool,
        message_limit: int = 0,
        markers: tuple[bytes, ...] = (),
        head_marker: bytes | None = None,
        every_message: bool = False,
    ) -> None:
        self._mask_bit = MASK_BIT if masked else 0
        self._mask_bytes = 4 if masked else 0
        self._limit = message_limit or -1
        self._markers = markers
        self._head_marker = head_marker
        self._object_opcode = -1 if every_message else BINARY
        """The messages that are of interest only where they begin like an object."""
        self.shows_all = every_message
        """A message that is too long to be shown is a fault."""
        self._expected: frozenset[int] = _BETWEEN_MESSAGES
        self._held = b""
        """The beginning of a frame that cannot be read yet."""
        self._offset = 0
        """How many of the bytes that are being read were fed before."""
        self._opcode = 0
        """The opcode of the message whose frame is unfinished, or that has more frames."""
        self._left = 0
        """How many bytes of payload the unfinished frame lacks."""
        self._key = b""
        """The mask key of the unfinished frame, turned to begin with the byte for what it lacks."""
        self._gathered: bytearray | None = None
        self._messages: list[Message] = []
        self._is_final = self._is_over = self.is_too_long = False
        self.began = -1
        self.frames = self.payload_bytes = self.forwardable = 0
        self.close: Close | None = None
        self.fault: str | None = None

    @property
    def at_boundary(self) -> bool:
        """No frame is unfinished: a control frame may be put behind what has gone on."""
        return not self._left and not self._held

    @property
    def missing(self) -> int:
        """How many bytes of its payload the unfinished frame lacks; 0 where its header is not complete."""
        return self._left

    @property
    def is_gathering(self) -> bool:
        """What has come of a message, or of a header between two, may yet be one of interest."""
        return self._gathered is not None or (bool(self._held) and not self.in_message)

    @property
    def in_message(self) -> bool:
        """A message in several frames is unfinished."""
        return self._expected is _WITHIN_A_MESSAGE

    def ignore_messages(self) -> None:
        """Show no more messages, and hold nothing of any."""
        self.shows_all = False
        self._limit = -1
        self._gathered = None

    def feed(self, data: bytes) -> Sequence[Message]:
        """Return the messages of interest that these bytes complete."""
        size = len(data)
        self.forwardable = size
        self.began = -1
        position = 0
        if self._left:
            position = self._read_payload(data, 0)
        elif self._is_over:
            self.forwardable = 0
            return ()
        elif self._held:
            self._offset = len(self._held)
            data = self._held + data
            size = len(data)
            self._held = b""
        while position < size:
            position = self._read_frame(data, position, size)
        self._offset = 0
        if not self._messages:
            return ()
        messages, self._messages = self._messages, []
        return messages

    def _read_frame(self, data: bytes, start: int, size: int) -> int:
        """Read a frame, or as much of it as is there, and return where it ends."""
        first = data[start]
        if first not in self._expected:
            return self._fail(_describe_first_byte(first), data, start)
        if start + 1 == size:
            return self._hold(data, start)
        length = data[start + 1] ^ self._mask_bit
        if length > _MAX_LENGTH:
            return self._fail(
                "a frame without a mask" if self._mask_bit else "a frame with a mask", data, start
            )
        if first & CONTROL:
            return self._read_control_frame(data, start, length)
        body = start + 2 + self._mask_bytes
        if length in LONG_LENGTHS:
            length_bytes, least = LONG_LENGTHS[length]
            body += length_bytes
            field = data[start + 2 : start + 2 + length_bytes]
            length = int.from_bytes(field, "big")
            if len(field) == length_bytes and not least <= length < 1 << 63:
                return self._fail("a length that is not in its shortest encoding", data, start)
        if body > size:
            return self._hold(data, start)
        return self._read_data_frame(length, data, start, body)

    def _read_data_frame(self, length: int, data: bytes, start: int, body: int) -> int:
        self.frames += 1
        if self._mask_bit:
            self._key = data[body - 4 : body]
        first = data[start]
        opcode = first & OPCODE_BITS
        end = body + length
        is_final = first >= FINAL_BIT
        if is_final and opcode and end <= len(data):  # a whole message: most are
            self.payload_bytes += length
            if length <= self._limit:
                self._show(data, start, body, end)
            elif self.shows_all:
                return self._fail_as_too_long(data, start)
            return end
        if opcode:
            self._opcode = opcode
            self.began = start - self._offset
            self._gathered = bytearray() if self._limit > 0 else None
        if self._gathered is not None and len(self._gathered) + length > self._limit:
            if self.shows_all:
                return self._fail_as_too_long(data, start)
            self._gathered = None
        if not is_final:
            self._expected = _WITHIN_A_MESSAGE
        self._is_final = is_final
        self._left = length
        return self._read_payload(data, body)

    def _read_payload(self, data: bytes, start: int) -> int:
        """Pass what is there of the unfinished frame's payload."""
        end = min(start + self._left, len(data))
        self._left -= end - start
        self.payload_bytes += end - start
        if self._gathered is not None and start < end:
            self._gather(data[start:end])
        if not self._left and self._is_final:
            self._end_message(end)
        return end

    def _end_message(self, end: int) -> None:
        self._expected = _BETWEEN_MESSAGES
        gathered, self._gathered = self._gathered, None
        if gathered is None or (self._opcode == self._object_opcode and not gathered):
            return
        if self._is_marked(gathered, 0, len(gathered)):
            self._add(self._opcode, bytes(gathered), self.began, end)

    def _gather(self, piece: bytes) -> None:
        gathered = self._gathered
        assert gathered is not None
        if not gathered and len(piece) >= HEAD_BYTES and not self._has_head(piece[:HEAD_BYTES]):
            self._gathered = None
            return
        if self._opcode == self._object_opcode and not gathered and not self._is_object(piece, 0):
            self._gathered = None
            return
        if self._mask_bit:
            piece = mask(piece, self._key)
            turn = len(piece) % 4
            self._key = self._key[turn:] + self._key[:turn]
        gathered += piece

    def _show(self, data: bytes, start: int, body: int, end: int) -> None:
        """Keep a message that is whole in one frame, if it is of interest."""
        opcode = data[start] & OPCODE_BITS
        if opcode == self._object_opcode and (body == end or not self._is_object(data, body)):
            return
        if not self._has_head(data[body : min(end, body + HEAD_BYTES)]):
            return
        at = start - self._offset
        if self._mask_bit:
            payload = mask(data[body:end], self._key)
            if self._is_marked(payload, 0, len(payload)):
                self._add(opcode, payload, at, end)
        elif self._is_marked(data, body, end):
            self._add(opcode, data[body:end], at, end)

    def _is_object(self, data: bytes, start: int) -> bool:
        return data[start] ^ (self._key[0] if self._mask_bit else 0) == _OPENING_BRACE

    def _has_head(self, head: bytes) -> bool:
        """Whether a message that begins so may be of interest."""
        if self._head_marker is None:
            return True
        return self._head_marker in (mask(head, self._key) if self._mask_bit else head)

    def _is_marked(self, payload: bytes | bytearray, start: int, end: int) -> bool:
        for marker in self._markers:
            if payload.find(marker, start, end) >= 0:
                return True
        return not self._markers

    def _add(self, opcode: int, payload: bytes, start: int, end: int) -> None:
        self._messages.append(Message(opcode, payload, start, end - self._offset))

    def _read_control_frame(self, data: bytes, start: int, length: int) -> int:
        is_close = data[start] & OPCODE_BITS == CLOSE
        if length > _MAX_CONTROL_BYTES:
            return self._fail("a control frame of more than 125 bytes", data, start)
        if is_close and length == 1:
            return self._fail("a close frame with a truncated code", data, start)
        body = start + 2 + self._mask_bytes
        end = body + length
        if end > len(data):
            return self._hold(data, start)
        return self._read_close(data, start, body, end) if is_close else end

    def _read_close(self, data: bytes, start: int, body: int, end: int) -> int:
        payload = data[body:end]
        if self._mask_bit:
            payload = mask(payload, data[body - 4 : body])
        code = int.from_bytes(payload[:2], "big") if payload else None
        if code is not None and code not in _CLOSE_CODES:
            return self._fail(f"a close frame with the code {code}", data, start)
        try:
            reason = payload[2:].decode()
        except UnicodeDecodeError:
            return self._fail("a close frame with a reason that is not UTF-8", data, start)
        self.close = Close(code, reason)
        return self._end(data, end)

    def _hold(self, data: bytes, start: int) -> int:
        if not self.in_message:
            self.began = start - self._offset
        self._held = data[start:]
        return len(data)

    def _fail_as_too_long(self, data: bytes, start: int) -> int:
        self.is_too_long = True
        return self._fail(f"a message has more than {self._limit} bytes", data, start)

    def _fail(self, fault: str, data: bytes, start: int) -> int:
        self.fault = fault
        if start < self._offset:
            self._held = data[: self._offset]
        return self._end(data, start)

    def _end(self, data: bytes, position: int) -> int:
        """Let nothing go on from there."""
        self.forwardable = max(position - self._offset, 0)
        self._is_over = True
        return len(data)


def _describe_first_byte(first: int) -> str:
    """Say why no frame may begin so here."""
    opcode = first & OPCODE_BITS
    if first & _RESERVED_BITS:
        return "reserved bits that are set"
    if opcode not in _OPCODES:
        return f"the reserved opcode {opcode}"
    if opcode & CONTROL:
        return "a fragmented control frame"
    return "a new message within an unfinished one" if opcode else "a continuation frame outside a message"
