"""Messages that name models: buffered until complete, and rewritten if the name changes.

All other messages pass as they come (:mod:`mgw.realtime.direction`).  A message that keeps its model passes
as the bytes that it came in; one that does not is sent in one frame of the gateway's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import urandom
from typing import Final

from msgspec.json import encode

from mgw.bodies.budget import Reservation
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.deadline import Deadline
from mgw.realtime.direction import Direction
from mgw.wire.frames import FrameReader, Message
from mgw.wire.held_frames import HeldFrames
from mgw.wire.json_spans import apply_edits
from mgw.wire.nested_strings import JsonPath, NestedString, find_nested_strings
from mgw.wire.whole_frames import render_frame

MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
"""A longer message is not searched for a model: that would hold everybody else up for too long."""
MAX_FRAMING_BYTES: Final = 256 * 1024
"""The headers of a message's frames may take so many bytes in addition, since each takes time to read.

Of a first message, control frames within it count too: the gateway itself answers them.
"""
_MAX_VALUES: Final = 1000
"""A message has a few dozen beside its model; to search millions would hold everybody else up."""
_MASK_BYTES: Final = 4


def find_message_models(payload: bytes, paths: Sequence[JsonPath]) -> list[NestedString]:
    """Return the models that a message names; of those at one place the last counts.

    There are none where it is no JSON, or an object of so many members that no API takes it.
    """
    try:
        return find_nested_strings(payload, *paths, max_values=_MAX_VALUES)
    except GatewayError:  # the provider's to refuse
        return []


def rewrite_models(payload: bytes, found: Sequence[NestedString], rename: Callable[[str], str]) -> bytes:
    """Return a message with other names for its models; the same object where that changes nothing."""
    new_at = {path: rename(asked) for path, asked in {one.path: one.value for one in found}.items()}
    edits = [(one.span, encode(new_at[one.path])) for one in found if one.value != new_at[one.path]]
    return apply_edits(payload, edits)


@dataclass(slots=True, eq=False, repr=False)
class HoldLimits:
    """What a message may take while it is held: memory, and the time until more of it comes.

    A client that sends nothing more would otherwise keep the memory until its session's limit.
    """

    memory: Reservation
    deadline: Deadline
    seconds: float
    _is_paused: bool = False

    def start(self) -> None:
        """Give the next part all the time, unless the client is not read."""
        if not self._is_paused:
            self.deadline.start(self.seconds)

    def pause(self) -> None:
        """Wait without a limit: the client is not read."""
        self._is_paused = True
        self.deadline.stop()

    def resume(self, *, is_holding: bool) -> None:
        """The client is read again."""
        self._is_paused = False
        if is_holding:
            self.start()

    def free(self) -> None:
        """Nothing is held any more."""
        self.deadline.stop()
        self.memory.release_all()


class RewritingDirection(Direction):
    """What a client sends, where its messages may name models.

    A message that may have to be changed is held until it is whole; control frames within it go on meanwhile.
    All that came before it has gone on, and nothing of it has, so a close frame of ours may be sent.  Where
    every message has to be shown, the client's own close within one makes it be dropped.  Once a part of a
    message has gone on, the rest passes as it comes.

    :param rewrite: returns what is sent in place of a message: the payload itself where nothing changes,
        ``None`` for nothing.
    :param limits: of the message that is not whole.
    :param first_only: only the first message names one; those behind it pass as they come.
    """

    __slots__ = (
        "_first_only",
        "_held",
        "_limits",
        "_passes_all",
        "_progress",
        "_rewrite",
        "_streams",
        "passes_others",
    )

    def __init__(
        self,
        reader: FrameReader,
        write: Callable[[bytes], None],
        on_end: Callable[[Direction], None],
        rewrite: Callable[[bytes], bytes | None],
        limits: HoldLimits,
        *,
        first_only: bool = False,
    ) -> None:
        super().__init__(reader, write, _take_none, on_end)
        self.passes_others = False
        """Whether a message that is not shown passes as it comes; else one that is too long is refused."""
        self._streams = False
        """Whether a part of the unfinished message, or of a frame between two, has gone on."""
        self._first_only = first_only
        self._passes_all = False
        """Whether no message is shown any more, and all pass as they come."""
        self._rewrite = rewrite
        self._limits = limits
        self._held: HeldFrames | None = None
        """The frames of the unfinished message; ``None``: nothing is held."""
        self._progress = 0
        """Data frames and bytes of payload so far; control frames do not count and renew no time limit."""

    def feed(self, data: bytes) -> None:
        """Take what the client has sent, and pass on what is whole.

        :raises GatewayError: ``BODY_TOO_LARGE``, or ``OVERLOADED``: it cannot be held.  ``MALFORMED``: every
            message has to be shown, and one is too long for that.
        """
        if self._passes_all or self._waits:
            super().feed(data)
            return
        reader, position = self._reader, 0
        for message in reader.feed(data):
            if message.start > position:
                self._pass(data[position : message.start])
                position = message.start
            self._pass_message(message, data[position : message.end])
            position = message.end
            if self._ended:  # it was refused: nothing passes any more
                break
            if self._first_only:
                self._passes_all = True
                reader.ignore_messages()
                break
        if not self._ended:
            self._pass_rest(data, position)
        if reader.is_too_long:
            raise GatewayError(
                Reason.MALFORMED, f"{reader.fault}, which is too many for a key with models or limits"
            )
        if reader.close is not None or reader.fault is not None:
            self._notice_end()

    def end_with(self, close_frame: bytes) -> None:
        """Send the provider a close frame; what is held is dropped, since its rest never comes."""
        if self._passes_all or self._streams:
            super().end_with(close_frame)
        elif not self._ended:
            self._drop_held()
            self._reader.ignore_messages()
            self._ended = self._waits = True
            self._write(close_frame)

    def stop(self) -> None:
        """Let nothing pass any more: the session is over."""
        super().stop()
        self._rewrite = _pass_none
        self._drop_held()
        self._limits.deadline.close()

    def on_sender_paused(self) -> None:
        """Do not count the time in which the client is not read."""
        self._limits.pause()

    def on_sender_resumed(self) -> None:
        """Give the client all the time again for the rest of what is held."""
        self._limits.resume(is_holding=self._held is not None)

    @property
    def is_cut(self) -> bool:
        """Whether the provider has had a part of a frame; what is held it has not had."""
        return super().is_cut and (self._passes_all or self._streams)

    def _pass_message(self, message: Message, raw: bytes) -> None:
        """Pass a message, or what is sent in its place; all that came before it has gone on.

        :param raw: its frames, without those that are held.
        """
        self._streams = False
        new = self._rewrite(message.payload)
        if self._ended:
            return
        if new is message.payload:
            self._pass(raw)
            return
        self._drop_message(raw)
        if new is not None:
            self._write(render_frame(message.opcode, new, urandom(_MASK_BYTES)))

    def _pass_rest(self, data: bytes, position: int) -> None:
        """Pass what stands behind the last message that was shown, or hold the unfinished one at its end."""
        reader = self._reader
        end = reader.forwardable
        if self._passes_all or self._is_between_messages():
            self._streams = False
            self._pass(data[position:end])
            return
        if reader.began >= position:
            self._pass(data[position : reader.began])
            self._streams = False
            position = reader.began
        if self._streams or (self.passes_others and not reader.is_gathering):
            self._streams = True
            self._pass(data[position:end])
        elif reader.close is None:
            self._hold(data[position:end])
        elif reader.shows_all:  # what has come of the message has not been checked
            self._drop_message(data[position:end])
        else:
            self._pass(data[position:end])

    def _drop_message(self, rest: bytes) -> None:
        """Drop the message that is held, and ends in ``rest``; the control frames in that go on."""
        controls = (self._held or HeldFrames()).add(rest)
        self._drop_held()
        if controls:
            self._write(controls)

    def _pass(self, raw: bytes) -> None:
        if self._held is not None:
            raw = bytes(self._held.raw) + raw
            self._drop_held()
        if raw:
            self._write(raw)

    def _hold(self, piece: bytes) -> None:
        reader, begins = self._reader, self._held is None
        held = self._held = self._held or HeldFrames()
        progress = reader.frames + reader.payload_bytes
        if begins or progress != self._progress:
            self._progress = progress
            self._limits.start()
        size = len(held.raw)
        controls = held.add(piece)
        if controls:
            self._write(controls)
        if held.framing_bytes > MAX_FRAMING_BYTES:
            message = f"the frames of a message have more than {MAX_FRAMING_BYTES} bytes of headers"
            raise GatewayError(Reason.BODY_TOO_LARGE, message)
        if len(held.raw) - held.framing_bytes > MAX_MESSAGE_BYTES:
            message = f"a message has more than {MAX_MESSAGE_BYTES} bytes"
            raise GatewayError(Reason.BODY_TOO_LARGE, message)
        self._limits.memory.reserve(len(held.raw) - size)

    def _drop_held(self) -> None:
        if self._held is not None:
            self._held = None
            self._limits.free()


def _take_none(_: Sequence[Message]) -> None:
    """What a client says is not metered."""


def _pass_none(_: bytes) -> None:
    """Nothing passes once the session is over."""
