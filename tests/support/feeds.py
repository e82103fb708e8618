"""The feed of the dashboard in memory: a feed on a fake clock, and clients that read from it."""

from __future__ import annotations

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from mgw.dashboard.event_ring import ALL_KINDS, EventKind, EventRing
from mgw.dashboard.feed import DELIVERY_SECONDS, Feed
from mgw.nouns.errors import GatewayError
from mgw.usage.event import SettledExchange
from mgw.web.gateway_request import GatewayRequest
from tests.support.channels import Line, RecordedRequest, RecordingHandler, get
from tests.support.usage import exchange

START = "a1"


class Note(Struct, frozen=True):
    """What an event says."""

    text: str


class Event(Struct, frozen=True):
    """An event as a client reads it."""

    id: str
    kind: str
    data: str


def make_feed(clock: Clock, max_events: int = 1000, max_readers: int = 100) -> Feed:
    """Return a feed of which nobody reads yet."""
    return Feed(clock, EventRing(START, max_events), max_readers)


def rows(first: int, count: int) -> list[SettledExchange]:
    """Return exchanges with numbers as their ids."""
    return [exchange(request_id=f"req_{number}") for number in range(first, first + count)]


class FeedClient:
    """A client whose connection is in memory."""

    def __init__(
        self,
        feed: Feed,
        clock: Clock,
        kinds: frozenset[EventKind] = ALL_KINDS,
        last_id: str | None = None,
        method: str = "GET",
    ) -> None:
        self.clock = clock
        self.results: list[object] = []
        self._feed, self._kinds, self._last_id = feed, kinds, last_id
        self.line = Line(RecordingHandler(self._serve))
        self.line.send(get("/v1/dashboard/events", method=method))

    def _serve(self, recorded: RecordedRequest) -> None:
        request = GatewayRequest(recorded.channel, recorded.head, b"")
        serving = self._feed.serve(request, self._kinds, self._last_id)
        self._serving = Deferred.fromCoroutine(serving)
        _ = self._serving.addBoth(self.results.append)

    @property
    def error(self) -> GatewayError:
        """The refusal."""
        (failure,) = self.results
        assert isinstance(failure, Failure)
        assert isinstance(failure.value, GatewayError)
        return failure.value

    def leave(self) -> None:
        """Close the connection, of which the server tells the endpoint by cancelling it."""
        self.line.leave()
        self._serving.cancel()
        assert self.results == [None]

    def raw(self) -> bytes:
        """Return what has come since the last time, with the head and without the marks of chunks."""
        data = self.line.take()
        head, rest = b"", data
        if data.startswith(b"HTTP/"):
            head, _, rest = data.partition(b"\r\n\r\n")
        body = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size, 16)
            body, rest = body + rest[:length], rest[length + 2 :]
        return head + b"\r\n\r\n" + body if head else body

    def read(self) -> bytes:
        """Return the body that has come, once what waits was delivered."""
        self.clock.advance(DELIVERY_SECONDS)
        while any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls()):
            self.clock.advance(0)
        return self.raw().rpartition(b"\r\n\r\n")[2]

    def events(self) -> list[Event]:
        """Return the events that have come."""
        return parse_events(self.read())


def parse_events(body: bytes) -> list[Event]:
    """Return the events of a body; blocks without data are none."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "data" in fields:
            found.append(Event(fields.get("id", ""), fields.get("event", ""), fields["data"]))
    return found
