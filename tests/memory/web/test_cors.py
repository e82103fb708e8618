"""Pages of other origins: what browsers may ask beforehand, and what every response to them says."""

from __future__ import annotations

import re
from typing import Final

import pytest

from mgw.app.check import warnings
from mgw.config.load import parse
from tests.memory.web.test_admission import reload, upstream_heads
from tests.memory.web.test_keyless import BODY, CHAT, UPGRADE, Client
from tests.support.configs import THREE_FAMILIES
from tests.support.pipelines import ANSWER

EDGE: Final = "edge_auth: {enabled: true, keys: [edge]}\n"
ORIGINS: Final = 'origins: ["https://app.example.com", "http://other.example:3000"]'
CLOSED: Final = f"{THREE_FAMILIES}{EDGE}cors: {{{ORIGINS}}}\n"
ANY: Final = f'{THREE_FAMILIES}{EDGE}cors: {{origins: ["*"], max_age: 0}}\n'
PLAIN: Final = f"{THREE_FAMILIES}{EDGE}"
PAGE: Final = "Origin: https://app.example.com"
OTHER: Final = "Origin: https://evil.example"
KEY: Final = "Authorization: Bearer edge"
ASKED: Final = "Access-Control-Request-Method: POST"
HOST: Final = "Host: gateway"
READABLE: Final = {
    "access-control-allow-origin": "https://app.example.com",
    "access-control-expose-headers": "*",
    "vary": "Origin",
}


def said(response: bytes) -> dict[str, str]:
    """Return what a response says of origins."""
    head = response.partition(b"\r\n\r\n")[0].decode("latin-1")
    pairs = [line.partition(": ") for line in head.split("\r\n")[1:]]
    found = [(name.lower(), value) for name, _, value in pairs]
    lines = [(name, value) for name, value in found if name.startswith("access-control-") or name == "vary"]
    assert len(dict(lines)) == len(lines), lines
    return dict(lines)


def preflight(client: Client, *headers: str, path: str = CHAT) -> bytes:
    return client.ask(HOST, *headers, method="OPTIONS", path=path)


def answer_with(client: Client, head: bytes, *headers: str, body: bytes = ANSWER) -> bytes:
    """Return the response to a request that a provider answers with this head."""
    client.connect("127.0.0.1")
    own = [f"Content-Length: {len(BODY)}", "Content-Type: application/json", HOST, *headers]
    client.harness.send("\r\n".join([f"POST {CHAT} HTTP/1.1", *own, "", ""]).encode() + BODY)
    connection = client.harness.pipeline.connection
    connection.send(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + body)
    return client.harness.received()


def test_a_preflight_needs_no_key_and_leaves_nothing_behind() -> None:
    client = Client(CLOSED)
    response = preflight(
        client, PAGE, ASKED, "Access-Control-Request-Headers: authorization,content-type,x-a"
    )
    assert response.startswith(b"HTTP/1.1 204 No Content\r\n")
    assert b"content-length" not in response.lower()
    assert said(response) == {
        "access-control-allow-origin": "https://app.example.com",
        "access-control-allow-methods": "GET, HEAD, POST",
        "access-control-allow-headers": "authorization,content-type,x-a",
        "access-control-max-age": "600",
        "vary": "Origin",
    }
    assert b"X-Gateway-Request-Id: " in response
    assert not client.harness.observer.events
    assert client.harness.observer.rejections == 0
    assert client.harness.observer.lines == [("OPTIONS", CHAT, 204)]
    assert not upstream_heads(client.harness)
    assert client.status(HOST, PAGE, KEY) == 200


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (CHAT, "GET, HEAD, POST"),
        ("/v1/embeddings", "POST"),
        ("/v1/messages", "POST"),
        ("/v1beta/models/x:generateContent", "POST"),
        ("/v1/models", "GET, HEAD"),
        ("/v1/models/main/gpt-c", "DELETE, GET, HEAD, PATCH"),
        ("/v1/responses", "GET, HEAD, POST"),
        ("/v1/files?after=1", "GET, HEAD, POST"),
        ("/v1/files/file_1/content", "GET, HEAD"),
        ("/v1/conversations", "DELETE, GET, HEAD, PATCH, POST, PUT"),
        ("/healthz", "GET, HEAD"),
    ],
)
def test_a_preflight_names_the_methods_of_its_path(path: str, methods: str) -> None:
    assert said(preflight(Client(CLOSED), PAGE, ASKED, path=path))["access-control-allow-methods"] == methods


def test_a_preflight_for_any_origin_names_a_star() -> None:
    response = preflight(Client(ANY), OTHER, ASKED)
    assert said(response) == {
        "access-control-allow-origin": "*",
        "access-control-allow-methods": "GET, HEAD, POST",
        "access-control-max-age": "0",
        "vary": "Origin",
    }


@pytest.mark.parametrize("names", ["a b;c", "x: y", "é"])
def test_a_preflight_repeats_only_names(names: str) -> None:
    response = preflight(Client(CLOSED), PAGE, ASKED, f"Access-Control-Request-Headers: {names}")
    assert "access-control-allow-headers" not in said(response)
    assert response.startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        (CLOSED, [OTHER, ASKED]),
        (CLOSED, [PAGE, PAGE, ASKED]),
        (CLOSED, [PAGE]),
        (CLOSED, [ASKED]),
        (CLOSED, ["Origin: https://app.example.com:8443", ASKED]),
        (CLOSED, ["Origin: null", ASKED]),
        (PLAIN, [PAGE, ASKED]),
    ],
)
def test_any_other_question_is_refused_as_without_the_setting(text: str, headers: list[str]) -> None:
    client = Client(text)
    assert preflight(client, *headers).startswith(b"HTTP/1.1 401 ")
    response = preflight(client, KEY, *headers)
    assert response.startswith(b"HTTP/1.1 405 ")
    assert b"\r\nAllow: GET, POST, HEAD\r\n" in response
    assert "access-control-allow-methods" not in said(response)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/nothing", 404),
        ("/v1/images/generations", 404),
        ("/v1/../v1/chat/completions", 400),
        ("/v1/models/%2e%2e", 400),
    ],
)
def test_a_preflight_opens_no_path_that_is_not_served(path: str, status: int) -> None:
    client = Client(f"{CLOSED}routes: {{deny: [images]}}\n")
    response = preflight(client, PAGE, ASKED, KEY, path=path)
    assert int(response.split(b" ")[1]) == status
    assert said(response) == READABLE
    assert preflight(client, PAGE, ASKED, path=path).startswith(b"HTTP/1.1 401 ")


GUARDED: Final = ("/ui", "/ui/app.js", "/v1/dashboard", "/v1/dashboard/usage", "/metrics", "/v1/%64ashboard")


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("text", [CLOSED, ANY])
def test_what_is_for_operators_says_nothing_to_any_page(text: str, path: str) -> None:
    client = Client(f"{text}dashboard: {{enabled: false}}\n")
    for method in ("GET", "OPTIONS", "DELETE"):
        response = client.ask(HOST, PAGE, ASKED, KEY, method=method, path=path)
        assert said(response) == {}
        assert not response.startswith(b"HTTP/1.1 204 ")


@pytest.mark.parametrize("path", ["/uix", "/v1/dashboards", "/metrics2", "/v1", "/ux"])
def test_a_path_that_begins_like_one_for_operators_is_none(path: str) -> None:
    assert said(Client(CLOSED).ask(HOST, PAGE, KEY, method="GET", path=path)) == READABLE


@pytest.mark.parametrize(
    ("status", "method", "path", "headers"),
    [
        (200, "POST", CHAT, [KEY]),
        (401, "POST", CHAT, []),
        (401, "GET", "/v1/models", ["x-api-key: no"]),
        (404, "POST", "/v1/nothing", [KEY]),
        (405, "GET", "/v1/embeddings", [KEY]),
        (200, "GET", "/v1/models", [KEY]),
        (200, "GET", "/healthz", []),
        (200, "GET", "/", []),
        (501, "POST", "/v1/conversations", [KEY]),
        (400, "POST", "/v1beta/models/:generateContent", [KEY]),
        (404, "GET", "/v1/models/nobody", [KEY]),
        (404, "GET", "/v1/health/providers", [KEY]),
    ],
)
def test_every_response_to_an_allowed_origin_may_be_read(
    status: int, method: str, path: str, headers: list[str]
) -> None:
    client = Client(CLOSED)
    for _ in range(3):
        response = client.ask(HOST, PAGE, *headers, method=method, path=path)
        assert int(response.split(b" ")[1]) == status
        assert said(response) == READABLE
        assert b"credentials" not in response.lower()
    assert said(client.ask(HOST, OTHER, *headers, method=method, path=path)) == {}
    assert said(client.ask(HOST, *headers, method=method, path=path)) == {}


def test_a_refused_body_may_be_read() -> None:
    client = Client(f"{CLOSED}max_body_bytes: 10\n")
    response = client.ask(HOST, PAGE, KEY)
    assert response.startswith(b"HTTP/1.1 413 ")
    assert said(response) == READABLE


def test_what_a_drain_refuses_may_be_read() -> None:
    client = Client(CLOSED)
    client.harness.server.drain()
    response = client.ask(HOST, PAGE, KEY)
    assert (response[:13], said(response)) == (b"HTTP/1.1 503 ", READABLE)


FROM_UPSTREAM: Final = (
    b"Content-Type: application/json\r\nAccess-Control-Allow-Origin: *\r\n"
    b"access-control-expose-headers: X-Up\r\nACCESS-CONTROL-ALLOW-CREDENTIALS: true\r\n"
    b"Vary: Accept-Encoding\r\nX-Up: 1\r\n"
)


@pytest.mark.parametrize("length", [b"Content-Length: %d\r\n" % len(ANSWER), b""])
def test_what_a_provider_says_of_origins_is_replaced(length: bytes) -> None:
    client = Client(CLOSED)
    chunked = b"" if length else b"Transfer-Encoding: chunked\r\n"
    body = ANSWER if length else b"%x\r\n%b\r\n0\r\n\r\n" % (len(ANSWER), ANSWER)
    for _ in range(4):
        response = answer_with(client, FROM_UPSTREAM + length + chunked, PAGE, KEY, body=body)
        head = response.partition(b"\r\n\r\n")[0]
        values = re.findall(rb"(?im)^(access-control-[^\r]*)\r?$", head)
        assert sorted(values) == [
            b"Access-Control-Allow-Origin: https://app.example.com",
            b"Access-Control-Expose-Headers: *",
        ]
        assert re.findall(rb"(?m)^Vary: ([^\r]*)\r?$", head) == [b"Accept-Encoding", b"Origin"]
        assert b"\r\nX-Up: 1\r\n" in head
        assert ANSWER in response


def test_what_a_provider_says_of_origins_does_not_reach_pages_of_others() -> None:
    length = b"Content-Length: %d\r\n" % len(ANSWER)
    response = answer_with(Client(CLOSED), FROM_UPSTREAM + length, OTHER, KEY)
    assert said(response) == {"vary": "Accept-Encoding"}
    for text, headers in ((CLOSED, [KEY]), (PLAIN, [PAGE, KEY])):
        response = answer_with(Client(text), FROM_UPSTREAM + length, *headers)
        assert said(response)["access-control-allow-origin"] == "*"


def test_a_stream_may_be_read_while_it_comes() -> None:
    client = Client(CLOSED)
    head = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
    response = answer_with(client, head, PAGE, KEY, body=b"8\r\ndata: 1\n\r\n")
    assert said(response) == READABLE
    assert response.endswith(b"8\r\ndata: 1\n\r\n")


def test_no_origin_goes_upstream_though_it_is_forwarded() -> None:
    text = CLOSED.replace("  main: {", "  main: {headers: {forward: [origin, x-tag]}, ", 1)
    client = Client(text)
    for _ in range(3):
        assert client.status(HOST, PAGE, KEY, "X-Tag: 1") == 200
    heads = upstream_heads(client.harness)
    assert all(b"X-Tag: 1" in head for head in heads)
    assert not any(b"origin" in head.lower() for head in heads)


@pytest.mark.parametrize("path", ["/v1/realtime?model=main/gpt-c", "/v1/responses"])
def test_a_websocket_is_not_concerned(path: str) -> None:
    client = Client(CLOSED)
    response = client.ask(HOST, PAGE, *UPGRADE, path=path, method="GET")
    assert (response[:13], said(response)) == (b"HTTP/1.1 401 ", {})
    response = client.ask(HOST, PAGE, ASKED, *UPGRADE, path=path, method="OPTIONS")
    assert (response[:13], said(response)) == (b"HTTP/1.1 401 ", {})
    client = Client(f"{THREE_FAMILIES}cors: {{{ORIGINS}}}\n")
    response = client.ask("Host: localhost", PAGE, *UPGRADE, path=path, method="GET")
    assert response.startswith(b"HTTP/1.1 403 ")  # sessions have origins of their own
    assert b"realtime.origins" in response


def test_without_edge_auth_a_preflight_keeps_the_rules_of_this_machine() -> None:
    client = Client(f"{THREE_FAMILIES}cors: {{{ORIGINS}}}\n")
    assert client.status("Host: localhost", PAGE, ASKED, method="OPTIONS") == 204
    assert client.status("Host: evil.example", PAGE, ASKED, method="OPTIONS") == 421
    assert client.status("Host: localhost", OTHER, ASKED, method="OPTIONS") == 403
    assert client.status("Host: localhost", OTHER) == 403
    assert client.status("Host: localhost", PAGE) == 200
    assert said(client.ask("Host: evil.example", PAGE)) == READABLE
    assert client.status("Host: gw", OTHER, ASKED, method="OPTIONS", peer="10.0.0.9") == 405


def test_a_reload_takes_the_rules_along() -> None:
    client = Client(PLAIN)
    for text, expected in ((PLAIN, {}), (CLOSED, READABLE), (PLAIN, {})):
        reload(client.harness, text)
        for _ in range(3):
            assert said(client.ask(HOST, PAGE, KEY)) == expected


def test_a_body_behind_a_preflight_is_not_the_next_request() -> None:
    client = Client(CLOSED)
    response = preflight(client, PAGE, ASKED, "Content-Length: 4")
    client.harness.send(b"GET ")
    client.harness.send(b"GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n")
    rest = response + client.harness.received()
    assert rest.count(b"HTTP/1.1 ") == 2
    assert client.harness.observer.lines == [("OPTIONS", CHAT, 204), ("GET", "/healthz", 200)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{THREE_FAMILIES}cors: {{{ORIGINS}}}\n", "pages of these origins can use the providers' keys"),
        (f'{THREE_FAMILIES}cors: {{origins: ["*"]}}\n', "any web page can use the providers' keys"),
        (CLOSED, ""),
        (f"{THREE_FAMILIES}cors: {{max_age: 5}}\n", ""),
    ],
)
def test_the_check_warns_of_pages_without_keys(text: str, expected: str) -> None:
    found = [warning for warning in warnings(parse(text, "mgw.yaml", {})) if "cors" in warning]
    assert bool(found) == bool(expected)
    assert all(expected in warning for warning in found)
