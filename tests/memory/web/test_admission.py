"""Heads that come again are known, as long as what was found of them holds."""

from __future__ import annotations

import re

import pytest

from mgw.http.head_key import key_of_head
from mgw.memo.client_request import MAX_VARYING
from mgw.memo.known_head import KnownHead
from mgw.memo.request_memo import MAX_HEADS, MAX_KEYS_BYTES, MAX_SEEN
from mgw.web.client_transport import LINGER_SECONDS
from tests.support.channels import get, post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON, KEY, PATH, WHOLE
from tests.support.pipelines import CHAT, Pipeline, answered
from tests.support.web_servers import WebServerHarness, settled

OTHER_KEY = "edge_auth: {enabled: true, keys: [another-edge-key]}\n"
GEMINI = "/v1beta/models/quick:generateContent"
OPEN = "edge_auth: {enabled: true, keys: [edge]}\n"


def known(harness: WebServerHarness, data: bytes) -> KnownHead | None:
    """Return what the server knows of the head that the data begins with."""
    found = key_of_head(data)
    return None if found is None else harness.server.find_head(found[0])


def serve(harness: WebServerHarness, data: bytes) -> bytes:
    """Serve a request on a connection of its own, and return the response."""
    harness.connect()
    harness.send(data)
    for connection in harness.pipeline.endpoint.connections:
        if not connection.over and connection.received:
            connection.send(answered())
            connection.close()
    harness.leave()
    return harness.received()


def upstream_heads(harness: WebServerHarness) -> list[bytes]:
    return [
        connection.received.partition(b"\r\n\r\n")[0] for connection in harness.pipeline.endpoint.connections
    ]


def twice(text: str = THREE_FAMILIES, data: bytes = WHOLE) -> WebServerHarness:
    """Return a server that has seen a request twice."""
    harness = WebServerHarness(text)
    for _ in range(2):
        serve(harness, data)
    return harness


def reload(harness: WebServerHarness, text: str) -> None:
    harness.server.use(Pipeline(text, harness.clock, harness.pipeline.endpoint).generation)


def test_a_head_is_known_when_it_has_come_twice() -> None:
    harness = WebServerHarness()
    assert serve(harness, WHOLE).startswith(b"HTTP/1.1 200 ")
    assert known(harness, WHOLE) is None
    serve(harness, WHOLE)
    assert known(harness, WHOLE) is not None
    serve(harness, post(b" " + CHAT, KEY, JSON, path=PATH))
    heads = [re.sub(rb"(?<=Content-Length: )[0-9]+", b"", head) for head in upstream_heads(harness)]
    assert heads[0] == heads[1] == heads[2]


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/images/generations", "/v1/embeddings"),
        *("/v1/files", "/v1/batches", "/v1/messages/batches", "/upload/v1beta/files"),
        "/v1/messages/count_tokens",
    ],
)
def test_the_heads_of_every_row_with_a_provider_are_known(path: str) -> None:
    data = post(b'{"model": "fast"}', KEY, JSON, path=path)
    harness = WebServerHarness()
    answers = [serve(harness, data) for _ in range(3)]
    assert known(harness, data) is not None
    sent = [connection.received for connection in harness.pipeline.endpoint.connections]
    assert len(set(sent)) <= 1
    assert [answer.partition(b"\r\n")[0] for answer in answers] == [answers[0].partition(b"\r\n")[0]] * 3
    assert settled(harness) == (0, 0, 0)


def test_the_address_in_a_response_is_that_of_the_connection_though_the_head_is_known() -> None:
    data = post(b"{}", KEY, JSON, path="/upload/v1beta/files")
    location = b"X-Goog-Upload-URL: https://gemini.example/upload/v1beta/files?upload_id=1\r\n"
    harness = twice(data=data)
    assert known(harness, data) is not None
    found = []
    for is_secure in (False, True, False):
        harness.connect()
        harness.channel.is_secure = is_secure
        harness.send(data)
        harness.connection.send(answered().replace(b"\r\n", b"\r\n" + location, 1))
        found += re.findall(rb"X-Goog-Upload-URL: (.*?)/upload", harness.received())
        harness.leave()
    assert found == [b"http://gateway", b"https://gateway", b"http://gateway"]


@pytest.mark.parametrize(
    "data",
    [
        get("/v1/models", KEY, "Content-Length: 2", method="GET") + b"{}",
        get("/metrics", KEY, "Content-Length: 2", method="GET") + b"{}",
        post(CHAT, KEY, "Expect: 100-continue", path=PATH),
        post(CHAT, KEY, "Connection: Upgrade", "Upgrade: websocket", path=PATH),
        get(PATH, "Host: g", KEY, f"Content-Length: {len(CHAT)}", version="1.0", method="POST") + CHAT,
        post(CHAT, "x-api-key: wrong", path=PATH),
        post(CHAT, path=PATH),
        post(CHAT, KEY, path="/v1/nothing"),
        post(CHAT, KEY, path="/v1/conversations"),
        post(b"{}", KEY, path="/v1beta/models/a%2F..%2Fb:generateContent"),
        get(PATH, KEY, "Transfer-Encoding: chunked", method="POST") + b"2\r\n{}\r\n0\r\n\r\n",
    ],
)
def test_no_other_head_is_ever_known(data: bytes) -> None:
    harness = WebServerHarness()
    first = serve(harness, data).partition(b"\r\n")[0]
    for _ in range(3):
        assert serve(harness, data).startswith(first)
    assert known(harness, data) is None
    assert settled(harness) == (0, 0, 0)


def test_a_head_that_comes_in_pieces_is_not_known_and_uses_none() -> None:
    harness = WebServerHarness()
    for _ in range(3):
        harness.connect()
        harness.send(WHOLE[:30])
        harness.send(WHOLE[30:])
        harness.connection.send(answered())
        harness.leave()
    assert known(harness, WHOLE) is None


def test_a_key_that_a_reload_removes_opens_nothing_any_more() -> None:
    harness = twice(THREE_FAMILIES + OPEN)
    assert known(harness, WHOLE) is not None
    reload(harness, THREE_FAMILIES + OTHER_KEY)
    for _ in range(3):
        assert serve(harness, WHOLE).startswith(b"HTTP/1.1 401 ")
    assert harness.observer.rejections == 3


def test_a_route_that_a_reload_denies_is_denied() -> None:
    harness = twice(THREE_FAMILIES + OPEN)
    reload(harness, THREE_FAMILIES + OPEN + "routes: {deny: [chat]}\n")
    for _ in range(3):
        assert serve(harness, WHOLE).startswith(b"HTTP/1.1 404 ")


def test_a_limit_that_a_reload_changes_holds() -> None:
    harness = twice(THREE_FAMILIES + OPEN)
    reload(harness, f"{THREE_FAMILIES}{OPEN}max_body_bytes: {len(CHAT) - 1}\n")
    for _ in range(3):
        assert serve(harness, WHOLE).startswith(b"HTTP/1.1 413 ")
    reload(harness, THREE_FAMILIES + OPEN)
    assert serve(harness, WHOLE).startswith(b"HTTP/1.1 200 ")


def test_an_alias_that_a_reload_changes_leads_elsewhere() -> None:
    harness = twice(THREE_FAMILIES + OPEN)
    reload(harness, THREE_FAMILIES.replace("main/gpt-b", "host/other") + OPEN)
    for _ in range(3):
        serve(harness, WHOLE)
        assert b'"other"' in harness.connection.received
        assert b"\r\nHost: host.example\r\n" in harness.connection.received


def test_a_request_that_was_on_its_way_at_a_reload_leaves_nothing_known_behind() -> None:
    harness = twice(THREE_FAMILIES + OPEN)
    harness.connect()
    harness.send(WHOLE[:-1])
    reload(harness, THREE_FAMILIES + OTHER_KEY)
    harness.send(WHOLE[-1:])
    harness.connection.send(answered())
    assert harness.received().startswith(b"HTTP/1.1 200 ")
    harness.leave()
    assert serve(harness, WHOLE).startswith(b"HTTP/1.1 401 ")


def test_a_larger_body_behind_a_known_head_is_refused() -> None:
    harness = twice(f"{THREE_FAMILIES}max_body_bytes: 100\n")
    large = post(CHAT + b" " * 100, KEY, JSON, path=PATH)
    assert known(harness, large) is not None
    assert serve(harness, large).startswith(b"HTTP/1.1 413 ")
    assert serve(harness, large[:-50]).startswith(b"HTTP/1.1 413 ")
    assert settled(harness) == (0, 0, 0)


def test_the_client_of_a_refused_body_behind_a_known_head_is_not_waited_for_long() -> None:
    harness = twice(f"{THREE_FAMILIES}max_body_bytes: 100\n")
    harness.connect()
    harness.send(post(CHAT + b" " * 100, KEY, JSON, path=PATH)[:-50])
    assert not harness.transport.disconnecting
    harness.clock.advance(LINGER_SECONDS)
    assert harness.transport.disconnecting


def test_a_known_head_is_refused_in_a_drain() -> None:
    harness = twice()
    harness.server.draining = True
    response = serve(harness, WHOLE)
    assert response.startswith(b"HTTP/1.1 503 ")
    assert b"\r\nConnection: close\r\n" in response


def test_a_key_in_the_query_goes_no_further_when_its_head_is_known() -> None:
    body = b'{"contents":[{"parts":[{"text":"hi"}]}]}'
    data = post(body, JSON, path=f"{GEMINI}?key=edge&alt=json")
    text = THREE_FAMILIES.replace("smart:", "quick: gem/gemini-x\n  smart:")
    harness = twice(text, data)
    assert known(harness, data) is not None
    serve(harness, data)
    heads = upstream_heads(harness)
    assert heads[2] == heads[0]
    assert b"key=" not in heads[2]
    assert b"?alt=json " in heads[2]


def test_the_key_of_one_client_is_not_anothers() -> None:
    text = THREE_FAMILIES.replace("api_key: sk-main-0001", "auth: client_bearer")
    requests = [post(CHAT, KEY, f"Authorization: Bearer sk-own-{name}", path=PATH) for name in "ab"]
    harness = WebServerHarness(text)
    for _ in range(3):
        for data in requests:
            serve(harness, data)
    keys = [head.rpartition(b"Bearer ")[2].partition(b"\r\n")[0] for head in upstream_heads(harness)]
    assert keys == [b"sk-own-a", b"sk-own-b"] * 3


TRANSLATED = b'{"model": "smart", "messages": [{"role": "user", "content": "hello"}]}'
VARYING_LINES = (KEY, "traceparent: @1", "X-Title: t", "Idempotency-Key: @2")
VARYING = post(CHAT, *VARYING_LINES, path=PATH)


def filled(data: bytes, *values: bytes) -> bytes:
    for number, value in enumerate(values, 1):
        data = data.replace(b"@%d" % number, value)
    return data


@pytest.mark.parametrize("body", [CHAT, TRANSLATED], ids=["relayed", "translated"])
def test_each_request_keeps_its_own_trace(body: bytes) -> None:
    harness = WebServerHarness()
    data = post(body, *VARYING_LINES, path=PATH)
    for number in range(4):
        serve(harness, filled(data, b"a%d" % number, b"b%d" % number))
        head = upstream_heads(harness)[-1]
        assert b"\r\ntraceparent: a%d\r\n" % number in head
        assert b"\r\nIdempotency-Key: b%d\r\n" % number in head
    assert known(harness, filled(data, b"new", b"new")) is not None


@pytest.mark.parametrize(
    "name", ["X-Request-Id", "X-Amzn-Trace-Id", "x-cloud-trace-context", "CF-Ray", "X-Client-Request-Id"]
)
def test_what_a_proxy_adds_to_each_request_does_not_make_its_head_another(name: str) -> None:
    data = post(CHAT, KEY, f"{name}: @1", path=PATH)
    harness = twice(data=filled(data, b"Root=1-a;o=1"))
    assert known(harness, filled(data, b"b/2")) is not None
    serve(harness, filled(data, b"b/2"))
    sent = [line.lower().encode() for line in (f"{name}: b/2",) if name == "X-Client-Request-Id"]
    found = [line for line in upstream_heads(harness)[-1].lower().split(b"\r\n") if b"b/2" in line]
    assert found == sent


def test_more_headers_that_vary_than_there_is_room_for_are_passed_on_all_the_same() -> None:
    data = post(CHAT, KEY, *(f"traceparent: {number}" for number in range(MAX_VARYING + 1)), path=PATH)
    harness = twice(data=data)
    assert serve(harness, data).startswith(b"HTTP/1.1 200 ")
    assert known(harness, data) is None
    assert upstream_heads(harness)[-1].count(b"traceparent") == MAX_VARYING + 1


def test_an_edge_key_in_what_varies_goes_no_further() -> None:
    edge = b"edge-key-of-some-length"
    harness = twice(data=filled(VARYING, b"a", b"b"))
    reload(harness, f"{THREE_FAMILIES}edge_auth: {{enabled: true, keys: [edge, {edge.decode()}]}}\n")
    for value in (b"a", b"a", b"a", b"x-" + edge, edge):
        assert serve(harness, filled(VARYING, value, b"b")).startswith(b"HTTP/1.1 200 ")
    assert known(harness, filled(VARYING, b"c", b"d")) is not None
    heads = upstream_heads(harness)
    assert not [head for head in heads if edge in head]
    assert b"traceparent" in heads[-3]
    assert b"traceparent" not in heads[-1]


@pytest.mark.parametrize("fixed", ["TRACEPARENT: a", "traceparent:  a", "traceparent:a"])
def test_a_header_that_stays_is_not_taken_for_one_that_varies(fixed: str) -> None:
    data = post(CHAT, KEY, fixed, "traceparent: @1", path=PATH)
    harness = twice(data=filled(data, b"a"))
    serve(harness, filled(data, b"b"))
    lines = upstream_heads(harness)[-1].split(b"\r\n")
    values = [line.partition(b": ")[2] for line in lines if b"arent" in line.lower()]
    assert values == [b"a", b"b"]


def test_no_more_heads_are_kept_than_there_is_room_for() -> None:
    harness = WebServerHarness()
    requests = [post(b"{}", KEY, f"X-Title: {number}", path=PATH)[:-2] for number in range(MAX_HEADS + 5)]
    for data in requests:
        for _ in range(2):
            harness.connect()
            harness.send(data)
            harness.leave()
    kept = [data for data in requests if known(harness, data) is not None]
    assert kept == requests[5:]


def test_no_more_heads_are_remembered_than_there_is_room_for() -> None:
    harness = WebServerHarness()
    first = post(b"{}", KEY, "X-Title: first", path=PATH)[:-2]
    harness.send(first)
    harness.leave()
    for number in range(MAX_SEEN):
        harness.connect()
        harness.send(post(b"{}", KEY, f"X-Title: {number}", path=PATH)[:-2])
        harness.leave()
    harness.connect()
    harness.send(first)
    harness.leave()
    assert known(harness, first) is None


def test_long_heads_are_kept_only_as_far_as_there_is_room_for_their_bytes() -> None:
    harness = WebServerHarness()
    long = "x" * 7_000
    fit = MAX_KEYS_BYTES // 7_300
    requests = [post(b"{}", KEY, f"X-Title: {number} {long}", path=PATH)[:-2] for number in range(fit + 10)]
    for request in requests:
        for _ in range(2):
            serve(harness, request + b"{}")
    found = [known(harness, request + b"{}") is not None for request in requests]
    assert found[-1]
    assert not found[0]
    assert fit - 3 <= sum(found) <= MAX_KEYS_BYTES // 7_000
