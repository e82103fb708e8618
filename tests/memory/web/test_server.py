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

from mgw.exchange.request import ClientRequest
from mgw.usage.event import Outcome
from tests.support.channels import get, post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON, KEY, PATH, UNFINISHED, WHOLE, new_in_a_drain, too_slow
from tests.support.pipelines import ANSWER, CHAT, Pipeline, answered
from tests.support.web_servers import Bench, settled

T = TypeVar("T")


CHUNKED = get(PATH, KEY, JSON, "Transfer-Encoding: chunked", method="POST")
STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n"
)


def whole(bench: Bench) -> None:
    bench.send(WHOLE)
    bench.wire.says(answered())


def too_large_as_announced(bench: Bench) -> None:
    bench.send(get(PATH, KEY, "Content-Length: 99999999", method="POST"))


def too_large_as_it_comes(bench: Bench) -> None:
    bench.send(CHUNKED + b"3000\r\n" + b" " * 0x3000 + b"\r\n")


def beyond_the_budget(bench: Bench) -> None:
    bench.server.budget.max_bytes = 10
    bench.send(WHOLE)


def broken_chunk(bench: Bench) -> None:
    bench.send(CHUNKED + b"zz\r\n")


def left_in_its_upload(bench: Bench) -> None:
    bench.send(UNFINISHED)
    bench.leave()


def left_while_waiting(bench: Bench) -> None:
    bench.send(WHOLE)
    bench.leave()


def left_while_reading(bench: Bench) -> None:
    bench.send(WHOLE)
    bench.wire.says(STREAM)
    bench.leave()


def no_model(bench: Bench) -> None:
    bench.send(post(b"{}", KEY, path=PATH))


def broken_upstream(bench: Bench) -> None:
    bench.send(WHOLE)
    bench.wire.says(STREAM)
    bench.wire.breaks()


def refused_upstream(bench: Bench) -> None:
    bench.send(WHOLE)
    bench.wire.says(answered(status=b"429 Too Many Requests"))


def cut_in_its_upload(bench: Bench) -> None:
    bench.send(UNFINISHED)
    bench.server.abort_requests()


def cut_while_waiting(bench: Bench) -> None:
    bench.send(WHOLE)
    bench.server.abort_requests()


def cut_while_reading(bench: Bench) -> None:
    bench.send(WHOLE)
    bench.wire.says(STREAM)
    bench.server.abort_requests()


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
    happens: Callable[[Bench], None], outcome: Outcome, status: int, error: str | None
) -> None:
    bench = Bench(THREE_FAMILIES + "max_body_bytes: 8192\n")
    happens(bench)
    assert (bench.event.status, bench.event.http_status) == (outcome, status)
    assert bench.observer.lines == [("POST", PATH, status)]
    assert (bench.event.error, bench.observer.errors) == (error, [error])
    assert bench.observer.ids == [bench.event.request_id]
    assert settled(bench) == (0, 0, 0)
    if outcome is not Outcome.CLIENT_ABORT:
        assert bench.status() == status


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
    bench = Bench()
    bench.send(data)
    assert bench.status() == status
    assert not bench.observer.events
    assert [line[2] for line in bench.observer.lines] == [status]
    assert bench.observer.rejections == rejections
    assert settled(bench) == (0, 0, 0)


def test_a_wrong_key_is_told_before_the_body_is_asked_for_or_its_size_looked_at() -> None:
    bench = Bench()
    bench.send(get(PATH, "Content-Length: 99999999999", "Expect: 100-continue", method="POST"))
    assert bench.status() == 401
    assert b"100 Continue" not in bench.taken()


def test_a_right_key_lets_the_body_come() -> None:
    bench = Bench()
    bench.send(get(PATH, KEY, "Content-Length: 20", "Expect: 100-continue", method="POST"))
    assert bench.taken() == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_body_over_the_limit_is_refused_before_it_is_asked_for() -> None:
    bench = Bench(THREE_FAMILIES + "max_body_bytes: 10\n")
    bench.send(get(PATH, KEY, "Content-Length: 20", "Expect: 100-continue", method="POST"))
    assert bench.status() == 413


def test_an_open_route_needs_no_key_and_is_answered_in_a_drain() -> None:
    for path, status in (("/healthz", 200), ("/readyz", 503), ("/", 200)):
        bench = Bench()
        bench.server.draining = True
        bench.send(get(path))
        assert bench.status() == status


def test_a_request_keeps_the_generation_that_it_began_with() -> None:
    bench, after = Bench(), Pipeline(THREE_FAMILIES.replace("main/gpt-b", "main/gpt-new"))
    bench.send(UNFINISHED)
    bench.server.use(after.generation)
    bench.send(WHOLE[len(UNFINISHED) :])
    assert b'"gpt-b"' in bench.wire.heard
    assert not bench.wire.closing
    bench.wire.says(answered())
    assert bench.taken().endswith(ANSWER)
    assert bench.wire.closing


def test_the_next_request_on_a_connection_takes_the_new_generation() -> None:
    bench, after = Bench(), Pipeline(THREE_FAMILIES.replace("main/gpt-b", "main/gpt-new"))
    bench.send(WHOLE)
    bench.wire.says(answered())
    bench.server.use(after.generation)
    bench.send(get("/v1/models", "x-api-key: whatever"))
    assert b"main/gpt-new" in bench.taken()


def test_idleness_is_told_when_the_last_visit_ends() -> None:
    bench, told = Bench(), []
    bench.server.on_idle = lambda: told.append(bench.server.in_flight)
    bench.send(WHOLE)
    assert told == []
    bench.wire.says(answered())
    assert told == [0]


def test_a_cut_request_lets_go_of_its_provider() -> None:
    bench = Bench()
    bench.send(WHOLE)
    bench.server.abort_requests()
    assert bench.wire.aborted
    assert bench.body()["error"]["code"] == "draining"


def test_a_cut_answer_has_no_clean_end() -> None:
    bench = Bench()
    bench.send(WHOLE)
    bench.wire.says(STREAM)
    bench.server.abort_requests()
    assert not bench.taken().endswith(b"0\r\n\r\n")
    assert bench.transport.disconnecting


def test_what_is_no_http_is_counted_and_its_target_is_logged_only_as_a_path() -> None:
    for target, path in ((b"/v1/x?key=k", "/v1/x"), (b"http://user:word@host/", None), (b"word", None)):
        bench = Bench()
        bench.send(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
        assert bench.status() == 400
        assert bench.observer.lines == [(None, path, 400)]
        assert bench.observer.broken == 1


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

    base_path = b"/v1"

    def open(self, request: object, *, fresh: bool = False) -> object:
        raise RuntimeError("a bug")


def test_a_bug_is_a_500_with_its_event_and_is_logged_once() -> None:
    bench, watching = Bench(), Watching()
    assert isinstance(bench.generation.upstreams, dict)
    bench.generation.upstreams["main"] = Faulty()
    globalLogPublisher.addObserver(watching)
    try:
        bench.send(WHOLE)
    finally:
        globalLogPublisher.removeObserver(watching)
    assert (bench.status(), bench.body()["error"]["code"]) == (500, "internal_error")
    assert (bench.event.status, bench.event.http_status) == (Outcome.REJECTED, 500)
    assert [str(failure.value) for failure in watching.failures] == ["a bug"]
    assert settled(bench) == (0, 0, 0)


def test_a_body_that_is_only_announced_takes_no_room() -> None:
    bench = Bench()
    bench.send(get(PATH, KEY, JSON, "Content-Length: 100", method="POST"))
    assert bench.server.budget.held == 0
    bench.send(b" " * 40)
    assert bench.server.budget.held == 40


def test_the_room_of_a_body_is_given_back_when_the_answer_begins() -> None:
    bench = Bench()
    bench.send(WHOLE)
    assert bench.server.budget.held == len(CHAT)
    bench.wire.says(STREAM)
    assert bench.server.budget.held == 0
    assert bench.server.in_flight == 1
    bench.leave()
    assert settled(bench) == (0, 0, 0)


def test_a_body_is_let_go_while_its_answer_streams() -> None:
    bench = Bench()
    marker = b"x" * 100_003
    bench.send(post(b'{"model":"fast","x":"%b"}' % marker, KEY, JSON, path=PATH))
    bench.wire.says(STREAM)
    gc.collect()
    requests = [found for found in gc.get_objects() if isinstance(found, ClientRequest)]
    bodies = [request.body for request in requests]
    assert not [body for body in bodies if isinstance(body, bytes) and marker in body]
    assert bench.server.in_flight == 1


def test_what_a_body_decompresses_to_takes_room_as_well() -> None:
    limit = 4000
    bench = Bench(f"{THREE_FAMILIES}\nspool: {{body_memory: {limit}}}\n")
    body = gzip.compress(b'{"model":"fast","x":"%b"}' % (b"x" * limit))
    bench.send(post(body, KEY, JSON, "Content-Encoding: gzip", path=PATH))
    assert bench.status() == 503
    assert bench.event.status is Outcome.REJECTED
    assert settled(bench) == (0, 0, 0)
