"""A client's first message that names the model: collected before the provider is contacted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from twisted.internet.defer import Deferred

from mgw.bodies.budget import Reservation
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.realtime.ending import Ending, Side
from mgw.realtime.messages import MAX_FRAMING_BYTES
from mgw.wire.frames import FrameReader
from mgw.wire.held_frames import HeldFrames
from mgw.wire.whole_frames import PONG, read_pings, render_close, render_frame

FIRST_MESSAGE_BYTES: Final = 1024 * 1024
"""The limit for the first message of Gemini's sessions, and for later ones that repeat the model."""
FIRST_MESSAGE_SECONDS: Final = 10.0
"""The first message of Gemini's sessions has to come within this time (contract 10.3)."""
MAX_WAITING_BYTES: Final = 64 * 1024
"""The most that is read behind the first message while the provider is dialled; then reading is paused."""


class Sender(Protocol):
    """The client's connection."""

    @property
    def write(self) -> Callable[[bytes], None]:
        """Sends frames."""
        ...

    def pause_reading(self) -> None:
        """Deliver nothing until :meth:`resume_reading`."""
        ...

    def resume_reading(self) -> None:
        """Go on delivering."""
        ...


class FirstMessage:
    """Gathers what a client sends until its first message is whole.

    :param limit: the most bytes that it may have.
    :param seconds: until it has to be there; a ping before it begins makes them begin anew.
    :param memory: holds it.
    :param on_end: called where it is over behind the first message: with why, or ``None``: the client left.
    """

    def __init__(
        self,
        limit: int,
        seconds: float,
        wheel: TimerWheel,
        memory: Reservation,
        client: Sender,
        on_end: Callable[[GatewayError | None], None],
    ) -> None:
        self.whole: Deferred[bytes] = Deferred()
        """Fires with its payload; fails with :class:`GatewayError`: none will come."""
        self.left: Ending | None = None
        """How the client has closed its end, in order or not, before the message was whole."""
        self._reader = FrameReader(masked=True, message_limit=limit)
        self._limit = limit
        self._seconds = seconds
        self._memory = memory
        self._client = client
        self._on_end = on_end
        self._held = HeldFrames()
        self._control_bytes = 0
        """The bytes of control frames that have come within the message."""
        self._waiting_bytes = 0
        self._deadline = Deadline(wheel, self._on_deadline)
        self._deadline.start(seconds)

    def on_client_data(self, data: bytes) -> None:
        """Take what the client has sent."""
        try:
            self._memory.reserve(len(data))
        except GatewayError as error:
            self.refuse(error)
            return
        if self.whole.called:
            self._held.raw += data
            self._waiting_bytes += len(data)
            if self._waiting_bytes > MAX_WAITING_BYTES:
                self._client.pause_reading()
            return
        messages = self._reader.feed(data)
        if messages:
            self._held.raw += data
            self._deadline.close()
            self.whole.callback(messages[0].payload)
        else:
            self._answer_pings(self._held.add(data[: self._reader.forwardable]))
            self._check()

    def _check(self) -> None:
        """See what has come of a message that is not whole."""
        reader = self._reader
        if reader.close is not None:
            self._client.write(render_close(reader.close.code, ""))
            self._leave(Ending(Side.CLIENT, reader.close.code))
        elif reader.fault is not None:
            self._fail(GatewayError(Reason.MALFORMED, f"the client sent {reader.fault}"))
        elif reader.payload_bytes > self._limit:
            self._fail(_too_large(f"{self._limit} bytes"))
        elif self._held.framing_bytes + self._control_bytes > MAX_FRAMING_BYTES:
            self._fail(_too_large(f"{MAX_FRAMING_BYTES} bytes of headers and pings"))
        elif reader.frames and reader.at_boundary and not reader.in_message:
            self._fail(no_model())

    def _answer_pings(self, controls: bytes) -> None:
        """Answer in place of the provider that there is not yet: a client without answers gives up."""
        has_begun = bool(self._reader.frames)
        self._memory.release(len(controls))
        if has_begun:
            self._control_bytes += len(controls)
        for payload in read_pings(controls):
            if not has_begun:
                self._deadline.start(self._seconds)
            self._client.write(render_frame(PONG, payload))

    def on_client_full(self) -> None:
        """The client does not take our pongs: it may send no more pings."""
        self._client.pause_reading()

    def on_client_drained(self) -> None:
        """The client has taken everything."""
        if self._waiting_bytes <= MAX_WAITING_BYTES:
            self._client.resume_reading()

    def on_client_ended(self) -> None:
        """The client has closed its side: nobody waits for an answer."""
        self.on_client_lost()

    def on_client_lost(self) -> None:
        """The client has left."""
        if self.whole.called:
            self._on_end(None)
        else:
            self._leave(Ending(Side.CLIENT, is_lost=True))

    def refuse(self, error: GatewayError) -> None:
        """Wait no longer: neither for the message, nor for the provider that it leads to."""
        if self.whole.called:
            self._on_end(error)
        else:
            self._fail(error)

    def take(self) -> bytes:
        """Return all that has come, frames as they are, and let go of it."""
        raw = bytes(self._held.raw)
        self.stop()
        self._client.resume_reading()
        return raw

    def stop(self) -> None:
        """Let go of everything."""
        self._deadline.close()
        self._held = HeldFrames()
        self._memory.release_all()

    def _leave(self, left: Ending) -> None:
        self.left = left
        self._fail(GatewayError(Reason.MALFORMED, "the client disconnected before its first message"))

    def _fail(self, error: GatewayError) -> None:
        self._deadline.close()
        if not self.whole.called:
            self.whole.errback(error)

    def _on_deadline(self) -> None:
        message = f"no message arrived within {self._seconds:g} s: the first message must name the model"
        self._fail(GatewayError(Reason.CLIENT_TOO_SLOW, message))


def _too_large(what: str) -> GatewayError:
    return GatewayError(Reason.BODY_TOO_LARGE, f"the first message is larger than {what}")


def no_model() -> GatewayError:
    """Return the refusal of a message that names no model."""
    return GatewayError(
        Reason.MALFORMED, "the first message must be JSON that names the model", param="model"
    )
