"""A session whose provider's credential signs: each handshake is signed as it is sent."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from mgw.wire.headers import RawHeaders, value_of, values_of
from tests.support.memory_sessions import SessionHarness
from tests.support.raw_sessions import handshake
from tests.support.timed_auth import SIGNATURE, TIME, signature
from tests.support.timed_source import TimedKeys
from tests.support.upstreams import ProviderConnection
from tests.support.web_servers import WebServerHarness

CONFIG: Final = """
providers:
  one: {kind: openai, base_url: "https://one.example/v1", auth: none}
  two: {kind: openai, base_url: "https://two.example/v1", api_key: sk-canary}
aliases: {both: [one/voice-a, two/voice-b]}
retries: {attempts: 1}
edge_auth: {enabled: true, keys: [edge]}
"""
KEYS: Final = ("first-canary", "second-canary")


class SignedSession(SessionHarness):
    def __init__(self, path: str) -> None:
        WebServerHarness.__init__(self, CONFIG)
        self.generation.credentials = {**self.generation.credentials, "one": TimedKeys(*KEYS)}
        self.channel.dataReceived(handshake(path, "edge"))


def head_of(connection: ProviderConnection) -> tuple[bytes, RawHeaders]:
    line, *rows = connection.received.partition(b"\r\n\r\n")[0].split(b"\r\n")
    return line.split(b" ")[1], [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]


def check(connection: ProviderConnection, key: str) -> bytes:
    target, headers = head_of(connection)
    when = value_of(headers, TIME.lower()) or b""
    signed = signature(key.encode(), b"GET", target, headers, sha256(b"").digest(), when)
    assert values_of(headers, SIGNATURE.lower()) == [signed]
    return when


def test_each_handshake_is_signed_with_its_key_and_time() -> None:
    harness = SignedSession("/v1/realtime?model=one/voice")
    times = [check(harness.provider, KEYS[0])]
    harness.provider.send(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")
    times.append(check(harness.provider, KEYS[1]))
    harness.provider.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    harness.clock.advance(2)
    times.append(check(harness.provider, KEYS[0]))
    assert times == [b"0.0", b"0.0", b"2.0"]
    harness.switch()
    assert harness.take_head().startswith(b"HTTP/1.1 101 ")


def test_a_target_that_signs_nothing_gets_no_signature() -> None:
    harness = SignedSession("/v1/realtime?model=both")
    harness.provider.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    harness.clock.advance(2)
    harness.provider.send(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    target, headers = head_of(harness.provider)
    assert target == b"/v1/realtime?model=voice-b"
    assert value_of(headers, SIGNATURE.lower()) is None
    assert value_of(headers, b"authorization") == b"Bearer sk-canary"
