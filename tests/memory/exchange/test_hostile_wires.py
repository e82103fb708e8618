"""Hosts that frame their streams, and that break, lie or say too much: what their clients see then."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from typing import Any, Final

import pytest
from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.config.profile import CloakMode
from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.subscription.rewrite import BodyRewrite
from mgw.exchange.wired import asks_for_stream
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.ops.provider_health import ProviderHealth
from mgw.upstream.wires.wire import Framing, HostCall
from mgw.usage.event import Outcome
from mgw.wire.headers import value_of
from tests.memory.exchange.test_failures import warnings
from tests.memory.exchange.test_subscriptions import NAMES
from tests.memory.exchange.test_wires import (
    CHAT,
    CONFIG,
    EVENT_STREAM,
    EVENTS,
    HEAD,
    MESSAGE,
    STREAM,
    VERSION,
    WHOLE,
    chunk,
    pipeline_of,
    sent,
    streamed,
)
from tests.support.deferreds import refusal_of, result_of
from tests.support.endless_frame import Endless
from tests.support.framed_kind import ROW
from tests.support.framed_wire import FRAMES, WIRE, frame
from tests.support.pipelines import Pipeline, answered
from tests.support.probes import Providers
from tests.support.subscriptions import PROFILE, profile
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys

TOO_LARGE: Final = b"\xff\xff\xff\xff"
GOOD: Final = b"".join(map(frame, EVENTS[:3]))
GOOD_EVENTS: Final = EVENT_STREAM[: EVENT_STREAM.index(b"event: content_block_stop")]


def refusal(body: bytes, *headers: bytes) -> bytes:
    lines = b"".join(b"%b\r\n" % header for header in headers)
    return b"HTTP/1.1 400 Bad\r\n%bContent-Length: %d\r\n\r\n%b" % (lines, len(body), body)


@pytest.mark.parametrize("named", [True, False], ids=["in another form", "as it came"])
def test_no_header_of_a_refusal_repeats_the_operators_key(named: bool) -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, VERSION)
    name = [b"X-Framed-Error: Throttled"] if named else []
    pipeline.connection.send(refusal(b'{"said": "no"}', b"X-Sent: key framed-canary", *name))
    assert client.status == (429 if named else 400)
    assert value_of(client.headers, b"x-sent") == b"key *************"


def test_a_warning_of_another_attempt_has_what_a_refusal_says_in_its_own_form() -> None:
    pipeline = pipeline_of(text=CONFIG + "retries: {attempts: 1, statuses: [400]}")
    with warnings() as heard:
        _ = pipeline.ask("/v1/messages", WHOLE, VERSION)
        pipeline.connection.send(refusal(b'{"said": "slower, framed-canary"}', b"X-Framed-Error: Throttled"))
        pipeline.clock.advance(1)
    [warning] = heard
    assert warning.startswith('the provider returned status 400: "slower, [redacted]" (provider=host')


def test_a_refusal_with_a_coding_is_read() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages", WHOLE, VERSION)
    body = gzip.compress(b'{"said": "slower, framed-canary"}')
    pipeline.connection.send(refusal(body, b"Content-Encoding: gzip", b"X-Framed-Error: Throttled"))
    assert (client.status, value_of(client.headers, b"content-encoding")) == (429, None)
    assert json.loads(client.body)["error"]["message"] == "slower, [key]"


@pytest.mark.parametrize("cut", [True, False], ids=["each frame alone", "at once"])
@pytest.mark.parametrize("end", [TOO_LARGE, frame(EVENTS[3])[:-3]], ids=["too large", "cut off"])
@pytest.mark.parametrize("with_head", [True, False])
def test_what_came_before_a_broken_frame_reaches_the_client(end: bytes, cut: bool, with_head: bool) -> None:
    pipeline, client = streamed("/v1/messages", MESSAGE, VERSION) if not with_head else (pipeline_of(), None)
    data = GOOD + end
    if client is None:
        client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
        pipeline.connection.send(answered(data, content_type=FRAMES))
    else:
        pieces = [GOOD, end] if cut else [data]
        pipeline.connection.send(b"".join(map(chunk, pieces[:1])))
        pipeline.connection.send(b"".join(map(chunk, pieces[1:])) + b"0\r\n\r\n")
    assert client.body.startswith(GOOD_EVENTS)
    [name, data, *rest] = client.body[len(GOOD_EVENTS) :].split(b"\n")
    assert (name, rest) == (b"event: error", [b"", b""])
    assert json.loads(data.removeprefix(b"data: "))["error"]["type"] == "api_error"
    assert (client.aborted, client.finished) == (False, True)
    event = pipeline.event()
    assert (event.tokens_in, event.tokens_out) == (7, 3)
    assert event.status is Outcome.UPSTREAM_ERROR


def test_a_stream_in_a_coding_is_refused_before_its_frames_are_looked_for() -> None:
    pipeline = pipeline_of()
    client, ended = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    head = HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
    pipeline.connection.send(head + chunk(gzip.compress(STREAM)) + b"0\r\n\r\n")
    refused = refusal_of(ended)
    assert (client.started, refused.reason) == (False, Reason.UPSTREAM_BROKEN)
    assert "compressed" in refused.message


def test_no_frame_takes_more_memory_than_a_limit_whatever_a_wire_lets_pass() -> None:
    endless = Endless()
    wire = replace(WIRE, unframe=lambda *_: Framing(endless, b"text/event-stream"))
    pipeline = Pipeline(CONFIG, rows={"host": ROW}, wires={"framed": wire})
    _, ended = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    pipeline.connection.send(HEAD)
    piece = chunk(bytes(1024 * 1024))
    for _ in range(100):
        if ended.called:
            break
        pipeline.connection.send(piece)
    assert refusal_of(ended).reason is Reason.UPSTREAM_BROKEN
    assert endless.fed <= 34 * 1024 * 1024


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_a_body_that_is_nested_too_deeply_is_the_clients_fault(path: str) -> None:
    deep = b"[" * 5000 + b"]" * 5000
    pipeline = pipeline_of()
    _, ended = pipeline.ask(path, WHOLE[:-1] + b', "metadata": %b}' % deep, VERSION)
    assert refusal_of(ended).reason is Reason.MALFORMED


def test_whether_a_stream_is_wanted_is_no_question_of_depth() -> None:
    assert not asks_for_stream(b'{"metadata":' + b"[" * 100_000)


def test_the_body_of_a_response_that_has_none_is_not_unframed() -> None:
    pipeline = pipeline_of()
    client, _ = pipeline.ask("/v1/messages/count_tokens", WHOLE, VERSION)
    pipeline.connection.send(b"HTTP/1.1 304 Not Modified\r\n\r\n")
    assert (client.status, client.body, client.finished) == (304, b"", True)


@pytest.mark.parametrize(
    "retries", ["", "retries: {attempts: 1, statuses: [503]}"], ids=["none", "of others"]
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_fault_in_the_first_frame_is_a_response_of_its_own_status(retries: str, whole: bool) -> None:
    pipeline = pipeline_of(text=CONFIG + retries)
    client, _ = pipeline.ask("/v1/messages", MESSAGE, VERSION)
    fault = frame({"fault": "Busy", "said": "later, framed-canary"})
    if whole:
        pipeline.connection.send(answered(fault, content_type=FRAMES))
    else:
        pipeline.connection.send(HEAD)
        pipeline.connection.send(chunk(fault) + b"0\r\n\r\n")
    assert (client.status, value_of(client.headers, b"content-type")) == (529, b"application/json")
    assert json.loads(client.body)["error"]["message"] == "later, *************"
    assert pipeline.event().http_status == 529


def test_a_stream_without_a_fault_goes_on_with_its_first_frame() -> None:
    pipeline, client = streamed("/v1/messages", MESSAGE, VERSION)
    assert not client.started
    pipeline.connection.send(chunk(frame(EVENTS[0])))
    assert client.body == EVENT_STREAM[: len(client.body)] != b""


def test_a_wire_that_will_not_have_a_response_breaks_it() -> None:
    def refuse(*_: object) -> Framing:
        raise GatewayError(Reason.UPSTREAM_BROKEN, "the upstream's response is no stream")

    pipeline = Pipeline(CONFIG, rows={"host": ROW}, wires={"framed": replace(WIRE, unframe=refuse)})
    for path, body in (("/v1/messages", WHOLE), ("/v1/chat/completions", CHAT)):
        _, ended = pipeline.ask(path, body, VERSION)
        pipeline.connection.send(answered(b"<html>", content_type=b"text/html"))
        assert refusal_of(ended).message == "the upstream's response is no stream"


TOOLS: Final = (
    b'{"model":"host/m","max_tokens":9,"messages":[],"stream":true,'
    b'"tools":[{"name":"shell","input_schema":{}}]}'
)
TOOL_EVENTS: Final[list[dict[str, Any]]] = [
    EVENTS[0],
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}},
    },
    *EVENTS[3:],
]


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_a_profile_changes_a_request_that_goes_by_a_wire(path: str) -> None:
    pipeline = pipeline_of()
    pipeline.generation.rewrites = {"host": BodyRewrite(profile(PROFILE + NAMES), CloakMode.AUTO)}
    body = TOOLS
    if "chat" in path:
        tools = [{"type": "function", "function": {"name": "shell", "parameters": {}}}]
        asked = {"model": "host/m", "stream": True, "tools": tools}
        body = json.dumps({**asked, "messages": [{"role": "user", "content": "Hi"}]}).encode()
    client, _ = pipeline.ask(path, body, VERSION)
    target, _, up = sent(pipeline)
    assert target == b"/api/model/m/ask-in-frames"
    assert json.loads(up)["tools"][0]["name"] == "Bash"
    assert json.loads(up).keys() & {"model", "stream"} == set()
    pipeline.connection.send(HEAD)
    for event in TOOL_EVENTS:
        pipeline.connection.send(chunk(frame(event)))
    pipeline.connection.send(b"0\r\n\r\n")
    assert client.finished
    assert b'"shell"' in client.body
    assert b"Bash" not in client.body


def test_what_a_signer_sends_besides_is_repeated_by_no_refusal() -> None:
    keys = TimedKeys("timed-canary")
    keys.credentials[0] = replace(keys.credentials[0], added=(Secret("session-canary"),))
    pipeline = Pipeline(CONFIG, sources={"main": keys})
    said = b'{"error": {"message": "you sent session-canary, signed by timed-canary"}}'
    client, _ = pipeline.ask("/v1/chat/completions", CHAT.replace(b'"m"', b'"main/g"'))
    pipeline.connection.send(refusal(said, b"X-Sent: session-canary"))
    assert b"canary" not in client.body
    assert value_of(client.headers, b"x-sent") == b"*" * len("session-canary")
    message = pipeline.event().error_message
    assert message is not None
    assert "canary" not in message


class ExpiringKeys(TimedKeys):
    """Another key for a refusal that says so, whatever its status is."""

    def __init__(self) -> None:
        super().__init__("first-canary", "second-canary")
        self.bodies: list[bytes] = []

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        self.bodies.append(refusal.body)
        return await super().refused(credential, refusal) if b"Expired" in refusal.body else None

    def refusable(self, status: int) -> bool:
        return status in {400, 403}


@pytest.mark.parametrize("status", [400, 403])
def test_a_source_reads_why_a_signature_is_refused(status: int) -> None:
    keys = ExpiringKeys()
    pipeline = Pipeline(CONFIG, sources={"main": keys})
    body = CHAT.replace(b'"m"', b'"main/g"')
    _, _ = pipeline.ask("/v1/chat/completions", body)
    said = b'{"__type": "ExpiredTokenException"}'
    pipeline.connection.send(b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n" % (status, len(said)))
    pipeline.connection.send(said)
    assert keys.bodies == [said]
    assert sum(connection.received.count(b"POST ") for connection in pipeline.endpoint.connections) == 2


def test_each_repetition_is_signed_at_its_time_and_the_next_target_in_its_own_way() -> None:
    text = CONFIG.replace("[host/m, main/gpt]", "[main/gpt, host/m]") + "retries: {attempts: 1}"
    pipeline = Pipeline(text, rows={"host": ROW}, wires={"framed": WIRE}, sources={"main": TimedKeys("key")})
    _ = pipeline.ask("/v1/chat/completions", CHAT.replace(b'"m"', b'"several"'))
    times = []
    for _ in range(2):
        times.append(float(pipeline.connection.received.rpartition(b"X-Timed-At: ")[2].split(b"\r")[0]))
        pipeline.connection.send(answered(b"{}", b"503 Busy"))
        pipeline.clock.advance(2)
    assert times == [0.0, 2.0]
    target, headers, _body = sent(pipeline)
    assert target == b"/api/model/m/ask"
    assert value_of(headers, b"x-framed-key") == b"framed-canary"
    assert [name for name, _ in headers if name.lower().startswith(b"x-timed")] == []


def test_a_probe_may_be_a_call_with_a_body_and_is_signed_with_it() -> None:
    body = b'{"messages":[{"role":"user","content":"hi"}]}'
    wire = replace(WIRE, probe=lambda _: HostCall(b"POST", b"/api/model/m/count", b"x=1", body))
    keys = TimedKeys("timed-canary")
    pipeline = Pipeline(CONFIG, rows={"host": ROW}, wires={"framed": wire}, sources={"host": keys})
    providers = Providers(pipeline=pipeline)
    health = Deferred.fromCoroutine(ProviderHealth(providers.probe).report(providers.generation))
    head, _, up = providers.connection("host").received.partition(b"\r\n\r\n")
    line, *rows = head.split(b"\r\n")
    headers = [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]
    assert (line, up) == (b"POST /api/model/m/count?x=1 HTTP/1.1", body)
    when = value_of(headers, TIME.lower()) or b""
    target = b"/api/model/m/count?x=1"
    signed = signature(b"timed-canary", b"POST", target, headers, sha256(body).digest(), when)
    assert value_of(headers, SIGNATURE.lower()) == signed
    providers.respond("host", {"inputTokens": 1})
    providers.respond("main", {"data": []})
    assert [status["error"] for status in json.loads(result_of(health))["providers"]] == [None, None]


def test_a_refusal_behind_an_early_head_says_what_the_host_says() -> None:
    text = CONFIG.replace("[host/m, main/gpt]", "[main/gpt, host/m]")
    pipeline = pipeline_of(text=text + "stream_keepalive: {interval: 5}")
    client, _ = pipeline.ask("/v1/messages", MESSAGE.replace(b'"m"', b'"several"'), VERSION)
    pipeline.clock.pump([1.0] * 8)
    assert client.started
    pipeline.connection.send(answered(b"{}", b"503 Busy"))
    assert sent(pipeline)[0] == b"/api/model/m/ask-in-frames"
    pipeline.connection.send(refusal(b'{"said": "slower, framed-canary"}', b"X-Framed-Error: Throttled"))
    assert b'"type":"rate_limit_error","message":"slower, [key]"' in client.body
