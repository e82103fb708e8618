"""Keys with names, models and limits; nothing refused ever reaches a provider."""

from __future__ import annotations

import re
import sys
from hashlib import sha256
from types import FrameType

import pytest

from mgw.clients.client import ClientRegistry
from mgw.clients.local_counts import LocalCounts
from mgw.usage.event import Outcome
from tests.memory.web.test_admission import known, reload, serve, upstream_heads
from tests.support.channels import LIMITS, get, post
from tests.support.configs import THREE_FAMILIES, config
from tests.support.exchanges import JSON
from tests.support.in_memory.measure import collector_off
from tests.support.memory_sessions import LIVE, RESPONSES, SETUP, SessionHarness
from tests.support.pipelines import answered
from tests.support.raw_sessions import frame
from tests.support.web_servers import WebServerHarness, settled

LONG = "edge-canary-of-carol-0001"
NAMED = f"""
edge_auth:
  enabled: true
  keys:
    - plain
    - {{name: alice, key: edge, models: ["fast", "MAIN/gpt-c*", "claude/*", "gem/good*"]}}
    - {{name: busy, key: key-busy, max_in_flight: 1}}
    - {{name: slow, key: key-slow, requests_per_minute: 2}}
    - {{name: token, key: key-token, tokens_per_minute: 10}}
    - {{name: carol, sha256: {sha256(LONG.encode()).hexdigest()}}}
    - {{name: nobody, key: key-nobody, models: []}}
"""
TEXT = THREE_FAMILIES + NAMED
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
NEW_AND_KNOWN = pytest.mark.usefixtures("heads")


def server() -> WebServerHarness:
    return WebServerHarness(TEXT)


def body(model: str) -> bytes:
    return b'{"model":"%b","messages":[{"role":"user","content":"hi"}],"max_tokens":9}' % model.encode()


def ask(key: str, model: str = "gpt-b", path: str = CHAT) -> bytes:
    return post(body(model), f"x-api-key: {key}", JSON, path=path)


def status(response: bytes) -> int:
    return int(response.split(b" ")[1])


def retry_after(response: bytes) -> int | None:
    found = re.search(rb"\r\nRetry-After: (\d+)\r\n", response)
    return None if found is None else int(found[1])


@NEW_AND_KNOWN
@pytest.mark.parametrize(
    ("key", "client"),
    [("edge", "alice"), ("plain", f"sha256:{sha256(b'plain').hexdigest()[:12]}"), (LONG, "carol")],
)
def test_an_event_names_the_client(key: str, client: str) -> None:
    harness = server()
    for _ in range(3):
        assert status(serve(harness, ask(key, "fast"))) == 200
    assert [event.client for event in harness.observer.events] == [client] * 3


def test_without_edge_auth_events_name_nobody() -> None:
    harness = server()
    reload(harness, TEXT.replace("enabled: true", "enabled: false"))
    serve(harness, ask("edge", "fast"))
    assert harness.event.client is None


@NEW_AND_KNOWN
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("model", ["gpt-b", "host/gpt-c", "main/gpt-b", "smarter", "gem/bad"])
def test_a_model_outside_the_patterns_is_not_there_for_that_key(path: str, model: str) -> None:
    harness = server()
    if path == MESSAGES and "/" not in model:
        model = "host/" + model
    for number in range(4):
        serve(harness, ask("plain", model, path))  # whom it is there for
        response = serve(harness, ask("edge", model, path))
        assert status(response) == 404
        assert b"model_not_found" in response or b"not_found_error" in response
        event = harness.observer.events[-1]
        assert (event.status, event.error, event.attempts) == (Outcome.REJECTED, "model_not_found", 0)
        assert (event.client, event.model) == ("alice", model)
        assert len(upstream_heads(harness)) <= number + 1
    assert settled(harness) == (0, 0, 0)


@NEW_AND_KNOWN
@pytest.mark.parametrize("model", ["fast", "gpt-c", "gpt-C-mini", "main/gpt-c", "claude/any"])
def test_a_model_fits_by_its_name_or_by_what_it_stands_for(model: str) -> None:
    harness = server()
    for _ in range(3):
        assert status(serve(harness, ask("edge", model))) in (200, 502)
    assert all(event.attempts == 1 for event in harness.observer.events)


def test_a_model_that_one_client_may_use_does_not_become_known_to_another() -> None:
    harness = server()
    for _ in range(3):
        assert status(serve(harness, ask("plain", "gpt-b"))) == 200
    assert known(harness, ask("plain", "gpt-b")) is not None
    assert status(serve(harness, ask("edge", "gpt-b"))) == 404
    assert status(serve(harness, ask("edge", "fast"))) == 200


@NEW_AND_KNOWN
@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        ("/v1/messages/count_tokens", body("claude/x"), 200),
        ("/v1/messages/count_tokens", body("main/gpt-b"), 404),
        ("/v1beta/models/good:countTokens", b'{"contents":[]}', 200),
        ("/v1beta/models/bad:countTokens", b'{"contents":[]}', 404),
        ("/v1beta/models/bad:generateContent", b'{"contents":[]}', 404),
        ("/v1beta/models/good:batchEmbedContents", b'{"requests":[{"model":"models/good"}]}', 200),
        ("/v1beta/models/good:batchEmbedContents", b'{"requests":[{"model":"models/bad"}]}', 404),
        ("/v1/embeddings", b'{"model":"gpt-b","input":"x"}', 404),
        ("/v1/responses", b'{"model":"gpt-b","input":"x"}', 404),
        ("/v1/audio/speech", b'{"model":"gpt-b","input":"x","voice":"a"}', 404),
        ("/v1/images/generations", b'{"model":"gpt-b","prompt":"x"}', 404),
        ("/v1/messages/batches", b'{"requests":[{"params":{"model":"claude-x"}}]}', 200),
        ("/v1/messages/batches", b'{"requests":[{"params":{"model":"fast"}},{"params":{"model":"a"}}]}', 400),
    ],
)
def test_models_are_looked_at_wherever_they_stand(path: str, content: bytes, expected: int) -> None:
    harness = server()
    for _ in range(3):
        response = serve(harness, post(content, "x-api-key: edge", JSON, path=path))
        assert status(response) == expected, response
        assert bool(upstream_heads(harness)) == (expected == 200)


def test_every_model_of_a_batch_is_looked_at() -> None:
    harness = server()
    reload(harness, TEXT.replace('"claude/*"', '"claude/a*"'))
    content = b'{"requests":[{"params":{"model":"claude/a1"}},{"params":{"model":"claude/b1"}}]}'
    response = serve(harness, post(content, "x-api-key: edge", JSON, path="/v1/messages/batches"))
    assert status(response) == 404
    assert b"requests.1.params.model" in response or b"claude/b1" in response
    assert not upstream_heads(harness)


def test_a_target_of_an_alias_that_the_key_may_not_use_is_passed_over() -> None:
    harness = server()
    more = TEXT.replace("  fast: main/gpt-b", "  both: [main/gpt-c, host/x]\n  fast: main/gpt-b")
    reload(harness, more)
    harness.connect()
    harness.send(ask("edge", "both"))
    harness.connection.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    assert harness.status() == 503
    assert len(upstream_heads(harness)) == 1


@pytest.mark.parametrize(
    ("path", "header"),
    [("/v1/models", "x-a: b"), ("/v1beta/models", "x-a: b")],
)
def test_a_list_of_models_has_those_of_the_key(path: str, header: str) -> None:
    harness = server()
    text = serve(harness, get(path, "x-api-key: edge", header, method="GET")).decode()
    ids = re.findall(r'"(?:id|name)":"(?:models/)?([^"]+)"', text)
    assert ids == ["fast", "smart", "claude/claude-x", "main/gpt-c"]
    text = serve(harness, get(path, "x-api-key: key-nobody", header, method="GET")).decode()
    assert "200 OK" in text
    assert "gpt" not in text


@pytest.mark.parametrize(
    ("name", "expected"), [("fast", 200), ("main/gpt-c", 200), ("main/gpt-b", 404), ("slashed/name", 404)]
)
def test_a_single_model_is_there_for_the_key_or_not(name: str, expected: int) -> None:
    harness = server()
    response = serve(harness, get(f"/v1/models/{name}", "x-api-key: edge", method="GET"))
    assert status(response) == expected


def test_a_full_window_refuses_until_there_is_room() -> None:
    harness = server()
    assert status(serve(harness, ask("key-slow"))) == 200
    harness.clock.advance(10)
    assert status(serve(harness, ask("key-slow"))) == 200
    harness.clock.advance(10)
    for _ in range(5):
        response = serve(harness, ask("key-slow"))
        assert (status(response), retry_after(response)) == (429, 40)
        event = harness.observer.events[-1]
        assert (event.status, event.error, event.attempts) == (Outcome.REJECTED, "rate_limit_exceeded", 0)
    harness.clock.advance(39)
    assert retry_after(serve(harness, ask("key-slow"))) == 1
    harness.clock.advance(1)
    assert status(serve(harness, ask("key-slow"))) == 200
    assert retry_after(serve(harness, ask("key-slow"))) == 10
    assert status(serve(harness, ask("plain"))) == 200
    assert len(upstream_heads(harness)) == 4
    assert settled(harness) == (0, 0, 0)


CHUNKED = post(b"", "x-api-key: key-slow", JSON, "Transfer-Encoding: chunked", path=CHAT).replace(
    b"Content-Length: 0\r\n", b""
) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body("gpt-b")), body("gpt-b"))


@NEW_AND_KNOWN
@pytest.mark.parametrize("data", [ask("key-slow"), CHUNKED], ids=["sized", "chunked"])
def test_a_full_window_leaves_the_connection_open_where_the_whole_body_has_come(data: bytes) -> None:
    harness = server()
    for _ in range(2):
        serve(harness, ask("key-slow"))
    harness.connect()
    for number in range(3):
        harness.send(data)
        answers = harness.received()
        assert answers.count(b"HTTP/1.1 429 ") == number + 1
        assert b"Connection: close" not in answers
    harness.send(data + ask("plain") + data)  # and what stands behind it is the next request
    harness.connection.send(answered())
    answers = harness.received()
    assert re.findall(rb"HTTP/1.1 (\d+) ", answers) == [b"429"] * 4 + [b"200", b"429"]
    assert not harness.transport.disconnecting


@NEW_AND_KNOWN
def test_a_full_window_closes_the_connection_where_more_of_the_body_may_come() -> None:
    harness = server()
    for _ in range(2):
        serve(harness, ask("key-slow"))
    long = post(b" " * 65_537, "x-api-key: key-slow", JSON, path=CHAT)[:-1]
    waiting = post(b"{}", "x-api-key: key-slow", JSON, "Expect: 100-continue", path=CHAT)[:-2]
    for data in (CHUNKED[:-1], CHUNKED.replace(b"\r\n0\r\n\r\n", b"\r\n0x\r\n\r\n"), long, waiting):
        harness.connect()
        harness.send(data)
        assert harness.status() == 429
        assert b"Connection: close" in harness.received()


@NEW_AND_KNOWN
def test_the_rest_of_a_short_body_is_awaited_before_a_full_window_refuses() -> None:
    harness = server()
    for _ in range(2):
        serve(harness, ask("key-slow"))
    harness.connect()
    data = ask("key-slow")
    for number in range(3):
        head_ends = data.index(b"\r\n\r\n") + 4
        harness.send(data[:head_ends])
        harness.channel.dataReceived(data[head_ends:-1])
        assert harness.received().count(b"HTTP/1.1 429 ") == number
        harness.channel.dataReceived(data[-1:])
        assert harness.received().count(b"HTTP/1.1 429 ") == number + 1
    assert b"Connection: close" not in harness.received()
    assert {event.error for event in harness.observer.events[2:]} == {"rate_limit_exceeded"}
    harness.send(data[:-1])
    harness.clock.advance(LIMITS.client_body_idle)
    assert b"HTTP/1.1 408 " in harness.received()
    assert settled(harness)[0] == 0


def test_what_the_gateway_refuses_fills_no_window() -> None:
    harness = server()
    for _ in range(6):
        assert status(serve(harness, ask("key-slow", "mute/x"))) == 403
        assert status(serve(harness, post(b"{", "x-api-key: key-slow", JSON, path=CHAT))) == 400
    assert status(serve(harness, ask("key-slow"))) == 200


@NEW_AND_KNOWN
def test_tokens_count_when_they_are_known() -> None:
    harness = server()
    usage = b'{"usage":{"prompt_tokens":7,"completion_tokens":4,"total_tokens":11}}'
    harness.connect()
    harness.send(ask("key-token"))
    harness.clock.advance(5)
    harness.connection.send(answered(usage))
    assert harness.status() == 200
    harness.leave()
    response = serve(harness, ask("key-token"))
    assert (status(response), retry_after(response)) == (429, 60)
    harness.clock.advance(60)
    assert status(serve(harness, ask("key-token"))) == 200


def test_a_window_ends_after_exactly_60_seconds() -> None:
    harness = server()
    for _ in range(2):
        assert status(serve(harness, ask("key-slow"))) == 200
    usage = b'{"usage":{"prompt_tokens":6,"completion_tokens":4,"total_tokens":10}}'
    harness.connect()
    harness.send(ask("key-token"))
    harness.connection.send(answered(usage))
    harness.leave()
    harness.clock.advance(60 - 1 / 64)
    for key in ("key-slow", "key-token"):
        response = serve(harness, ask(key))
        assert (status(response), retry_after(response)) == (429, 1)
    harness.clock.advance(1 / 64)
    for key in ("key-slow", "key-token"):
        assert status(serve(harness, ask(key))) == 200


@NEW_AND_KNOWN
def test_a_request_in_flight_holds_its_place_until_it_ends() -> None:
    harness = server()
    harness.connect()
    harness.send(ask("key-busy"))
    first, connection = harness.channel, harness.connection
    response = serve_other(harness)
    assert (status(response), retry_after(response)) == (429, 1)
    connection.send(answered())
    assert first is not harness.channel
    assert status(serve(harness, ask("key-busy"))) == 200
    harness.connect()
    harness.send(ask("key-busy"))
    harness.leave()  # a client that leaves frees its place
    assert status(serve(harness, ask("key-busy"))) == 200


def serve_other(harness: WebServerHarness) -> bytes:
    """Send another request, without an answer of the provider to anybody."""
    harness.connect()
    harness.send(ask("key-busy"))
    return harness.received()


def test_windows_survive_a_reload_by_the_name_of_the_key() -> None:
    harness = server()
    for _ in range(2):
        serve(harness, ask("key-slow"))
    reload(harness, TEXT.replace("key: key-slow", "key: key-new"))
    assert status(serve(harness, ask("key-slow"))) == 401
    assert retry_after(serve(harness, ask("key-new"))) == 60
    reload(harness, TEXT.replace("requests_per_minute: 2", "requests_per_minute: 3"))
    assert status(serve(harness, ask("key-slow"))) == 200
    assert status(serve(harness, ask("key-slow"))) == 429
    reload(harness, TEXT.replace("name: slow", "name: quick"))
    assert status(serve(harness, ask("key-slow"))) == 200


def test_a_key_that_a_reload_removes_and_the_next_one_restores_has_lost_nothing() -> None:
    harness, renamed = server(), TEXT.replace("name: slow", "name: quick")
    for _ in range(2):
        serve(harness, ask("key-slow"))
    reload(harness, renamed)
    assert status(serve(harness, ask("key-slow"))) == 200
    reload(harness, TEXT)
    assert retry_after(serve(harness, ask("key-slow"))) == 60
    reload(harness, renamed)
    reload(harness, renamed)
    reload(harness, TEXT)
    assert retry_after(serve(harness, ask("key-slow"))) == 60


def calls_of(harness: WebServerHarness, key: str) -> int:
    """Return how many Python functions a request calls whose head and target are known."""
    for _ in range(3):
        assert status(serve(harness, ask(key, "fast"))) == 200
    harness.connect()
    count = 0

    def on_call(_frame: FrameType, what: str, _value: object) -> None:
        nonlocal count
        count += what == "call"

    with collector_off():  # Hypothesis counts its turns, in Python
        sys.setprofile(on_call)
        harness.channel.dataReceived(ask(key, "fast"))
        harness.connection.send(answered())
        sys.setprofile(None)
    assert harness.status() == 200
    harness.leave()
    return count


def test_a_name_costs_a_request_nothing_and_models_next_to_nothing() -> None:
    harness = server()
    plain = calls_of(harness, "plain")
    assert calls_of(harness, LONG) == plain
    assert calls_of(harness, "edge") <= plain + 14  # whose body is read as every provider does


def test_of_two_keys_the_one_in_authorization_counts() -> None:
    harness = server()
    for headers in (("x-api-key: plain", "Authorization: Bearer edge"), ("x-api-key: edge",)):
        serve(harness, post(body("fast"), *headers, JSON, path=CHAT))
    assert [event.client for event in harness.observer.events] == ["alice", "alice"]


def test_live_models_are_those_of_the_key() -> None:
    harness = server()
    harness.connect()
    listing = get("/v1/models?live=1", "x-api-key: edge", method="GET")
    harness.send(listing)
    harness.clock.advance(4)  # nobody answers in time
    assert b"main/gpt-c" in harness.received()
    assert b"main/gpt-b" not in harness.received()


def test_nothing_prints_a_key_or_its_digest() -> None:
    settings = config(TEXT).edge_auth
    registry = ClientRegistry(LocalCounts(lambda: 0.0))
    clients = registry.clients_of(settings)
    printed = repr((settings, list(clients.values()), registry, harness_objects()))
    for key in ("edge", "key-busy", "plain", LONG):
        digest = sha256(key.encode())
        assert digest.hexdigest() not in printed
        assert repr(digest.digest()) not in printed
    for key in ("key-busy", "key-slow", "key-token", "key-nobody", LONG):
        assert key not in printed


def harness_objects() -> list[object]:
    """What holds clients in a running server."""
    harness = server()
    serve(harness, ask(LONG))
    return [harness.observer.events, harness.server.gate, harness.server.registry]


def test_a_request_of_an_older_configuration_gives_its_place_back() -> None:
    harness = server()
    harness.connect()
    harness.send(ask("key-busy"))
    connection = harness.connection
    reload(harness, TEXT)
    assert status(serve_other(harness)) == 429
    connection.send(answered())
    assert status(serve(harness, ask("key-busy"))) == 200


def test_a_body_that_is_too_large_gives_its_place_back() -> None:
    harness = server()
    reload(harness, f"{TEXT}max_body_bytes: 200\n")
    large = post(b" " * 300, "x-api-key: key-busy", JSON, path=CHAT)
    assert [status(serve(harness, large)) for _ in range(3)] == [413] * 3
    assert status(serve(harness, ask("key-busy"))) == 200


def test_a_key_known_by_its_digest_is_hidden_from_its_first_use_on() -> None:
    harness = server()
    assert not harness.server.gate.learned
    wrapped = get(CHAT, f"Authorization: Bearer {LONG}", f"x-codex-a: see {LONG}", method="GET")
    serve(harness, wrapped)
    assert [key.reveal() for key in harness.server.gate.learned] == [LONG]
    harness.connect()
    harness.send(post(body("gpt-b"), f"x-api-key: {LONG}", f"x-codex-a: see {LONG}", JSON, path=CHAT))
    assert LONG.encode() not in b"".join(upstream_heads(harness))


def session_status(path: str, more: str = "") -> tuple[int, SessionHarness]:
    harness = SessionHarness(path, TEXT.replace("key: edge,", f"key: edge, {more}"))
    return int(harness.received().split(b" ")[1] or 0) if harness.received() else 0, harness


def test_a_session_with_a_model_that_is_not_there_is_refused_before_it_opens() -> None:
    found, harness = session_status("/v1/realtime?model=gpt-b")
    assert (found, harness.event.error, harness.event.client) == (404, "model_not_found", "alice")
    assert not upstream_heads(harness)
    assert session_status("/v1/realtime?model=gpt-c-voice")[0] == 0


def test_a_first_message_with_a_model_that_is_not_there_ends_the_session() -> None:
    harness = SessionHarness(LIVE, TEXT)
    harness.take_head()
    harness.channel.dataReceived(SETUP)
    assert harness.event.error == "model_not_found"
    assert not upstream_heads(harness)


def test_a_later_message_cannot_name_another_model() -> None:
    harness = SessionHarness(RESPONSES, TEXT)
    harness.take_head()
    harness.channel.dataReceived(frame(0x81, b'{"type":"response.create","model":"fast"}'))
    harness.switch()
    before = len(harness.provider.received)
    harness.channel.dataReceived(frame(0x81, b'{"type":"response.create","model":"gpt-b-secret"}'))
    assert len(harness.provider.received) == before
    assert b"model_not_found" in harness.received()


@pytest.mark.parametrize(
    ("fields", "first_byte"),
    [(b'"model":"gpt-b"', 0x88), (b'"model":"main/gpt-b"', 0x88), (b'"voice":"a"', 0x81)],
)
def test_a_session_cannot_be_changed_to_another_model(fields: bytes, first_byte: int) -> None:
    harness = SessionHarness("/v1/realtime?model=gpt-c", TEXT)
    harness.switch()
    harness.take_head()
    before = len(harness.provider.received)
    harness.channel.dataReceived(frame(0x81, b'{"type":"session.update","session":{%b}}' % fields))
    assert harness.provider.received[before] == first_byte  # a close frame, or the message
    assert (b"no model is named" in harness.received()) == (first_byte == 0x88)


def test_a_session_does_not_fall_back_to_a_target_that_the_key_may_not_use() -> None:
    aliases = TEXT.replace("  fast: main/gpt-b", "  both: [main/gpt-c, main/voice-b]\n  fast: main/gpt-b")
    harness = SessionHarness("/v1/realtime?model=both", aliases)
    harness.provider.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    assert harness.take_head().startswith(b"HTTP/1.1 503 ")
    assert len(upstream_heads(harness)) == 1


def test_a_session_is_one_request_in_flight_for_its_length() -> None:
    _, harness = session_status("/v1/realtime?model=gpt-c", "max_in_flight: 1, ")
    harness.switch()
    channel, transport = harness.channel, harness.transport
    harness.connect()
    harness.send(ask("edge", "fast"))
    assert (harness.status(), retry_after(harness.received())) == (429, 1)
    harness.channel, harness.transport = channel, transport
    harness.leave()
    harness.turn()
    assert status(serve(harness, ask("edge", "fast"))) == 200
