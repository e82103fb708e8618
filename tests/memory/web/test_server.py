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

from mgw.errors import GatewayError, Reason
from mgw.exchange.request import ClientRequest
from mgw.usage.event import Outcome
from tests.support.channels import LIMITS, get, post
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import ANSWER, CHAT, Pipeline, answered
from tests.support.web_servers import Bench, settled

T = TypeVar("T")

KEY = "x-api-key: edge"
JSON = "Content-Type: application/json"
PATH = "/v1/chat/completions"


CHUNKED = get(PATH, KEY, JSON, "Transfer-Encoding: chunked", method="POST")
UNFINISHED = post(CHAT, KEY, JSON, path=PATH)[:-3]
WHOLE = post(CHAT, KEY, JSON, path=PATH)
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


def too_slow(bench: Bench) -> None:
    bench.send(UNFINISHED)
    bench.clock.advance(LIMITS.client_body_idle)


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


def new_in_a_drain(bench: Bench) -> None:
    bench.server.draining = True
    bench.send(WHOLE)


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


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1/models/a%2F..%2Fb:generateContent", "/v1/../x", "/v1/messages/unknown"]
)
def test_who_has_no_key_learns_nothing_of_what_is_served(path: str) -> None:
    bench = Bench()
    bench.send(get(path, method="POST"))
    assert bench.status() == 401
    assert bench.observer.rejections == 1
    bench = Bench()
    bench.send(get(path, KEY, method="POST"))
    assert bench.status() in (400, 404)


@pytest.mark.parametrize("model", ["a%2F..%2Fb", "%ff", "a%00b"])
def test_a_path_that_is_refused_on_a_metered_route_has_its_event(model: str) -> None:
    bench = Bench()
    bench.send(post(b"{}", KEY, JSON, path=f"/v1beta/models/{model}:generateContent"))
    assert bench.status() == 400
    assert (bench.event.route, bench.event.status) == ("generate_content", Outcome.REJECTED)
    assert settled(bench) == (0, 0, 0)


def test_a_refused_key_is_refused_in_the_dialect_of_the_row() -> None:
    bench = Bench()
    bench.send(get("/v1/models/ft:gpt:abc"))
    assert bench.body()["error"]["code"] == "invalid_api_key"


def test_a_failure_outside_the_pipeline_still_leaves_its_event() -> None:
    bench = Bench()

    async def broken(_: object) -> None:
        raise GatewayError(Reason.OVERLOADED, "no")

    bench.server.app.endpoints["exchange"] = lambda _, request: broken(request)
    bench.send(WHOLE)
    assert bench.status() == 503
    assert bench.event.status is Outcome.REJECTED
    assert settled(bench) == (0, 0, 0)


def test_every_own_answer_names_its_request() -> None:
    bench = Bench()
    bench.send(get("/healthz"))
    assert bench.observer.ids[0].encode() in bench.taken()


UPGRADE = ("Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13")


@pytest.mark.parametrize(
    "data",
    [
        post(b"{}", KEY, *UPGRADE, path=PATH),
        get("/v1/responses", KEY, *UPGRADE),
        get("/v1/files", KEY, *UPGRADE),
        get("/healthz", *UPGRADE),
    ],
    ids=["a conversation", "responses", "files", "health"],
)
def test_an_upgrade_on_a_row_that_is_no_websocket_is_refused_before_anything_goes_up(
    data: bytes,
) -> None:
    bench = Bench()
    bench.send(data)
    assert bench.status() == 426
    assert bench.body()["error"]["code"] == "websocket_not_supported"
    head = bench.taken().partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert b"Upgrade: HTTP/1.1" in head
    (connection,) = [line for line in head if line.startswith(b"Connection:")]
    assert connection in (b"Connection: Upgrade", b"Connection: close, Upgrade")
    assert bench.pipeline.endpoint.wires == []
    assert settled(bench) == (0, 0, 0)


def test_a_refused_upgrade_of_an_exchange_has_its_event_and_wants_a_key_first() -> None:
    bench = Bench()
    bench.send(post(b"{}", *UPGRADE, path=PATH))
    assert bench.status() == 401
    bench = Bench()
    bench.send(post(b"{}", KEY, *UPGRADE, path=PATH))
    assert (bench.event.status, bench.event.http_status) == (Outcome.REJECTED, 426)


def test_a_path_with_backslash_dots_is_refused_before_anything_goes_up() -> None:
    for path in ("/v1/files/a\\..\\..\\x", "/v1/files/..%5c..%5cx", "/v1/files/file-1%5C..%5Ccontent"):
        bench = Bench()
        bench.send(get(path, KEY))
        assert bench.status() == 400, path


def headers_of(answered: bytes) -> dict[bytes, bytes]:
    lines = answered.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return {name: value for name, _, value in (line.partition(b": ") for line in lines)}


@pytest.mark.parametrize(
    ("data", "status", "stored", "final"),
    [
        (post(b"{", KEY, path=PATH), 400, False, True),
        (post(b"{}", path=PATH), 401, False, True),
        (post(b"{}", KEY, path="/v1/nothing"), 404, False, True),
        (get(PATH, KEY, method="PUT"), 405, False, True),
        (get(PATH, KEY, "Content-Length: 99999999999", method="POST"), 413, False, True),
        (post(b"{}", KEY, *UPGRADE, path=PATH), 426, False, True),
        (post(b"{}", KEY, path="/v1/conversations"), 501, False, True),
        (b"nonsense\r\n\r\n", 400, False, True),
        (get("/healthz"), 200, False, False),
        (get("/"), 200, False, False),
        (get("/metrics", KEY), 200, False, False),
        (get("/v1/models", KEY), 200, True, False),
        (get("/v1/models/gone/x", KEY), 404, False, True),
    ],
)
def test_own_answers_have_a_date_and_say_whether_they_may_be_stored_or_repeated(
    data: bytes, status: int, stored: bool, final: bool
) -> None:
    bench = Bench()
    bench.send(data)
    assert bench.status() == status
    headers = headers_of(bench.taken())
    assert headers[b"Date"] == b"Thu, 01 Jan 1970 00:00:00 GMT"
    assert headers.get(b"Cache-Control") == (None if stored else b"no-store")
    assert headers.get(b"x-should-retry") == (b"false" if final else None)


def test_a_refusal_that_a_repetition_may_change_does_not_forbid_it() -> None:
    for happens, status in ((too_slow, 408), (new_in_a_drain, 503)):
        bench = Bench()
        happens(bench)
        headers = headers_of(bench.taken())
        assert (bench.status(), headers.get(b"x-should-retry")) == (status, None)
        assert headers[b"Cache-Control"] == b"no-store"


@pytest.mark.parametrize(("path", "translated"), [("/v1/messages", False), ("/v1/chat/completions", True)])
@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"])
def test_translated_answers_have_a_date_and_those_of_the_same_family_their_own(
    path: str, translated: bool, status: bytes
) -> None:
    bench = Bench()
    bench.send(
        post(
            b'{"model":"claude/c","max_tokens":5,"messages":[{"role":"user","content":"a"}]}', KEY, path=path
        )
    )
    content = b'"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"'
    body = b'{"type":"message","role":"assistant",%b}' % content
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    bench.wire.says(head % (status, len(body)) + body)
    headers = headers_of(bench.taken())
    assert bench.taken().startswith(b"HTTP/1.1 " + status)
    assert (b"Date" in headers) is translated
    assert headers.get(b"Cache-Control") == (b"no-store" if translated and status != b"200 OK" else None)
    assert b"x-should-retry" not in headers
