"""The web server: who is refused where, and one event for each exchange whatever its end."""

from __future__ import annotations

import gc
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from mgw.exchange.body import RequestBody
from mgw.upstream.wires.wire import VENDOR
from mgw.usage.event import Outcome
from mgw.web.server_request import ServerRequest
from tests.support.channels import get, post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON, KEY, PATH, UNFINISHED, WHOLE, new_in_a_drain, too_slow
from tests.support.pipelines import ANSWER, CHAT, Pipeline, answered
from tests.support.web_servers import WebServerHarness, settled

pytestmark = pytest.mark.usefixtures("heads")

T = TypeVar("T")


CHUNKED = get(PATH, KEY, JSON, "Transfer-Encoding: chunked", method="POST")
STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n"
)


def whole(harness: WebServerHarness) -> None:
    harness.send(WHOLE)
    harness.connection.send(answered())


def too_large_as_announced(harness: WebServerHarness) -> None:
    harness.send(get(PATH, KEY, "Content-Length: 99999999", method="POST"))


def too_large_as_it_comes(harness: WebServerHarness) -> None:
    harness.send(CHUNKED + b"3000\r\n" + b" " * 0x3000 + b"\r\n")


def beyond_the_budget(harness: WebServerHarness) -> None:
    harness.server.budget.max_bytes = 10
    harness.send(WHOLE)


def broken_chunk(harness: WebServerHarness) -> None:
    harness.send(CHUNKED + b"zz\r\n")


def left_in_its_upload(harness: WebServerHarness) -> None:
    harness.send(UNFINISHED)
    harness.leave()


def left_while_waiting(harness: WebServerHarness) -> None:
    harness.send(WHOLE)
    harness.leave()


def left_while_reading(harness: WebServerHarness) -> None:
    harness.send(WHOLE)
    harness.connection.send(STREAM)
    harness.leave()


def no_model(harness: WebServerHarness) -> None:
    harness.send(post(b"{}", KEY, path=PATH))


def broken_upstream(harness: WebServerHarness) -> None:
    harness.send(WHOLE)
    harness.connection.send(STREAM)
    harness.connection.reset()


def refused_upstream(harness: WebServerHarness) -> None:
    harness.send(WHOLE)
    harness.connection.send(answered(status=b"429 Too Many Requests"))


def cut_in_its_upload(harness: WebServerHarness) -> None:
    harness.send(UNFINISHED)
    harness.server.abort_requests()


def cut_while_waiting(harness: WebServerHarness) -> None:
    harness.send(WHOLE)
    harness.server.abort_requests()


def cut_while_reading(harness: WebServerHarness) -> None:
    harness.send(WHOLE)
    harness.connection.send(STREAM)
    harness.server.abort_requests()


@pytest.mark.parametrize(
    ("happens", "outcome", "status", "error"),
    [
        (whole, Outcome.OK, 200, None),
        (too_large_as_announced, Outcome.REJECTED, 413, "request_too_large"),
        (too_large_as_it_comes, Outcome.REJECTED, 413, "request_too_large"),
        (beyond_the_budget, Outcome.REJECTED, 503, "overloaded"),
        (too_slow, Outcome.REJECTED, 408, "client_timeout"),
        (broken_chunk, Outcome.REJECTED, 400, "malformed"),
        (left_in_its_upload, Outcome.CLIENT_ABORT, 499, "client_abort"),
        (left_while_waiting, Outcome.CLIENT_ABORT, 499, "client_abort"),
        (left_while_reading, Outcome.CLIENT_ABORT, 499, "client_abort"),
        (no_model, Outcome.REJECTED, 400, "malformed"),
        (broken_upstream, Outcome.UPSTREAM_ERROR, 200, "truncated"),
        (refused_upstream, Outcome.UPSTREAM_ERROR, 429, "upstream_4xx"),
        (cut_in_its_upload, Outcome.REJECTED, 503, "draining"),
        (cut_while_waiting, Outcome.REJECTED, 503, "draining"),
        (cut_while_reading, Outcome.REJECTED, 200, "draining"),
        (new_in_a_drain, Outcome.REJECTED, 503, "draining"),
    ],
)
def test_every_end_of_an_exchange_leaves_one_event_one_line_and_nothing_held(
    happens: Callable[[WebServerHarness], None], outcome: Outcome, status: int, error: str | None
) -> None:
    harness = WebServerHarness(THREE_FAMILIES + "max_body_bytes: 8192\n")
    happens(harness)
    assert (harness.event.status, harness.event.http_status) == (outcome, status)
    assert harness.observer.lines == [("POST", PATH, status)]
    assert (harness.event.error, harness.observer.errors) == (error, [error])
    assert harness.observer.ids == [harness.event.request_id]
    assert settled(harness) == (0, 0, 0)
    if outcome is not Outcome.CLIENT_ABORT:
        assert harness.status() == status


@pytest.mark.parametrize(
    ("data", "status", "rejections"),
    [
        (post(b"{}", KEY, path="/v1/nothing"), 404, 0),
        (get(PATH, KEY, method="PUT"), 405, 0),
        (post(b"{}", path=PATH), 401, 1),
        (post(b"{}", "x-api-key: other", path=PATH), 401, 1),
        (get("/metrics"), 401, 1),
        (get("/v1/models", KEY), 200, 0),
        (get("/healthz"), 200, 0),
    ],
)
def test_what_is_no_exchange_leaves_a_line_and_no_event(data: bytes, status: int, rejections: int) -> None:
    harness = WebServerHarness()
    harness.send(data)
    assert harness.status() == status
    assert not harness.observer.events
    assert [line[2] for line in harness.observer.lines] == [status]
    assert harness.observer.rejections == rejections
    assert settled(harness) == (0, 0, 0)


def test_a_wrong_key_is_told_before_the_body_is_asked_for_or_its_size_looked_at() -> None:
    harness = WebServerHarness()
    harness.send(get(PATH, "Content-Length: 99999999999", "Expect: 100-continue", method="POST"))
    assert harness.status() == 401
    assert b"100 Continue" not in harness.received()


def test_a_right_key_lets_the_body_come() -> None:
    harness = WebServerHarness()
    harness.send(get(PATH, KEY, "Content-Length: 20", "Expect: 100-continue", method="POST"))
    assert harness.received() == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_body_over_the_limit_is_refused_before_it_is_asked_for() -> None:
    harness = WebServerHarness(THREE_FAMILIES + "max_body_bytes: 10\n")
    harness.send(get(PATH, KEY, "Content-Length: 20", "Expect: 100-continue", method="POST"))
    assert harness.status() == 413


def test_an_open_route_needs_no_key_and_is_answered_in_a_drain() -> None:
    for path, status in (("/healthz", 200), ("/readyz", 503), ("/", 200)):
        harness = WebServerHarness()
        harness.server.draining = True
        harness.send(get(path))
        assert harness.status() == status


def test_a_request_keeps_the_generation_that_it_began_with() -> None:
    harness, after = WebServerHarness(), Pipeline(THREE_FAMILIES.replace("main/gpt-b", "main/gpt-new"))
    harness.send(UNFINISHED)
    harness.server.use(after.generation)
    harness.send(WHOLE[len(UNFINISHED) :])
    assert b'"gpt-b"' in harness.connection.received
    assert not harness.connection.closing
    harness.connection.send(answered())
    assert harness.received().endswith(ANSWER)
    assert harness.connection.closing


def test_the_next_request_on_a_connection_takes_the_new_generation() -> None:
    harness, after = WebServerHarness(), Pipeline(THREE_FAMILIES.replace("main/gpt-b", "main/gpt-new"))
    harness.send(WHOLE)
    harness.connection.send(answered())
    harness.server.use(after.generation)
    harness.send(get("/v1/models", "x-api-key: whatever"))
    assert b"main/gpt-new" in harness.received()


def test_idleness_is_told_when_the_last_visit_ends() -> None:
    harness, told = WebServerHarness(), []
    harness.server.on_idle = lambda: told.append(harness.server.in_flight)
    harness.send(WHOLE)
    assert told == []
    harness.connection.send(answered())
    assert told == [0]


def test_a_cut_request_lets_go_of_its_provider() -> None:
    harness = WebServerHarness()
    harness.send(WHOLE)
    harness.server.abort_requests()
    assert harness.connection.aborted
    assert harness.body()["error"]["code"] == "draining"


def test_a_cut_answer_has_no_clean_end() -> None:
    harness = WebServerHarness()
    harness.send(WHOLE)
    harness.connection.send(STREAM)
    harness.server.abort_requests()
    assert not harness.received().endswith(b"0\r\n\r\n")
    assert harness.transport.disconnecting


def test_what_is_no_http_is_counted_and_its_target_is_logged_only_as_a_path() -> None:
    for target, path in ((b"/v1/x?key=k", "/v1/x"), (b"http://user:word@host/", None), (b"word", None)):
        harness = WebServerHarness()
        harness.send(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert harness.status() == 400
        assert harness.observer.lines == [(None, path, 400)]
        assert harness.observer.broken == 1


@implementer(ILogObserver)
@dataclass
class Watching:
    """An observer that keeps failures."""

    failures: list[Failure] = field(default_factory=list)

    def __call__(self, event: LogEvent) -> None:
        if "log_failure" in event:
            self.failures.append(event["log_failure"])


class Faulty:
    """A provider with a bug."""

    wire = VENDOR

    def render_head(self, request: object) -> bytes:
        raise RuntimeError("a bug")


def test_a_bug_is_a_500_with_its_event_and_is_logged_once() -> None:
    harness, watching = WebServerHarness(), Watching()
    assert isinstance(harness.generation.upstreams, dict)
    harness.generation.upstreams["main"] = Faulty()
    globalLogPublisher.addObserver(watching)
    try:
        harness.send(WHOLE)
    finally:
        globalLogPublisher.removeObserver(watching)
    assert (harness.status(), harness.body()["error"]["code"]) == (500, "internal_error")
    assert (harness.event.status, harness.event.http_status) == (Outcome.REJECTED, 500)
    assert [str(failure.value) for failure in watching.failures] == ["a bug"]
    assert settled(harness) == (0, 0, 0)


def test_a_body_that_is_only_announced_takes_no_room() -> None:
    harness = WebServerHarness()
    harness.send(get(PATH, KEY, JSON, "Content-Length: 100", method="POST"))
    assert harness.server.budget.held == 0
    harness.send(b" " * 40)
    assert harness.server.budget.held == 40


def test_the_room_of_a_body_is_given_back_when_the_answer_begins() -> None:
    harness = WebServerHarness()
    harness.send(WHOLE)
    assert harness.server.budget.held == len(CHAT)
    harness.connection.send(STREAM)
    assert harness.server.budget.held == 0
    assert harness.server.in_flight == 1
    harness.leave()
    assert settled(harness) == (0, 0, 0)


def test_a_body_is_let_go_while_its_answer_streams() -> None:
    harness = WebServerHarness()
    marker = b"x" * 100_003
    harness.send(post(b'{"model":"fast","x":"%b"}' % marker, KEY, JSON, path=PATH))
    harness.connection.send(STREAM)
    gc.collect()
    alive = gc.get_objects()
    bodies = [found.original for found in alive if isinstance(found, RequestBody)]
    bodies += [found.take_body() for found in alive if isinstance(found, ServerRequest)]
    assert not [body for body in bodies if isinstance(body, bytes) and marker in body]
    assert harness.server.in_flight == 1


def test_what_a_body_decompresses_to_takes_room_as_well() -> None:
    limit = 4000
    harness = WebServerHarness(f"{THREE_FAMILIES}\nspool: {{body_memory: {limit}}}\n")
    body = gzip.compress(b'{"model":"fast","x":"%b"}' % (b"x" * limit))
    harness.send(post(body, KEY, JSON, "Content-Encoding: gzip", path=PATH))
    assert harness.status() == 503
    assert harness.event.status is Outcome.REJECTED
    assert settled(harness) == (0, 0, 0)
