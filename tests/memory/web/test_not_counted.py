"""What counts toward no limit, and that nothing stays held of requests that the gateway refuses."""

from __future__ import annotations

import gzip
from typing import Final

import pytest

from mgw.clients.client import clients_of
from mgw.clients.limits import RowState
from tests.support.channels import get
from tests.support.channels import post as posted
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON
from tests.support.memory_sessions import RESPONSES, SessionHarness
from tests.support.raw_sessions import frame
from tests.support.web_servers import WebServerHarness

TEXT: Final = (
    THREE_FAMILIES
    + """
max_body_bytes: 100000
routes: {deny: [batches]}
prices: {rows: [{model: "*", input: 1, output: 1}]}
edge_auth:
  enabled: true
  limits: [{tokens: 1000000, per: day, count: before}]
  keys:
    - name: alice
      key: edge
      models: [main/m, "gem/*", "claude/*"]
      limits: [{requests: 9, per: day}, {usd: 5, per: month}, {in_flight: 9}, {requests: 1, per: minute}]
"""
)
KEY: Final = "x-api-key: edge"


def post(body: bytes, *headers: str, path: str = "/v1/chat/completions") -> bytes:
    return posted(body, *headers, path=path)


CHAT: Final = b'{"model":"main/m","messages":[{"role":"user","content":"hi"}]}'
FREE: Final = {
    "models": get("/v1/models", KEY),
    "a model": get("/v1/models/main/m", KEY),
    "models of Gemini": get("/v1beta/models", KEY),
    "a model of Gemini": get("/v1beta/models/gem-x", KEY),
    "health": get("/healthz", KEY),
    "readiness": get("/readyz", KEY),
    "metrics": get("/metrics", KEY),
    "the root": get("/", KEY),
    "the dashboard": get("/v1/dashboard/limits", KEY),
    "the dashboard's usage": get("/v1/dashboard/usage", KEY),
    "a count of tokens": post(
        b'{"model":"main/m","messages":[]}', KEY, JSON, path="/v1/messages/count_tokens"
    ),
    "a count of input": post(
        b'{"model":"main/m","input":"hi"}', KEY, JSON, path="/v1/responses/input_tokens"
    ),
    "a count of Gemini's": post(b'{"contents":[]}', KEY, JSON, path="/v1beta/models/main/m:countTokens"),
}
REFUSED: Final = {
    "no key": post(CHAT, JSON),
    "a wrong key": post(CHAT, "x-api-key: other", JSON),
    "no path": post(CHAT, KEY, JSON, path="/v1/nowhere"),
    "a wrong method": post(CHAT, KEY, JSON).replace(b"POST", b"PATCH", 1),
    "a denied route": post(CHAT, KEY, JSON, path="/v1/batches"),
    "an unknown model": post(CHAT.replace(b"main/m", b"nobody/m"), KEY, JSON),
    "a model of others": post(CHAT.replace(b"main/m", b"host/m"), KEY, JSON),
    "no model": post(b"{}", KEY, JSON),
    "no JSON": post(b"{", KEY, JSON),
    "a body that is too large": post(CHAT + b" " * 100_000, KEY, JSON),
    "a body that unfolds": post(gzip.compress(CHAT + b" " * 200_000), KEY, JSON, "Content-Encoding: gzip"),
    "no coding": post(CHAT, KEY, JSON, "Content-Encoding: gzip"),
    "conversations": post(b"{}", KEY, JSON, path="/v1/conversations"),
    "a job without a price": post(b"{}", KEY, JSON, path="/v1/fine_tuning/jobs"),
    "no form": post(CHAT, KEY, "Content-Type: multipart/form-data; boundary=x", path="/v1/images/edits"),
    "no translation": post(CHAT.replace(b"main/m", b"claude/m"), KEY, JSON, path="/v1/completions"),
}


def used(harness: WebServerHarness) -> list[tuple[str, int, int]]:
    """What of each row is used and held."""
    states = harness.counts.state()
    assert isinstance(states, list)
    return [(state.limit.name, state.used, state.reserved) for state in states if _is_touched(state)]


def has_room(harness: WebServerHarness) -> bool:
    """Whether the row of a minute has room for its one request."""
    (client,) = clients_of(harness.generation.config.edge_auth)
    return harness.counts.find_full(client.limits) is None


def _is_touched(state: RowState) -> bool:
    return bool(state.used or state.reserved)


@pytest.mark.parametrize("name", FREE)
def test_what_only_looks_up_or_counts_is_not_counted(name: str) -> None:
    harness = WebServerHarness(TEXT)
    harness.send(FREE[name])
    assert used(harness) == []
    assert has_room(harness)
    assert harness.counts.in_flight("alice") == 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_not_counted_and_holds_nothing(name: str) -> None:
    harness = WebServerHarness(TEXT)
    harness.send(REFUSED[name])
    assert harness.status() >= 400
    assert harness.pipeline.endpoint.connections == []
    assert used(harness) == []
    assert has_room(harness)
    assert harness.counts.in_flight("alice") == 0


def test_the_same_request_is_counted_where_it_is_good() -> None:
    harness = WebServerHarness(TEXT)
    harness.send(post(CHAT, KEY, JSON))
    held = {name for name, _, reserved in used(harness) if reserved}
    assert held == {"requests_per_day", "usd_per_month", "tokens_per_day"}
    assert not has_room(harness)


@pytest.mark.parametrize("size", range(0, len(post(CHAT, KEY, JSON)), 7))
def test_a_client_that_leaves_at_any_byte_leaves_nothing_held(size: int) -> None:
    harness = WebServerHarness(TEXT)
    harness.send(post(CHAT, KEY, JSON)[:size])
    harness.leave()
    assert [held for _, _, held in used(harness) if held] == []
    assert harness.counts.in_flight("alice") == 0


def test_a_client_that_leaves_before_an_answer_leaves_nothing_held() -> None:
    harness = WebServerHarness(TEXT)
    harness.send(post(CHAT, KEY, JSON))
    harness.leave()
    assert used(harness) == [("requests_per_day", 1, 0)]
    assert harness.counts.in_flight("alice") == 0


def test_a_body_that_stops_arriving_leaves_nothing_held() -> None:
    harness = WebServerHarness(TEXT)
    harness.send(post(CHAT, KEY, JSON)[:-3])
    for _ in range(400):
        harness.clock.advance(1)
    assert harness.status() == 408
    assert used(harness) == []
    assert has_room(harness)
    assert harness.counts.in_flight("alice") == 0


@pytest.mark.parametrize(
    "first",
    [
        b'{"type":"response.create","model":"nobody/m"}',
        b'{"type":"response.create"}',
        b"{",
    ],
)
def test_a_socket_that_is_refused_is_not_counted(first: bytes) -> None:
    session = SessionHarness(RESPONSES, TEXT)
    session.take_head()
    session.channel.dataReceived(frame(0x81, first))
    assert session.pipeline.endpoint.connections == []
    assert used(session) == []
    assert session.counts.in_flight("alice") == 0


def test_of_known_requests_a_model_that_is_stated_twice_is_replaced_as_well() -> None:
    harness = WebServerHarness(
        TEXT.replace('models: [main/m, "gem/*", "claude/*"]', "").replace("9, per: d", "99, per: d")
    )
    twice = CHAT.replace(b'{"model":"main/m"', b'{"model":"dear","model":"cheap"')
    for body in (CHAT.replace(b"main/m", b"cheap"), twice, twice):
        harness.send(post(body, KEY, JSON))
        harness.connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        harness.clock.advance(61)
    received = b"".join([one.received for one in harness.pipeline.endpoint.connections])
    assert received.count(b'"model":"cheap"') == 5
    assert b"dear" not in received
