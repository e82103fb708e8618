"""The credential that a provider gets: its own, in its own place, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.gateway import CANARY, GatewayProcess, start_gateway
from tests.support.operations import ask
from tests.support.raw_client import CHAT, asking, chunk
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Turn, counted

EDGE: Final = b"x-api-key: edge-canary-1"
MESSAGES: Final = "/v1/messages"


def providers_of(upstream: RawUpstream, tmp_path: Path) -> str:
    return f"""
providers:
  bearer: {{kind: anthropic, base_url: "{upstream.url}/v1", auth: bearer, api_key: token-canary-1}}
  passed: {{kind: anthropic, base_url: "{upstream.url}/v1", auth: client_bearer}}
  open: {{kind: openai, base_url: "{upstream.url}/v1"}}
  own: {{kind: anthropic, base_url: "{upstream.url}/v1"}}
  google: {{kind: gemini, base_url: "{upstream.url}/v1beta"}}
  filed: {{kind: openai, base_url: "{upstream.url}/v1", token_file: "{tmp_path}/token"}}
edge_auth: {{enabled: true, keys: [edge-canary-1]}}
"""


CREDENTIALS: Final = (b"authorization", b"x-api-key", b"x-goog-api-key", b"cookie", b"proxy-authorization")


def credentials_of(turn: Turn) -> dict[bytes, bytes]:
    return {name.lower(): value for name, value in turn.headers if name.lower() in CREDENTIALS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tokens")


@pytest.fixture(scope="module")
def before(upstream: RawUpstream, folder: Path) -> Iterator[GatewayProcess]:
    """A gateway before the scripted provider."""
    (folder / "token").write_text("token-canary-old\n")
    with start_gateway(providers_of(upstream, folder)) as process:
        yield process


@pytest.mark.parametrize(
    ("path", "model", "headers", "expected"),
    [
        (MESSAGES, "bearer/m", (EDGE,), {b"authorization": b"Bearer token-canary-1"}),
        (
            MESSAGES,
            "passed/m",
            (EDGE, b"Authorization: Bearer own-canary"),
            {b"authorization": b"Bearer own-canary"},
        ),
        (
            CHAT,
            "open/m",
            (EDGE, b"Authorization: Bearer own-canary"),
            {b"authorization": b"Bearer own-canary"},
        ),
        (
            MESSAGES,
            "own/m",
            (b"x-api-key: own-canary", b"Authorization: Bearer edge-canary-1"),
            {b"x-api-key": b"own-canary"},
        ),
        (
            "/v1beta/models/google/m:generateContent?key=own-canary",
            "",
            (EDGE,),
            {b"x-goog-api-key": b"own-canary"},
        ),
        (
            "/v1beta/models/google/m:generateContent?key=edge-canary-1",
            "",
            (b"x-goog-api-key: own-canary",),
            {b"x-goog-api-key": b"own-canary"},
        ),
    ],
    ids=[
        "bearer",
        "client bearer",
        "own bearer",
        "own x-api-key",
        "own key of a query",
        "edge key in a query",
    ],
)
def test_the_provider_gets_its_credential_in_its_own_place_and_no_other(
    before: GatewayProcess,
    upstream: RawUpstream,
    path: str,
    model: str,
    headers: tuple[bytes, ...],
    expected: dict[bytes, bytes],
) -> None:
    upstream.begin()
    more = (*headers, b"Cookie: a=cookie-canary", b"Proxy-Authorization: Basic proxy-canary")
    assert ask(before.port, path, *more, body=asking(model)).status == 200
    (turn,) = upstream.turns
    assert credentials_of(turn) == expected
    assert CANARY not in turn.target.encode()
    assert b"edge-canary" not in repr(turn.headers).encode() + turn.body


def repeating(turn: Turn) -> None:
    """Refuse the key, and repeat it in two pieces of the answer."""
    key = (turn.value(b"authorization") or b"").removeprefix(b"Bearer ")
    head = b"HTTP/1.1 401 No\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    turn.send(head + chunk(b'{"error":{"message":"wrong: ' + key[:5]))
    turn.send(chunk(key[5:] + b'"}}'), chunk(b""))


@pytest.mark.parametrize(
    ("model", "told"),
    [("bearer/m", b"*" * len("token-canary-1")), ("passed/m", b"own-canary-1")],
    ids=["the operator's", "the client's"],
)
def test_the_operators_key_is_overwritten_where_the_provider_repeats_it(
    before: GatewayProcess, upstream: RawUpstream, model: str, told: bytes
) -> None:
    upstream.begin(repeating)
    response = ask(before.port, MESSAGES, EDGE, b"Authorization: Bearer own-canary-1", body=asking(model))
    assert (response.status, response.body) == (401, b'{"error":{"message":"wrong: ' + told + b'"}}')


@pytest.mark.parametrize(
    ("path", "model", "word"),
    [(CHAT, "open/m", "open"), (MESSAGES, "own/m", "own"), (MESSAGES, "passed/m", "passed")],
)
def test_without_a_key_left_the_refusal_names_the_provider(
    before: GatewayProcess, upstream: RawUpstream, path: str, model: str, word: str
) -> None:
    upstream.begin()
    response = ask(before.port, path, EDGE, body=asking(model))
    assert response.status == 401
    assert f"provider '{word}'" in response.json()["error"]["message"]
    if path == CHAT:
        assert response.json()["error"]["code"] == "no_provider_key"
    assert not upstream.turns


def test_a_rotated_token_file_is_read_again_after_a_401(
    before: GatewayProcess, upstream: RawUpstream, folder: Path
) -> None:
    def rotate(turn: Turn) -> None:
        assert turn.body
        if turn.value(b"authorization") == b"Bearer token-canary-new":
            turn.send(counted(COMPLETION, JSON))
            return
        (folder / "token").write_text("token-canary-new\n")
        turn.send(counted(b"{}", JSON, status=401))

    upstream.begin(rotate)
    response = ask(before.port, CHAT, EDGE, body=asking("filed/m"))
    assert (response.status, response.body) == (200, COMPLETION)
    assert [turn.value(b"authorization") for turn in upstream.turns] == [
        b"Bearer token-canary-old",
        b"Bearer token-canary-new",
    ]
    events = before.stdout.wait_for(
        lambda data: [line for line in data.splitlines() if b'"model":"filed/m"' in line], 10, "the event"
    )
    assert b'"attempts":2' in events[-1]


def test_a_401_stays_the_upstreams_own_where_the_file_has_no_other_token(
    before: GatewayProcess, upstream: RawUpstream
) -> None:
    def refuse(turn: Turn) -> None:
        assert turn.body
        turn.send(counted(b'{"error": {"message": "go away"}}', JSON, status=401))

    upstream.begin(refuse)
    response = ask(before.port, CHAT, EDGE, body=asking("filed/other"))
    assert (response.status, response.body) == (401, b'{"error": {"message": "go away"}}')
    assert len(upstream.turns) == 1


WRAPPED: Final = (
    *(b'"edge-canary-1"', b"'edge-canary-1'", b"\tedge-canary-1", b"edge-canary-1%0A", b"edge%2Dcanary%2D1"),
    *(b"+edge-canary-1+", b"Bearer edge-canary-1", b"edge-canary-1,edge-canary-1", b"edge-canary-1;"),
)
IN_QUERIES: Final = (
    "%20edge-canary-1",
    "+edge-canary-1",
    "%22edge-canary-1%22",
    "edge-canary-1%0A",
    "%2565dge-canary-1",
)
OWN_ROUTES: Final = (
    (CHAT, "open/m", (b"Authorization: Bearer ",)),
    (MESSAGES, "own/m", (b"Authorization: Bearer ", b"x-api-key: ")),
    (MESSAGES, "passed/m", (b"Authorization: Bearer ",)),
    ("/v1beta/models/google/m:generateContent", "", (b"Authorization: Bearer ", b"x-goog-api-key: ")),
)


@pytest.mark.parametrize(
    ("path", "model", "carriers"), OWN_ROUTES, ids=[row[1] or "google" for row in OWN_ROUTES]
)
def test_a_wrapped_edge_key_reaches_no_provider(
    before: GatewayProcess, upstream: RawUpstream, path: str, model: str, carriers: tuple[bytes, ...]
) -> None:
    upstream.begin()
    body = asking(model)
    for wrapped in WRAPPED:
        for carrier in carriers:
            alone = ask(before.port, path, carrier + wrapped, body=body)
            assert alone.status == 401, (carrier, wrapped)
            assert CANARY not in alone.body
            other = b"Authorization: Bearer edge-canary-1" if carrier == b"x-api-key: " else EDGE
            beside = ask(before.port, path, other, carrier + wrapped, body=body)
            assert beside.status == 401, (carrier, wrapped)  # let in, with nothing left to send
            assert "provider" in beside.body.decode()
    for value in IN_QUERIES:
        assert ask(before.port, f"{path}?key={value}", body=body).status == 401, value
        ask(before.port, f"{path}?key={value}", EDGE, b"Authorization: Bearer own-canary", body=body)
    ask(
        before.port,
        path,
        EDGE,
        b"Authorization: Bearer own-canary",
        b"Referer: http://g/?key=edge-canary-1",
        body=body,
    )
    for turn in upstream.turns:
        sent = f"{turn.target}{turn.headers!r}".encode()
        assert b"edge" not in sent, sent
        assert b"own-canary" in sent


def test_a_bearer_credential_with_a_blank_is_called_so(before: GatewayProcess) -> None:
    for path, model in ((CHAT, "open/m"), (MESSAGES, "passed/m")):
        response = ask(before.port, path, EDGE, b"Authorization: Bearer two canary", body=asking(model))
        assert response.status == 401
        assert "the credential after Bearer contains a space" in response.json()["error"]["message"]


def test_a_key_in_the_query_opens_geminis_routes_alone(before: GatewayProcess, upstream: RawUpstream) -> None:
    upstream.begin()
    own = b"Authorization: Bearer own-canary"
    assert ask(before.port, f"{CHAT}?key=edge-canary-1", own, body=asking("open/m")).status == 401
    assert ask(before.port, "/metrics?key=edge-canary-1").status == 401
    gemini = "/v1beta/models/google/m:generateContent?key=edge-canary-1"
    assert ask(before.port, gemini, b"x-goog-api-key: own-canary", body=b"{}").status == 200
    ordinary = ask(before.port, f"{CHAT}?a=1&key=edge-canary-1&key=x", EDGE, own, body=asking("open/m"))
    assert ordinary.status == 200
    assert [turn.target for turn in upstream.turns][1:] == ["/v1/chat/completions?a=1&key=x"]
