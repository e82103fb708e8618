"""One direction of a session: frames as the bytes in which they arrived, and frames of our own between them.

Frames pass as the bytes that they came in, since a client's are masked for any server, and a server's for
none: nothing is decoded, nothing encoded anew (RFC 6455 5.3).  What the gateway itself has to say is put
behind a whole frame, and what is a message of its own behind a whole message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mgw.wire.frames import Close, FrameReader, Message

_HEADER_STEP: Final = 1


class Direction:
    """Frames on their way from one side to the other.

    :param reader: walks the frames of the side that sends.
    :param on_messages: takes the messages that ``reader`` shows.
    :param on_end: called once, when the sender's close frame has passed, or something illegal has come.
    """

    __slots__ = ("_ended", "_insert", "_is_last", "_on_end", "_on_messages", "_reader", "_waits", "_write")

    def __init__(
        self,
        reader: FrameReader,
        write: Callable[[bytes], None],
        on_messages: Callable[[Sequence[Message]], None],
        on_end: Callable[[Direction], None],
    ) -> None:
        self._reader = reader
        self._write = write
        self._on_messages = on_messages
        self._on_end: Callable[[Direction], None] | None = on_end
        self._insert: list[bytes] = []
        """Frames of our own that wait for a boundary."""
        self._is_last = False
        """Whether the frame of our own that waits is the last: nothing passes behind it."""
        self._ended = False
        """Whether the receiver has had its last frame."""
        self._waits = False
        """Whether something is not as usual: a frame of our own waits, or nothing passes any more."""

    @property
    def frames(self) -> int:
        """How many data frames have come."""
        return self._reader.frames

    @property
    def payload_bytes(self) -> int:
        """How many bytes of payload they had so far."""
        return self._reader.payload_bytes

    @property
    def close(self) -> Close | None:
        """The sender's close frame, once it has come."""
        return self._reader.close

    @property
    def fault(self) -> str | None:
        """What the sender did that is illegal."""
        return self._reader.fault

    @property
    def ended(self) -> bool:
        """Whether the receiver has had a close frame, the sender's or one of ours."""
        return self._ended

    def feed(self, data: bytes) -> None:
        """Pass on what the sender has sent."""
        if self._waits:
            self._feed_slowly(data)
            return
        reader = self._reader
        messages = reader.feed(data)
        end = reader.forwardable
        if end == len(data):
            self._write(data)
        elif end:
            self._write(data[:end])
        if messages:
            self._on_messages(messages)
        if reader.close is not None or reader.fault is not None:
            self._notice_end()

    def send_message(self, frame: bytes) -> None:
        """Send the receiver a message of our own, in one frame, as soon as no other is under way."""
        if self._ended or self._is_last:
            return
        if self._is_between_messages() and not self._insert:
            self._write(frame)
        else:
            self._insert.append(frame)
            self._waits = True

    def end_with(self, close_frame: bytes) -> None:
        """Send the receiver a close frame as soon as no other is under way, and nothing behind it.

        Nothing happens where it has had one.
        """
        if self._ended or self._is_last:
            return
        self._is_last = self._waits = True
        if self._reader.at_boundary:
            self._ended = True
            self._insert.clear()
            self._write(close_frame)
        else:
            self._insert = [close_frame]

    def on_sender_paused(self) -> None:
        """The sender is not read for a while: that it sends nothing is not its fault."""

    def on_sender_resumed(self) -> None:
        """The sender is read again."""

    @property
    def is_waiting(self) -> bool:
        """Whether frames of our own wait for a boundary."""
        return bool(self._insert)

    def stop(self) -> None:
        """Let nothing pass any more: the session is over."""
        self._ended = self._waits = True
        self._insert.clear()
        self._on_end, self._on_messages = None, ignore_messages

    @property
    def is_cut(self) -> bool:
        """Whether the receiver has had a part of a frame, and no close frame can be put behind it."""
        return not self._ended and not self._reader.at_boundary

    def _is_between_messages(self) -> bool:
        return self._reader.at_boundary and not self._reader.in_message

    def _feed_slowly(self, data: bytes) -> None:
        """Pass on as far as the next boundary, say what waits there, and go on."""
        reader, position, size = self._reader, 0, len(data)
        while position < size:
            step = size if self._ended else position + (reader.missing or _HEADER_STEP)
            piece = data[position:step]
            position += len(piece)
            messages = reader.feed(piece)
            if not self._ended and reader.forwardable:
                self._write(piece[: reader.forwardable])
            if messages:
                self._on_messages(messages)
            if reader.close is None:
                self._send_waiting()
            if reader.close is not None or reader.fault is not None:
                self._notice_end()
                return
            if not self._waits and position < size:
                self.feed(data[position:])
                return

    def _send_waiting(self) -> None:
        at_boundary = self._reader.at_boundary if self._is_last else self._is_between_messages()
        if self._insert and at_boundary:
            for frame in self._insert:
                self._write(frame)
            self._insert.clear()
            self._ended = self._is_last
            self._waits = self._is_last

    def _notice_end(self) -> None:
        if self._reader.close is not None:
            self._ended = True  # the receiver has had the sender's, or had one of ours before
            self._insert.clear()
        self._waits = True
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(self)


def ignore_messages(_: Sequence[Message]) -> None:
    """Take the messages of a sender whom nobody meters."""
