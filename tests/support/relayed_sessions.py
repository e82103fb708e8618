"""A relayed session in memory: connections that only remember, and frames as wsproto makes and reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import strategies as st
from twisted.internet.task import Clock
from wsproto.frame_protocol import CloseReason, Frame, FrameProtocol, Opcode, ParseFailed

from mgw.bodies.budget import BodyBudget, Reservation
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.realtime.direction import Direction
from mgw.realtime.ending import Ending
from mgw.realtime.messages import HoldLimits, RewritingDirection
from mgw.realtime.relay import CLOSE_SECONDS, SessionRelay
from mgw.wire.frames import FrameReader, Message


@dataclass
class MemoryConnection:
    """One side's connection."""

    received: bytearray = field(default_factory=bytearray)
    ends: list[str] = field(default_factory=list)
    is_paused: bool = False

    def write(self, data: bytes) -> None:
        """Remember ``data``: none may come behind the end, and none of nothing."""
        assert not self.ends
        assert data
        self.received += data

    def pause_reading(self) -> None:
        """Be paused."""
        self.is_paused = True

    def resume_reading(self) -> None:
        """Go on."""
        self.is_paused = False

    def close(self) -> None:
        """End in order."""
        self.ends.append("close")

    def abort(self) -> None:
        """End at once."""
        self.ends.append("abort")


class RelayedSession:
    """A relay between two of them.

    :param rewrite: of the client's messages; without it they pass as they come.
    :param head_marker: only messages that begin with it are rewritten, and the others may be of any length.
    """

    def __init__(
        self,
        rewrite: Callable[[bytes], bytes | None] | None = None,
        *,
        first_only: bool = False,
        max_held: int = 1 << 20,
        head_marker: bytes | None = None,
    ) -> None:
        self.clock = Clock()
        self.client, self.upstream = MemoryConnection(), MemoryConnection()
        self.endings: list[Ending] = []
        self.metered: list[Message] = []
        self.budget = BodyBudget(max_held)
        wheel = TimerWheel(self.clock)
        self.relay = relay = SessionRelay(self.client, self.upstream, wheel, 30.0, self.endings.append)
        if rewrite is None:
            relay.to_upstream = Direction(
                FrameReader(masked=True), self.upstream.write, self.metered.extend, relay.on_direction_end
            )
        else:
            stopped = GatewayError(Reason.CLIENT_TOO_SLOW, "a message stopped arriving")
            deadline = Deadline(wheel, lambda: relay.give_up_client(stopped))
            relay.to_upstream = RewritingDirection(
                FrameReader(masked=True, message_limit=1 << 20, head_marker=head_marker),
                self.upstream.write,
                relay.on_direction_end,
                rewrite,
                HoldLimits(Reservation(self.budget), deadline, 60.0),
                first_only=first_only,
            )
            relay.to_upstream.passes_others = head_marker is not None
        relay.to_client = Direction(
            FrameReader(masked=False, message_limit=1000, markers=(b'"usage"',)),
            self.client.write,
            self.metered.extend,
            relay.on_direction_end,
        )

    def feed(self, *, from_client: bool, data: bytes) -> None:
        """Have one side send something."""
        (self.relay.on_client_data if from_client else self.relay.on_upstream_data)(data)

    def wait_for_the_end(self) -> None:
        """Let the time pass in which the sides agree to the end."""
        for _ in range(2):
            self.clock.advance(CLOSE_SECONDS + 1)

    def check_is_over(self) -> None:
        """The session has ended, once, and for both sides."""
        assert len(self.endings) == 1
        assert self.client.ends
        assert self.upstream.ends
        assert not self.budget.held
        assert not self.clock.getDelayedCalls()


@dataclass(frozen=True)
class SentFrame:
    """A frame, and how its bytes arrive."""

    data: bytes
    is_control: bool
    cuts: tuple[int, ...] = ()
    is_joined: bool = False
    """Its first bytes arrive with the frame before."""


@dataclass(frozen=True)
class Fragment:
    """A part of a message, and what is sent before it."""

    payload: str
    controls: tuple[bytes, ...]
    """The payloads of pings; those of an odd length are pongs."""
    cuts: tuple[int, ...]
    is_joined: bool


@dataclass(frozen=True)
class DrawnMessage:
    """A message in fragments."""

    is_text: bool
    fragments: tuple[Fragment, ...]

    @property
    def payload(self) -> bytes:
        """All of it."""
        return "".join(one.payload for one in self.fragments).encode()


CUTS = st.lists(st.one_of(st.integers(1, 8), st.integers(1, 200)), max_size=3).map(tuple)


def fragments(payloads: st.SearchStrategy[str]) -> st.SearchStrategy[Fragment]:
    """Draw fragments of these payloads."""
    controls = st.lists(st.sampled_from([b"", b"x", b"ping", b"x" * 125]), max_size=2).map(tuple)
    return st.builds(Fragment, payloads, controls, CUTS, st.booleans())


def messages(*, max_size: int = 3) -> st.SearchStrategy[tuple[DrawnMessage, ...]]:
    """Draw messages of any content."""
    payloads = st.sampled_from(["", "é", "{", '"usage"', "x" * 125, "x" * 126, "y" * 300, "z" * 66_000])
    parts = st.lists(fragments(payloads), min_size=1, max_size=3).map(tuple)
    return st.lists(st.builds(DrawnMessage, st.booleans(), parts), max_size=max_size).map(tuple)


def send(maker: FrameProtocol, drawn: Sequence[DrawnMessage]) -> list[SentFrame]:
    """Return the frames of messages, as ``wsproto`` makes them."""
    sent = []
    for message in drawn:
        for number, one in enumerate(message.fragments):
            for payload in one.controls:
                control = maker.pong(payload) if len(payload) % 2 else maker.ping(payload)
                sent.append(SentFrame(bytes(control), is_control=True, is_joined=one.is_joined))
            is_last = number == len(message.fragments) - 1
            content = one.payload if message.is_text else one.payload.encode()
            data = bytes(maker.send_data(content, fin=is_last))
            sent.append(SentFrame(data, is_control=False, cuts=one.cuts, is_joined=one.is_joined))
    return sent


def pieces(frames: Sequence[SentFrame]) -> list[bytes]:
    """Return what arrives at once."""
    found: list[bytes] = []
    for frame in frames:
        places = sorted({0, len(frame.data), *(cut for cut in frame.cuts if cut < len(frame.data))})
        first, *others = (frame.data[start:end] for start, end in pairwise(places))
        if frame.is_joined and found:
            found[-1] += first
        else:
            found.append(first)
        found += others
    return found


def interleave(
    order: Sequence[bool], client: Sequence[bytes], upstream: Sequence[bytes]
) -> list[tuple[bool, bytes]]:
    """Return what is sent by whom (true: the client), in an order that may name one side too often."""
    left = {True: list(client), False: list(upstream)}
    found = [(one, left[one].pop(0)) for one in order if left[one]]
    return found + [(side, data) for side in (True, False) for data in left[side]]


def read(received: bytes, *, is_client: bool) -> tuple[list[Frame], str | None]:
    """Return the frames that a side has received, and what of them, but for their content, is illegal."""
    reader = FrameProtocol(is_client, [])
    found: list[Frame] = []
    try:
        reader.receive_bytes(bytes(received))
        found.extend(reader.received_frames())
    except ParseFailed as error:
        if error.code is not CloseReason.INVALID_FRAME_PAYLOAD_DATA:
            return found, str(error)
    return found, None


def data_messages(frames: Sequence[Frame]) -> list[bytes]:
    """Return the payloads of the messages that are whole."""
    found, parts = [], bytearray()
    for frame in frames:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION):
            payload = frame.payload
            parts += payload.encode() if isinstance(payload, str) else bytes(payload)  # type: ignore[arg-type]  # as wsproto has it
            if frame.message_finished:
                found.append(bytes(parts))
                parts.clear()
    return found
