"""Responses that the gateway gives itself: their headers, and what they tell to whom."""

from __future__ import annotations

import pytest

from mgw.usage.event import Outcome
from tests.support.channels import get, post
from tests.support.exchanges import JSON, KEY, PATH, new_in_a_drain, too_slow
from tests.support.web_servers import WebServerHarness, settled

pytestmark = pytest.mark.usefixtures("heads")


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1/models/a%2F..%2Fb:generateContent", "/v1/../x", "/v1/messages/unknown"]
)
def test_who_has_no_key_learns_nothing_of_what_is_served(path: str) -> None:
    harness = WebServerHarness()
    harness.send(get(path, method="POST"))
    assert harness.status() == 401
    assert harness.observer.rejections == 1
    assert harness.observer.have_events == [False]
    harness = WebServerHarness()
    harness.send(get(path, KEY, method="POST"))
    assert harness.status() in (400, 404)


@pytest.mark.parametrize("model", ["a%2F..%2Fb", "%ff", "a%00b"])
def test_a_path_that_is_refused_on_a_metered_route_has_its_event(model: str) -> None:
    harness = WebServerHarness()
    harness.send(post(b"{}", KEY, JSON, path=f"/v1beta/models/{model}:generateContent"))
    assert harness.status() == 400
    assert (harness.event.route, harness.event.status) == ("generate_content", Outcome.REJECTED)
    assert settled(harness) == (0, 0, 0)


def test_a_refused_key_is_refused_in_the_dialect_of_the_row() -> None:
    harness = WebServerHarness()
    harness.send(get("/v1/models/ft:gpt:abc"))
    assert harness.body()["error"]["code"] == "invalid_api_key"


def test_every_own_answer_names_its_request() -> None:
    harness = WebServerHarness()
    harness.send(get("/healthz"))
    assert harness.observer.ids[0].encode() in harness.received()


UPGRADE = ("Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13")


@pytest.mark.parametrize(
    "data",
    [
        post(b"{}", KEY, *UPGRADE, path=PATH),
        get("/v1/embeddings", KEY, *UPGRADE),
        get("/v1/files", KEY, *UPGRADE),
        get("/healthz", *UPGRADE),
    ],
    ids=["a conversation", "embeddings", "files", "health"],
)
def test_an_upgrade_on_a_row_that_is_no_websocket_is_refused_before_anything_goes_up(
    data: bytes,
) -> None:
    harness = WebServerHarness()
    harness.send(data)
    assert harness.status() == 426
    assert harness.body()["error"]["code"] == "websocket_not_supported"
    head = harness.received().partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert b"Upgrade: HTTP/1.1" in head
    (connection,) = [line for line in head if line.startswith(b"Connection:")]
    assert connection in (b"Connection: Upgrade", b"Connection: close, Upgrade")
    assert harness.pipeline.endpoint.connections == []
    assert settled(harness) == (0, 0, 0)


def test_a_refused_upgrade_of_an_exchange_has_its_event_and_wants_a_key_first() -> None:
    harness = WebServerHarness()
    harness.send(post(b"{}", *UPGRADE, path=PATH))
    assert harness.status() == 401
    harness = WebServerHarness()
    harness.send(post(b"{}", KEY, *UPGRADE, path=PATH))
    assert (harness.event.status, harness.event.http_status) == (Outcome.REJECTED, 426)


def test_a_path_with_backslash_dots_is_refused_before_anything_goes_up() -> None:
    for path in ("/v1/files/a\\..\\..\\x", "/v1/files/..%5c..%5cx", "/v1/files/file-1%5C..%5Ccontent"):
        harness = WebServerHarness()
        harness.send(get(path, KEY))
        assert harness.status() == 400, path


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
    harness = WebServerHarness()
    harness.send(data)
    assert harness.status() == status
    headers = headers_of(harness.received())
    assert headers[b"Date"] == b"Thu, 01 Jan 1970 00:00:00 GMT"
    assert headers.get(b"Cache-Control") == (None if stored else b"no-store")
    assert headers.get(b"x-should-retry") == (b"false" if final else None)


def test_a_refusal_that_a_repetition_may_change_does_not_forbid_it() -> None:
    for happens, status in ((too_slow, 408), (new_in_a_drain, 503)):
        harness = WebServerHarness()
        happens(harness)
        headers = headers_of(harness.received())
        assert (harness.status(), headers.get(b"x-should-retry")) == (status, None)
        assert headers[b"Cache-Control"] == b"no-store"


@pytest.mark.parametrize(("path", "translated"), [("/v1/messages", False), ("/v1/chat/completions", True)])
@pytest.mark.parametrize("status", [b"200 OK", b"404 Not Found"])
def test_translated_answers_have_a_date_and_those_of_the_same_family_their_own(
    path: str, translated: bool, status: bytes
) -> None:
    harness = WebServerHarness()
    harness.send(
        post(
            b'{"model":"claude/c","max_tokens":5,"messages":[{"role":"user","content":"a"}]}', KEY, path=path
        )
    )
    content = b'"content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn"'
    body = b'{"type":"message","role":"assistant",%b}' % content
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    harness.connection.send(head % (status, len(body)) + body)
    headers = headers_of(harness.received())
    assert harness.received().startswith(b"HTTP/1.1 " + status)
    assert (b"Date" in headers) is translated
    assert headers.get(b"Cache-Control") == (b"no-store" if translated and status != b"200 OK" else None)
    assert b"x-should-retry" not in headers
