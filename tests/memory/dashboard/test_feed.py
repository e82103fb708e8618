"""The feed: who reads gets what happens, at its own pace, and nobody waits for it."""

from __future__ import annotations

import gc
import json
import weakref
from collections.abc import Callable

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from mgw.dashboard.event_ring import ALL_KINDS, EventKind
from mgw.dashboard.feed import (
    COMMENT_SECONDS,
    DELIVERY_SECONDS,
    MAX_WRITE_BYTES,
    SLICE_SECONDS,
    Feed,
    parse_kinds,
)
from mgw.nouns.errors import GatewayError, Reason
from tests.support.feeds import START, FeedClient, Note, make_feed, rows

OPENING = f"retry: 2000\nid: {START}-0\n\n".encode()
RESET = "event: reset\ndata: {}\n\n"


def request_ids(client: FeedClient) -> list[str]:
    """Return what has come, and ``reset`` where something is lost."""
    return [
        "reset" if event.kind == "reset" else json.loads(event.data)["request_id"]
        for event in client.events()
    ]


def names(first: int, count: int) -> list[str]:
    return [f"req_{number}" for number in range(first, first + count)]


def test_a_response_begins_at_once_with_the_time_to_wait_and_where_it_begins() -> None:
    clock = Clock()
    client = FeedClient(make_feed(clock), clock)
    head, _, body = client.raw().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    for line in (b"Content-Type: text/event-stream", b"Cache-Control: no-store", b"X-Accel-Buffering: no"):
        assert line in head
    assert body == OPENING


def test_events_come_with_their_ids_and_kinds() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock)
    feed.record_rows(rows(1, 1))
    feed.publish(EventKind.LOG, Note("a line\nand another"))
    usage, log = client.events()
    assert (usage.id, usage.kind, json.loads(usage.data)["request_id"]) == (f"{START}-1", "usage", "req_1")
    assert (log.id, log.kind, log.data) == (f"{START}-2", "log", '{"text":"a line\\nand another"}')


def test_without_an_id_the_response_begins_with_what_happens_from_now_on() -> None:
    clock = Clock()
    feed = make_feed(clock)
    feed.record_rows(rows(1, 3))
    client = FeedClient(feed, clock)
    feed.record_rows(rows(4, 1))
    assert request_ids(client) == names(4, 1)


@pytest.mark.parametrize(
    ("last_id", "expected"),
    [
        (f"{START}-4", names(5, 2)),
        (f"{START}-6", []),
        (f"{START}-1", names(2, 5)),
        (f"{START}-0", ["reset", *names(2, 5)]),
        (f"{START}-7", ["reset", *names(2, 5)]),
        ("b2-4", ["reset", *names(2, 5)]),
        ("nonsense", ["reset", *names(2, 5)]),
    ],
    ids=["held", "the newest", "the oldest held", "no longer held", "never given", "another start", "no id"],
)
def test_an_id_resumes_what_is_held_and_says_where_something_is_missing(
    last_id: str, expected: list[str]
) -> None:
    clock = Clock()
    feed = make_feed(clock, max_events=5)
    feed.record_rows(rows(1, 6))
    assert request_ids(FeedClient(feed, clock, last_id=last_id)) == expected


def test_another_start_says_so_even_where_nothing_has_happened() -> None:
    clock = Clock()
    assert request_ids(FeedClient(make_feed(clock), clock, last_id="b2-4")) == ["reset"]


def test_only_the_kinds_that_are_wanted_come() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock, kinds=frozenset({EventKind.LOG}))
    feed.record_rows(rows(1, 3))
    feed.publish(EventKind.LOG, Note("a line"))
    assert [event.id for event in client.events()] == [f"{START}-4"]


def test_a_comment_keeps_an_idle_response_open_and_says_how_far_it_is() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock, kinds=frozenset({EventKind.LOG}))
    client.read()
    feed.record_rows(rows(1, 100))
    clock.advance(1)
    assert client.raw() == b""
    clock.advance(COMMENT_SECONDS - 1)
    assert client.raw() == f":\nid: {START}-100\n\n".encode()
    clock.advance(COMMENT_SECONDS)
    assert client.raw().startswith(b":\n")


def test_while_the_connection_is_full_nothing_is_written() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock)
    client.read()
    client.line.channel.pauseProducing()
    feed.record_rows(rows(1, 10))
    clock.pump([COMMENT_SECONDS] * 3)
    assert client.raw() == b""
    client.line.channel.resumeProducing()
    assert request_ids(client) == names(1, 10)


def test_a_reader_that_is_too_slow_loses_events_and_is_told() -> None:
    clock = Clock()
    feed = make_feed(clock, max_events=5)
    client = FeedClient(feed, clock)
    client.read()
    client.line.channel.pauseProducing()
    feed.record_rows(rows(1, 100))
    client.line.channel.resumeProducing()
    assert request_ids(client) == ["reset", *names(96, 5)]
    feed.record_rows(rows(101, 1))
    assert request_ids(client) == names(101, 1)


def test_a_slow_reader_takes_nothing_from_the_others() -> None:
    clock = Clock()
    feed = make_feed(clock, max_events=5)
    slow, quick = FeedClient(feed, clock), FeedClient(feed, clock)
    slow.line.channel.pauseProducing()
    found = []
    for number in range(100):
        feed.record_rows(rows(number, 1))
        found += request_ids(quick)
    assert found == names(0, 100)


class OneByOne:
    """A clock on which a slice of a delivery is over when one reader has had its turn."""

    def __init__(self, clock: Clock) -> None:
        self.callLater = clock.callLater
        self._seconds = 0.0

    def seconds(self) -> float:
        self._seconds += SLICE_SECONDS
        return self._seconds


def make_slow_feed(clock: Clock) -> Feed:
    """Return a feed that is written to one reader in each turn of the reactor."""
    feed = make_feed(clock)
    feed.clock = OneByOne(clock)  # type: ignore[assignment]  # it has what a feed asks for
    return feed


def deliveries(clock: Clock, feed: Feed) -> int:
    """Return how many timers there are for a delivery."""
    return [getattr(call, "func", None) for call in clock.getDelayedCalls()].count(feed._deliver)


BETWEEN: dict[str, Callable[[Clock, Feed, FeedClient], object]] = {
    "an event": lambda _, feed, __: feed.record_rows(rows(2, 1)),
    "an event of another kind": lambda _, feed, __: feed.publish(EventKind.LOG, Note("a line")),
    "a connection that has room again": lambda _, __, full: full.line.channel.resumeProducing(),
    "a reader that comes with an id": lambda clock, feed, _: FeedClient(feed, clock, last_id=f"{START}-0"),
}


@pytest.mark.parametrize("happen", BETWEEN.values(), ids=BETWEEN)
def test_what_happens_between_two_slices_waits_for_no_other_event(
    happen: Callable[[Clock, Feed, FeedClient], object],
) -> None:
    clock = Clock()
    feed = make_slow_feed(clock)
    FeedClient(feed, clock)
    first, full = FeedClient(feed, clock), FeedClient(feed, clock)  # have their turns first
    first.read()
    full.line.channel.pauseProducing()
    feed.record_rows(rows(1, 1))
    waiting: list[int] = []
    clock.callLater(DELIVERY_SECONDS, lambda: None)  # behind the slice of the one that is full
    clock.callLater(DELIVERY_SECONDS, lambda: clock.callLater(0, happen_now))

    def happen_now() -> None:
        waiting.append(len(feed._round))
        happen(clock, feed, full)

    clock.advance(DELIVERY_SECONDS)
    assert waiting == [1], "it was to happen in the middle of a round"
    clock.pump([DELIVERY_SECONDS] * 2)
    assert {reader.behind for reader in feed._readers if not reader.paused} == {feed.ring.last}
    assert deliveries(clock, feed) == 0


def test_an_event_that_comes_of_writing_others_is_told_and_leaves_no_second_timer() -> None:
    clock = Clock()
    feed = make_slow_feed(clock)
    clients = [FeedClient(feed, clock) for _ in range(3)]
    clients[0].read()
    request = next(reversed(feed._readers))._request
    assert request is not None
    write, timers = request.write, []

    def tell(data: bytes) -> None:
        write(data)  # type: ignore[no-untyped-call]  # Twisted's
        if feed.ring.last == 1:
            feed.publish(EventKind.LOG, Note("a line"))
            clock.callLater(0, lambda: timers.append(deliveries(clock, feed)))

    request.write = tell  # type: ignore[method-assign]
    feed.record_rows(rows(1, 1))
    clock.advance(DELIVERY_SECONDS)
    assert timers == [1]
    assert [[event.kind for event in client.events()] for client in clients] == [["usage", "log"]] * 3
    assert deliveries(clock, feed) == 0


def test_one_write_is_bounded_and_a_connection_that_fills_up_is_left_alone() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock)
    client.raw()
    writes: list[int] = []
    write: Callable[[bytes], None] = client.line.transport.write

    def fill(data: bytes) -> None:
        writes.append(len(data))
        write(data)
        client.line.channel.pauseProducing()

    client.line.transport.write = fill  # type: ignore[method-assign]
    client.line.channel._client.out._send = None
    client.line.channel._client.out.transport = client.line.transport
    feed.record_rows(rows(1, 1000))
    client.read()
    assert len(writes) == 1
    assert MAX_WRITE_BYTES <= writes[0] < MAX_WRITE_BYTES + 2000


def test_an_idle_reader_is_no_client_that_is_stuck_and_one_that_takes_nothing_is() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock)
    client.line.clock.pump([10.0] * 100)
    assert not client.line.closing
    assert not client.line.aborted
    client.line.channel.pauseProducing()
    client.line.clock.pump([10.0] * 40)
    assert client.line.aborted


def test_when_the_gateway_stops_the_responses_end_and_none_begins() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client, paused = FeedClient(feed, clock), FeedClient(feed, clock)
    paused.line.channel.pauseProducing()
    feed.close()
    assert client.line.take().endswith(b"0\r\n\r\n")
    assert client.results == paused.results == [None]
    assert (feed.readers, clock.getDelayedCalls()[3:]) == (0, [])
    assert FeedClient(feed, clock).error.reason is Reason.DRAINING


def test_one_client_too_many_is_refused_until_another_leaves() -> None:
    clock = Clock()
    feed = make_feed(clock, max_readers=2)
    first, _ = FeedClient(feed, clock), FeedClient(feed, clock)
    error = FeedClient(feed, clock).error
    assert (error.reason, error.retry_after) == (Reason.OVERLOADED, 5.0)
    first.leave()
    assert FeedClient(feed, clock).results == []
    assert feed.readers == 2


def test_head_has_no_body_and_no_reader() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock, method="HEAD")
    assert client.line.take().endswith(b"\r\n\r\n")
    assert (client.results, feed.readers) == ([None], 0)


def test_a_client_that_leaves_is_forgotten_at_once_and_leaves_no_timer() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock)
    feed.record_rows(rows(1, 1))
    client.leave()
    assert feed.readers == 0
    timers = [call for call in clock.getDelayedCalls() if call.func.__self__ is feed]  # type: ignore[attr-defined]
    assert timers == []


def test_what_a_client_leaves_behind_needs_no_collector() -> None:
    clock = Clock()
    feed = make_feed(clock)
    client = FeedClient(feed, clock)
    feed.record_rows(rows(1, 1))
    client.read()
    gone: list[object] = []
    (kept,) = [weakref.ref(reader.done) for reader in feed._readers]
    gc.collect()
    gc.disable()
    try:
        client.leave()
        gone.append(kept())
    finally:
        gc.enable()
    assert gone == [None]


def test_nobody_reads_and_nothing_waits() -> None:
    clock = Clock()
    feed = make_feed(clock)
    feed.record_rows(rows(1, 100))
    feed.publish(EventKind.LOG, Note("a line"))
    assert clock.getDelayedCalls() == []


def test_a_bug_ends_the_response_of_one_reader_alone() -> None:
    clock = Clock()
    feed = make_feed(clock)
    broken, sound = FeedClient(feed, clock), FeedClient(feed, clock)
    reader = next(iter(feed._readers))
    reader.behind = None  # type: ignore[assignment]  # a bug
    feed.record_rows(rows(1, 1))
    with capturedLogs() as logs:
        assert request_ids(sound) == names(1, 1)
    assert broken.results == [None]
    assert [log["log_namespace"] for log in logs] == ["mgw.dashboard.feed"]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (None, ALL_KINDS),
        ("", ALL_KINDS),
        ("usage", {EventKind.USAGE}),
        ("log, health,session,", {EventKind.LOG, EventKind.HEALTH, EventKind.SESSION}),
    ],
)
def test_kinds_are_named_with_commas(text: str | None, kinds: frozenset[EventKind]) -> None:
    assert parse_kinds(text) == kinds


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(GatewayError, match=r"'logs'.*usage, log, health, session") as refused:
        parse_kinds("usage,logs")
    assert (refused.value.reason, refused.value.param) == (Reason.MALFORMED, "kinds")
