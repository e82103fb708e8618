"""What a client may take of time and room, and what is left behind when it has gone."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from mgw.web.client_transport import CLOSE_SECONDS, DRAIN_SECONDS, LINGER_SECONDS
from mgw.web.listener import STOP_SECONDS, ChannelFactory
from tests.support.channels import LIMITS, Line, RecordingHandler, answer, channel_of, get, post

CLOSE = "Connection: close"


def silent() -> Line:
    """Return a line whose requests answer nothing by themselves."""
    return Line(RecordingHandler())


def test_a_connection_on_which_nothing_comes_is_closed_without_a_word() -> None:
    line = silent()
    line.clock.advance(10)
    assert line.closing
    assert line.take() == b""
    assert line.handler.refusals == []


def test_a_first_head_has_its_time_from_the_connection() -> None:
    line = silent()
    line.clock.advance(6)
    line.send(get("/slow")[:-1])
    line.clock.advance(3)
    assert line.handler.refusals == []
    line.clock.advance(1)
    assert line.handler.refusals == [(408, b"/slow")]
    assert line.take().endswith(b"stopped arriving")
    line.clock.advance(LINGER_SECONDS)
    assert line.closing


def test_a_later_head_has_its_time_from_its_first_byte() -> None:
    line = Line()
    line.send(get())
    line.clock.advance(80)
    line.send(b"G")
    for byte in get()[1:8]:
        line.clock.advance(1)
        line.send(bytes([byte]))
    line.clock.advance(2)
    assert line.handler.refusals == []
    line.clock.advance(1)
    assert line.handler.refusals == [(408, None)]


def test_empty_lines_buy_no_time() -> None:
    line = Line()
    line.send(get())
    for _ in range(9):
        line.clock.advance(10)
        line.send(b"\r\n")
    assert line.closing


def test_a_kept_connection_without_a_request_is_closed() -> None:
    line = Line()
    line.send(get())
    line.clock.advance(89)
    assert not line.closing
    line.clock.advance(1)
    assert line.closing
    assert line.handler.refusals == []


def test_a_body_that_stops_is_too_slow() -> None:
    line = silent()
    line.send(post(b"0123456789")[:-9])
    line.clock.advance(59)
    line.send(b"1")
    line.clock.advance(59)
    assert line.requests[0].events == ["body"]
    line.clock.advance(1)
    assert line.requests[0].events == ["body", "too slow"]
    assert line.take() == answer(b"too slow", 408, CLOSE)
    line.clock.advance(LINGER_SECONDS)
    assert line.closing


def test_a_body_that_we_paused_is_not_too_slow() -> None:
    line = silent()
    line.send(post(b"0123456789")[:-9])
    line.channel.pause_body()
    line.clock.advance(1000)
    assert line.requests[0].events == ["body"]
    line.channel.resume_body()
    line.clock.advance(60)
    assert line.requests[0].events == ["body", "too slow"]


def test_an_answer_may_take_any_time() -> None:
    line = silent()
    line.send(post(b"body"))
    line.clock.advance(100_000)
    line.requests[0].say(b"late")
    assert line.take() == answer(b"late")


def test_a_head_that_is_too_large_is_refused() -> None:
    line = silent()
    line.send(get("/large")[:-2] + b"X: " + b"x" * LIMITS.max_head_bytes)
    assert line.handler.refusals == [(431, b"/large")]
    assert line.requests == []


def test_a_request_line_that_is_too_large_is_refused() -> None:
    line = silent()
    line.send(b"GET /" + b"x" * LIMITS.max_head_bytes)
    assert line.handler.refusals == [(431, None)]


def test_a_head_of_the_greatest_size_is_served() -> None:
    line = silent()
    head = get("/")[:-2] + b"X: "
    line.send(head + b"x" * (LIMITS.max_head_bytes - len(head) - 4) + b"\r\n\r\n")
    assert len(line.requests) == 1


@pytest.mark.parametrize(("lines", "served"), [(255, True), (256, False)], ids=["256", "257"])
def test_a_head_has_a_bounded_number_of_lines(lines: int, served: bool) -> None:
    line = silent()
    line.send(get("/", *[f"X-{number}: 1" for number in range(lines)]))
    assert (len(line.requests), len(line.handler.refusals)) == (int(served), int(not served))


def test_a_stalled_client_is_cut() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [])
    line.channel.pauseProducing()
    line.clock.pump([15] * 20)
    assert not line.aborted
    line.clock.pump([15])
    assert line.aborted


def test_a_client_that_stalls_after_its_answer_is_cut() -> None:
    line = Line()
    line.send(get("/", CLOSE))
    assert line.closing
    line.clock.pump([15] * 22)
    assert line.aborted


def test_a_slow_client_that_moves_is_not_cut() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [])
    for _ in range(10):
        line.channel.pauseProducing()
        line.clock.pump([15] * 15)
        line.channel.resumeProducing()
    assert not line.aborted


def test_a_client_is_never_cut_too_early() -> None:
    line = silent()
    line.send(get())
    line.clock.pump([15] * 10)
    line.clock.advance(14.9)
    line.channel.pauseProducing()
    line.clock.pump([1] * 299)
    assert not line.aborted


def test_a_client_that_has_nothing_to_take_is_not_cut() -> None:
    line = silent()
    line.send(get())
    line.clock.pump([15] * 1000)
    assert not line.aborted


def test_a_short_limit_is_looked_at_often() -> None:
    line = Line(RecordingHandler(), msgspec.structs.replace(LIMITS, write_stall=4))
    line.send(get())
    line.channel.pauseProducing()
    line.clock.pump([1] * 5)
    assert line.aborted


def test_many_stalled_clients_are_cut_a_few_at_a_time() -> None:
    clock, transports = Clock(), list[StringTransport]()
    factory = ChannelFactory(RecordingHandler(), clock, msgspec.structs.replace(LIMITS, write_stall=4))
    for _ in range(500):
        channel, transport = channel_of(factory), StringTransport()
        channel.makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted's
        channel.dataReceived(get())
        channel.pauseProducing()
        transports.append(transport)
    cut = [0]
    while clock.seconds() < 5.5:
        clock.advance(0.01)
        cut.append(sum(transport.disconnected for transport in transports))
    assert cut[-1] == 500
    assert max(later - earlier for earlier, later in pairwise(cut)) <= 100


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", get()[:-1], get(), post(b"body")[:-1], post(b"body"), b"nonsense\r\n\r\n", get("/", CLOSE)],
    ids=[
        "nothing",
        "a byte",
        "half a head",
        "a request",
        "half a body",
        "a body",
        "nonsense",
        "a last request",
    ],
)
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
def test_a_client_that_has_gone_leaves_no_timer(sent: bytes, answered: bool) -> None:
    line = Line() if answered else silent()
    line.send(sent)
    line.leave()
    assert line.timers() == 0
    assert line.factory.channels == 0


def test_draining_closes_idle_connections() -> None:
    fresh, kept, busy = Line(), Line(), silent()
    kept.send(get())
    busy.send(get())
    for line in (fresh, kept, busy):
        line.factory.drain()
        line.clock.advance(DRAIN_SECONDS)
    assert (fresh.closing, kept.closing, busy.closing) == (True, True, False)


def test_a_request_that_is_on_its_way_when_the_drain_begins_is_answered() -> None:
    line = Line()
    line.send(get("/one"))
    line.take()
    line.factory.drain()
    line.clock.advance(DRAIN_SECONDS / 2)
    line.factory.drain()
    line.send(get("/two"))
    assert line.take() == answer(b"GET /two ", 200, CLOSE)
    assert line.closing


def test_the_moment_for_last_requests_is_none_without_connections_and_can_be_cut_short() -> None:
    line = Line()
    moment = line.factory.last_requests()
    assert not moment.called
    line.clock.advance(DRAIN_SECONDS)
    assert moment.called
    line.factory.last_requests().addErrback(lambda failure: failure.trap(CancelledError) and None).cancel()
    line.leave()
    assert line.factory.last_requests().called
    assert line.timers() == 0


def test_draining_ends_busy_connections_behind_their_answers() -> None:
    line = silent()
    line.send(get("/one") + get("/two"))
    line.factory.drain()
    line.requests[0].say(b"last")
    assert line.take() == answer(b"last", 200, CLOSE)
    assert line.closing
    assert len(line.requests) == 1


def test_draining_ends_a_connection_whose_answer_had_begun() -> None:
    line = silent()
    line.send(get())
    line.channel.start(200, b"OK", [])
    line.factory.drain()
    line.channel.finish()
    assert line.closing


def test_stopping_waits_for_the_last_connection() -> None:
    line = silent()
    line.send(get())
    stopped = line.factory.stopped()
    line.requests[0].say(b"")
    assert not stopped.called
    line.leave()
    assert stopped.called
    assert line.timers() == 0


def test_stopping_is_done_after_the_last_visit_has_heard_of_it() -> None:
    line = silent()
    heard: list[str] = []
    line.send(get())
    stopped = line.factory.stopped().addCallback(lambda _: heard.extend(line.requests[0].events))
    line.leave()
    assert stopped.called
    assert heard == ["ended", "disconnected"]


def test_stopping_breaks_what_takes_too_long() -> None:
    line = silent()
    line.send(get())
    stopped = line.factory.stopped()
    line.clock.advance(STOP_SECONDS)
    assert line.aborted
    line.leave()
    assert stopped.called
    assert line.requests[0].events == ["ended"]


def test_stopping_without_connections_is_done_at_once() -> None:
    line = Line()
    line.leave()
    assert line.factory.stopped().called


def test_a_connection_that_the_client_does_not_agree_to_end_is_broken() -> None:
    line = Line()
    line.send(get("/", CLOSE))
    line.clock.pump([CLOSE_SECONDS] * 25)
    assert line.aborted
