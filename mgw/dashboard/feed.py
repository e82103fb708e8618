"""``GET /v1/dashboard/events``: live events, as server-sent events (WHATWG HTML, 9.2).

::

    usage sink, log, sessions, health  ->  ring of events  -- every 50 ms -->  readers

Whoever reads may do so for as long as a new request of the same kind would be let in: that is asked again
when a session or the configuration ends a right, and now and then.

A reader is a number: how far it has read in the ring that all share.  While its connection is full nothing is
written, and when it goes on and the ring has moved past it, it gets ``event: reset`` and what is still held.

What a response begins with, and each comment that keeps an idle one open, names the last event that was
looked at, so that a reader of a few rare kinds that connects again has lost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from mgw.dashboard.event_ring import ALL_KINDS, EventKind, EventRing
from mgw.nouns.errors import GatewayError, Reason
from mgw.usage.event import SettledExchange

if TYPE_CHECKING:
    from twisted.web.server import Request  # no more than its type: see mgw.dashboard.recorder

MAX_READERS: Final = 100
DELIVERY_SECONDS: Final = 0.05
"""How long an event waits for others."""
SLICE_SECONDS: Final = 0.002
"""How long the readers may hold the reactor before others have their turn."""
MAX_WRITE_BYTES: Final = 32 * 1024
"""What one reader is given at once, but for the last event of it."""
COMMENT_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 5.0
HEADERS: Final = (
    ("Content-Type", "text/event-stream"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),  # nginx would gather a response
)
_OPENING: Final = b"retry: 2000\nid: %b\n\n"
_RESET: Final = b"event: reset\ndata: {}\n\n"
_COMMENT: Final = b":\nid: %b\n\n"
_log: Final = Logger()


def parse_kinds(text: str | None) -> frozenset[EventKind]:
    """Return the kinds that a query names, separated by commas; all where it names none.

    :raises GatewayError: ``MALFORMED``.
    """
    words = [] if text is None else [word for word in (part.strip() for part in text.split(",")) if word]
    known = {kind.value: kind for kind in EventKind}
    for word in words:
        if word not in known:
            message = (
                f"kinds: unknown value {word[:64]!r}; expected a comma-separated list of {', '.join(known)}"
            )
            raise GatewayError(Reason.MALFORMED, message, param="kinds")
    return frozenset(known[word] for word in words) or ALL_KINDS


def _admits_all(request: Request) -> bool:  # noqa: ARG001  the interface's
    return True


def _has_no_end(request: Request) -> float | None:  # noqa: ARG001  the interface's
    return None


def _leave(done: Deferred[None]) -> None:
    """The client has left, which is how most responses end: an error would leave its frames in cycles."""
    done.callback(None)


@implementer(IPushProducer)
class _Reader:
    """One client that reads."""

    __slots__ = ("_feed", "_request", "behind", "done", "is_complete", "kinds", "limit", "paused")

    def __init__(self, feed: Feed, request: Request, kinds: frozenset[EventKind], behind: int) -> None:
        self._feed: Feed | None = feed
        self._request: Request | None = request
        self.kinds = kinds
        self.behind = behind
        """The number up to which it has everything; below 0: it has nothing of this process."""
        self.limit: IDelayedCall | None = None
        """Looks whether the client may read on, when its session ends."""
        self.paused = False
        self.is_complete = False
        """Whether the gateway ends the response."""
        self.done: Deferred[None] = Deferred(_leave)
        """Fires at the end."""

    def pauseProducing(self) -> None:
        """The connection is full."""
        self.paused = True

    def resumeProducing(self) -> None:
        """The connection takes more."""
        self.paused = False
        if self._feed is not None:
            self._feed.deliver_soon()

    def stopProducing(self) -> None:
        """The client has left."""
        self.end(complete=False)

    def end(self, *, complete: bool) -> None:
        """Write nothing more."""
        self._feed = self._request = None
        if not self.done.called:
            self.is_complete = complete
            self.done.callback(None)

    def end_unless(self, admits: Callable[[Request], bool]) -> None:
        """End the response of a client that would not be let in now."""
        if self._request is not None and not admits(self._request):
            self.end(complete=True)

    def write(self, data: bytes) -> None:
        """Write to the client."""
        if self._request is not None:
            self._request.write(data)

    def is_behind(self, ring: EventRing) -> bool:
        """Whether there is something to write, and room for it."""
        return self.behind < ring.last and not self.paused and self._request is not None

    def send(self, ring: EventRing) -> bool:
        """Write what came since the last time, as much as one write takes; return whether there is more."""
        if self.paused or self._request is None:
            return False
        lost = not ring.has_all_behind(self.behind)
        text, self.behind = ring.read(self.behind, self.kinds, MAX_WRITE_BYTES)
        if lost or text:
            self.write(_RESET + text if lost else text)
        return self.is_behind(ring)


@dataclass(slots=True, eq=False, repr=False)
class Feed:
    """The events of a process, and those who read them.

    :param admits: whether a request would be let in now.
    :param seconds_left: how long it would be if nothing changes; ``None``: for ever.
    """

    clock: IReactorTime
    ring: EventRing
    max_readers: int = MAX_READERS
    admits: Callable[[Request], bool] = _admits_all
    seconds_left: Callable[[Request], float | None] = _has_no_end
    _readers: dict[_Reader, None] = field(default_factory=dict)
    _round: list[_Reader] = field(default_factory=list)
    """The readers who still have their turn in this round."""
    _delivery: IDelayedCall | None = None
    _comment: IDelayedCall | None = None
    _is_closed: bool = False

    @property
    def readers(self) -> int:
        """How many read now."""
        return len(self._readers)

    def record_rows(self, rows: Sequence[SettledExchange]) -> None:
        """Tell the usage events of exchanges."""
        self.ring.add_rows(rows)
        if self._readers:
            self.deliver_soon()

    def publish(self, kind: EventKind, value: Struct) -> None:
        """Tell another event."""
        self.ring.add(kind, value)
        if self._readers:
            self.deliver_soon()

    async def serve(self, request: Request, kinds: frozenset[EventKind], last_id: str | None) -> None:
        """Respond with events until the client leaves, may read no more, or the gateway stops.

        Cancelling it is how the client is said to have left.

        :param last_id: the header ``Last-Event-ID``: what came behind that event is told first; without it
            the response begins with what happens from now on.
        :raises GatewayError: ``OVERLOADED`` with too many readers, ``DRAINING`` when the gateway stops.
        """
        self._check_room()
        for name, value in HEADERS:
            request.setHeader(name, value)
        if request.method == b"HEAD":
            request.finish()
            return
        ring = self.ring
        behind = ring.last if last_id is None else ring.number_of(last_id)
        reader = _Reader(self, request, kinds, -1 if behind is None else behind)
        self._readers[reader] = None
        seconds = self.seconds_left(request)
        if seconds is not None:
            reader.limit = self.clock.callLater(max(0.0, seconds), self.end_refused)
        self._comment = self._comment or self.clock.callLater(COMMENT_SECONDS, self._write_comments)
        try:
            request.registerProducer(reader, True)  # noqa: FBT003  Twisted's
            reader.write(_OPENING % ring.id_of(max(reader.behind, 0)))
            self.deliver_soon()
            await reader.done
        finally:
            self._remove(reader)
            if request.channel is not None:  # Twisted takes it from a request whose client has left
                request.unregisterProducer()
        if reader.is_complete:
            request.finish()

    def end_refused(self) -> None:
        """End the responses to clients that would not be let in now."""
        for reader in list(self._readers):
            reader.end_unless(self.admits)

    def close(self) -> None:
        """End all responses, and begin no other: the gateway stops."""
        self._is_closed = True
        for reader in list(self._readers):
            reader.end(complete=True)

    def deliver_soon(self) -> None:
        """Have the readers get what is new."""
        if self._delivery is None:
            self._delivery = self.clock.callLater(DELIVERY_SECONDS, self._deliver)

    def _check_room(self) -> None:
        if self._is_closed:
            message = "the gateway is shutting down; try another instance"
            raise GatewayError(Reason.DRAINING, message, retry_after=RETRY_SECONDS)
        if len(self._readers) >= self.max_readers:
            message = f"{self.max_readers} clients are already reading events; try again"
            raise GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_SECONDS)

    def _deliver(self) -> None:
        """Give the readers of a round what is new, as many as a slice of time allows for.

        What happens during a round asks for no delivery, and some have had their turn by then: so its end
        looks for those who lack something, whatever it was that happened.
        """
        self._round = self._round or list(self._readers)
        until = self.clock.seconds() + SLICE_SECONDS
        while self._round:
            reader = self._round.pop()
            if self._send(reader):
                self._round.insert(0, reader)  # behind all others
            if self.clock.seconds() >= until:
                break
        self._delivery = None
        if self._round:
            self._delivery = self.clock.callLater(0, self._deliver)
        elif any(reader.is_behind(self.ring) for reader in self._readers):
            self.deliver_soon()

    def _send(self, reader: _Reader) -> bool:
        try:
            return reader.send(self.ring)
        except Exception:  # a bug: this one is ended, as it would fail for ever
            _log.failure("internal error: an event could not be sent to a reader")
            reader.end(complete=True)
            return False

    def _write_comments(self) -> None:
        self._comment = self.clock.callLater(COMMENT_SECONDS, self._write_comments)
        self.end_refused()
        for reader in list(self._readers):
            if not reader.paused and reader.behind >= 0:
                reader.write(_COMMENT % self.ring.id_of(reader.behind))

    def _remove(self, reader: _Reader) -> None:
        reader.end(complete=False)
        self._readers.pop(reader, None)
        if reader in self._round:
            self._round.remove(reader)
        timers = [reader.limit]
        if not self._readers:
            timers += [self._delivery, self._comment]
            self._delivery = self._comment = None
        for timer in timers:
            if timer is not None and timer.active():  # what it does may be what ends the reader
                timer.cancel()
