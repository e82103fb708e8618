"""The first message of a client, where it names the model: gathered before any provider is dialled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from twisted.internet.defer import Deferred

from mgw.bodies.budget import Reservation
from mgw.errors import GatewayError, Reason
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.wire.frames import FrameReader

MAX_WAITING_BYTES: Final = 64 * 1024
"""What is read behind the first message while the provider is dialled."""


class Sender(Protocol):
    """The client's connection."""

    def pause_reading(self) -> None:
        """Deliver nothing for now."""
        ...


class FirstMessage:
    """Gathers what a client sends until its first message is whole.

    :param limit: the most bytes that it may have.
    :param seconds: until it has to be there.
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
        self.has_left = False
        """The client has closed its end, in order or not, before the message was whole."""
        self._reader = FrameReader(masked=True, message_limit=limit)
        self._limit = limit
        self._seconds = seconds
        self._memory = memory
        self._client = client
        self._on_end = on_end
        self._raw: list[bytes] = []
        self._raw_bytes = 0
        self._message_end = 0
        """How many bytes had come with the first message."""
        self._deadline = Deadline(wheel, self._on_deadline)
        self._deadline.start(seconds)

    def on_client_data(self, data: bytes) -> None:
        """Take what the client has sent."""
        try:
            self._memory.reserve(len(data))
        except GatewayError as error:
            self.refuse(error)
            return
        self._raw.append(data)
        self._raw_bytes += len(data)
        if self.whole.called:
            if self._raw_bytes - self._message_end > MAX_WAITING_BYTES:
                self._client.pause_reading()
            return
        reader = self._reader
        messages = reader.feed(data)
        if messages:
            self._deadline.close()
            self._message_end = self._raw_bytes
            self.whole.callback(messages[0].payload)
        elif reader.close is not None:
            self.on_client_lost()
        elif reader.fault is not None:
            self._fail(GatewayError(Reason.MALFORMED, f"the client sent {reader.fault}"))
        elif reader.payload_bytes > self._limit or self._raw_bytes > self._limit + MAX_WAITING_BYTES:
            self._fail(
                GatewayError(Reason.BODY_TOO_LARGE, f"the first message has more than {self._limit} bytes")
            )
        elif reader.frames and reader.at_boundary and not reader.in_message:
            self._fail(no_model())

    def on_client_full(self) -> None:
        """Nothing is sent to the client yet."""

    def on_client_drained(self) -> None:
        """Nothing is sent to the client yet."""

    def on_client_lost(self) -> None:
        """The client has left."""
        if self.whole.called:
            self._on_end(None)
            return
        self.has_left = True
        self._fail(GatewayError(Reason.MALFORMED, "the client left before its first message"))

    def refuse(self, error: GatewayError) -> None:
        """Wait no longer: neither for the message, nor for the provider that it leads to."""
        if self.whole.called:
            self._on_end(error)
        else:
            self._fail(error)

    def take(self) -> bytes:
        """Return all that has come, frames as they are, and let go of it."""
        raw = b"".join(self._raw)
        self.stop()
        return raw

    def stop(self) -> None:
        """Let go of everything."""
        self._deadline.close()
        self._raw.clear()
        self._memory.release_all()

    def _fail(self, error: GatewayError) -> None:
        self._deadline.close()
        if not self.whole.called:
            self.whole.errback(error)

    def _on_deadline(self) -> None:
        message = f"no message came within {self._seconds:g} s: the first one has to name the model"
        self._fail(GatewayError(Reason.CLIENT_TOO_SLOW, message))


def no_model() -> GatewayError:
    """Return the refusal of a message that names no model."""
    return GatewayError(
        Reason.MALFORMED, "the first message has to be JSON that names the model", param="model"
    )
