"""Signed requests from a client's first byte on: heads that are known, and bodies that are stored."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import pytest

from mgw.config.provider import Provider
from mgw.upstream.wires.wire import ProviderWire, RequestEdits, VendorCall
from mgw.wire.headers import RawHeaders, value_of
from tests.support.bodies import patterned
from tests.support.channels import post
from tests.support.exchanges import JSON
from tests.support.pipelines import Pipeline, answered
from tests.support.signed_requests import SESSION_KEYS, SigningHost
from tests.support.signing_source import SigningSource
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys
from tests.support.web_servers import WebServerHarness

pytestmark = pytest.mark.usefixtures("heads")

CONFIG: Final = """
providers:
  main: {kind: openai, base_url: "https://openai.example/v1", api_key: sk-canary}
  claude: {kind: anthropic, base_url: "https://anthropic.example/v1", api_key: sk-ant-canary}
defaults: {openai_dialect: main, anthropic_dialect: claude}
"""
KEY: Final = "timed-canary"
"""The key of the provider, and what its host checks a signature with."""


def harness_of() -> WebServerHarness:
    return WebServerHarness(pipeline=Pipeline(CONFIG, sources={"main": TimedKeys(KEY)}))


def heard(harness: WebServerHarness) -> tuple[bytes, RawHeaders, bytes]:
    """Return target, headers and body of the last request, whose signature is in order."""
    *_, last = harness.connection.received.split(b"POST ")
    head, _, body = last.partition(b"\r\n\r\n")
    line, *rows = head.split(b"\r\n")
    headers = [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]
    target = line.split(b" ")[0]
    at = value_of(headers, TIME.lower()) or b""
    expected = signature(KEY.encode(), b"POST", target, headers, sha256(body).digest(), at)
    assert value_of(headers, SIGNATURE.lower()) == expected
    return target, headers, body


@pytest.mark.parametrize(
    ("path", "model"),
    [
        pytest.param("/v1/chat/completions", b"gpt-x", id="as it is called"),
        pytest.param("/v1/chat/completions", b"main/gpt-x", id="renamed"),
        pytest.param("/v1/messages", b"main/gpt-x", id="translated"),
    ],
)
@pytest.mark.parametrize("words", [1, 20_000, 300_000])
def test_each_request_of_a_known_head_is_signed(path: str, model: bytes, words: int) -> None:
    harness = harness_of()
    harness.server.wall = harness.clock.seconds
    times: set[Any] = set()
    for number in range(4):
        content = b"%d" % number * words
        body = b'{"model":"%b","messages":[{"role":"user","content":"%b"}],"max_tokens":9}' % (model, content)
        trace = f"traceparent: 00-{number:032x}-{1:016x}-00"
        harness.send(post(body, "x-api-key: edge", trace, JSON, path=path))
        _, headers, up = heard(harness)
        assert path == "/v1/messages" or up == body.replace(b"main/", b"")
        assert b'"content":"%b"' % content in up
        assert value_of(headers, b"traceparent") == b"00-%032x-%016x-00" % (number, 1)
        times.add(value_of(headers, TIME.lower()))
        harness.connection.send(answered())
        harness.clock.advance(1.0)
    assert len(times) == 4


def test_a_body_that_is_stored_is_hashed_on_its_way_and_signed() -> None:
    harness, body = harness_of(), patterned(900_000)
    head = post(body, "x-api-key: edge", "Content-Type: text/plain", path="/v1/files")
    harness.send(head)
    target, _, up = heard(harness)
    assert (target, up) == (b"/v1/files", body)


def test_bodies_are_hashed_only_while_some_provider_gets_signed_requests() -> None:
    harness = harness_of()
    assert harness.server.spool.hashes
    plain = WebServerHarness(CONFIG)
    assert not plain.server.spool.hashes
    harness.server.use(plain.generation)
    assert not harness.server.spool.hashes


def test_a_wire_sees_what_varies_between_requests_of_one_head() -> None:
    def edits(_: Provider, __: VendorCall, body: bytes, headers: RawHeaders) -> RequestEdits:
        name = value_of(headers, b"idempotency-key") or b""
        return RequestEdits([((1, 1), b'"name":"%b",' % name)], headers)

    harness = harness_of()
    harness.generation.upstreams["main"].wire = ProviderWire(edits=edits)
    for number in range(4):
        body = b'{"model":"main/gpt-x","messages":[{"role":"user","content":"Hi"}],"max_tokens":9}'
        lines = "x-api-key: edge", f"Idempotency-Key: name-{number}", JSON
        harness.send(post(body, *lines, path="/v1/messages"))
        _, headers, up = heard(harness)
        assert up.startswith(b'{"name":"name-%d",' % number)
        assert value_of(headers, b"idempotency-key") == b"name-%d" % number
        harness.connection.send(answered())


def test_each_request_of_a_known_head_is_signed_for_aws() -> None:
    text = CONFIG.replace("sk-canary", "sk-canary, headers: {forward: [x-amzn-trace-id]}")
    harness = WebServerHarness(pipeline=Pipeline(text, sources={"main": SigningSource(SESSION_KEYS)}))
    harness.server.wall = lambda: 1_767_322_800.0 + harness.clock.seconds()
    host = SigningHost(SESSION_KEYS)
    for number in range(4):
        body = b'{"model":"main/gpt-x","messages":[{"role":"user","content":"%d"}],"max_tokens":9}' % number
        varying = f"traceparent: 00-{number:032x}-{1:016x}-00", f"X-Amzn-Trace-Id: Root={number}"
        path = "/v1/messages" if number == 3 else "/v1/chat/completions"
        harness.send(post(body, "x-api-key: edge", *varying, JSON, path=path))
        harness.connection.send(answered())
        harness.clock.advance(1.0)
    received = harness.connection.received
    assert len(host.check_all(received)) == len(set(host.stamps)) == 4
    assert [b"Root=%d" % number in received for number in range(4)] == [True, True, True, True]
