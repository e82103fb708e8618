"""A known head is forgotten as soon as it may no longer come in, or no longer go upstream as it is."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import TypeVar

from msgspec.structs import replace
from twisted.internet.defer import Deferred

from mgw.clients.client import Client
from mgw.config.edge_auth import EdgeAuthSettings
from mgw.exchange.offload import SEARCHED_BYTES
from mgw.exchange.upload_tokens import LIFETIME_SECONDS, upload_token
from mgw.memo.known_head import Caller
from mgw.memo.request_memo import MAX_KEYS_BYTES
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.web.edge_auth import EdgeGate, Upload
from mgw.wire.headers import RawHeaders
from tests.memory.web.test_admission import known, reload, serve, twice, upstream_heads
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON, KEY, PATH, WHOLE
from tests.support.pipelines import CHAT, answered
from tests.support.web_servers import WebServerHarness

UNTIL = 60.0
DIGEST_KEY = "key-that-is-known-by-its-digest"
WITH_DIGEST = (
    f"{THREE_FAMILIES}edge_auth: {{enabled: true, "
    f"keys: [edge, {{name: a, sha256: {sha256(DIGEST_KEY.encode()).hexdigest()}}}]}}\n"
)
T = TypeVar("T")


class EndingGate(EdgeGate):
    """Lets everybody in who has the key, until a moment."""

    def __init__(self, until: float) -> None:
        super().__init__(EdgeAuthSettings(enabled=True, keys=(Secret("edge"),)))
        self.until = until
        self.asked = 0
        self.is_open = True

    def admit(
        self,
        family: Family,
        headers: RawHeaders,
        raw_query: bytes | None,
        vouched: Upload | Client | None = None,
        carried: bytes | None = None,
    ) -> Caller:
        self.asked += 1
        if not self.is_open:
            raise GatewayError(Reason.EDGE_KEY, "the key has ended")
        caller = super().admit(family, headers, raw_query, vouched, carried)
        return replace(caller, known_until=self.until)


class Threads:
    """Where work waits until somebody says that it is done."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def run(self, work: Callable[[], T], /) -> Deferred[T]:
        done: Deferred[T] = Deferred()
        self.work.append(lambda: done.callback(work()))
        return done

    def finish(self) -> None:
        while self.work:
            self.work.pop(0)()


def ending(until: float) -> tuple[WebServerHarness, EndingGate]:
    """Return a server that has seen a request twice, which is known until that moment."""
    harness, gate = WebServerHarness(), EndingGate(until)
    harness.server.gate = gate
    harness.server.wall = harness.clock.seconds
    for _ in range(2):
        serve(harness, WHOLE)
    return harness, gate


def test_a_head_is_used_until_its_moment_and_checked_anew_from_then_on() -> None:
    harness, gate = ending(UNTIL)
    assert gate.asked == 2
    harness.clock.advance(UNTIL - 0.001)
    assert serve(harness, WHOLE).startswith(b"HTTP/1.1 200 ")
    assert gate.asked == 2
    harness.clock.advance(0.001)
    gate.until = 2 * UNTIL
    assert serve(harness, WHOLE).startswith(b"HTTP/1.1 200 ")
    assert gate.asked == 3
    assert serve(harness, WHOLE).startswith(b"HTTP/1.1 200 ")
    assert gate.asked == 3


def test_a_head_whose_moment_has_passed_opens_nothing_any_more() -> None:
    harness, gate = ending(UNTIL)
    gate.is_open = False
    harness.clock.advance(UNTIL - 0.001)
    assert serve(harness, WHOLE).startswith(b"HTTP/1.1 200 ")
    harness.clock.advance(0.001)
    for _ in range(3):
        assert serve(harness, WHOLE).startswith(b"HTTP/1.1 401 ")
    assert known(harness, WHOLE) is None


def test_a_head_that_is_past_when_it_comes_is_checked_each_time() -> None:
    harness, gate = ending(0.0)
    assert known(harness, WHOLE) is None
    serve(harness, WHOLE)
    assert gate.asked == 3


def test_a_head_with_a_key_that_is_known_by_its_digest_goes_no_further_once_the_key_is_known() -> None:
    data = post(CHAT, KEY, JSON, f"X-Title: {DIGEST_KEY}", path=PATH)
    harness = twice(WITH_DIGEST, data)
    assert known(harness, data) is not None
    serve(harness, post(CHAT, f"x-api-key: {DIGEST_KEY}", JSON, path=PATH))
    serve(harness, data)
    assert DIGEST_KEY.encode() not in upstream_heads(harness)[-1]


def test_what_a_request_finds_that_came_before_the_key_was_known_is_used_by_none_behind_it() -> None:
    title = f"X-Title: {DIGEST_KEY}"
    data = post(CHAT, KEY, JSON, title, path=PATH)
    harness, threads = twice(WITH_DIGEST, data), Threads()
    harness.server.offload = threads.run
    large = CHAT.replace(b"[]", b"[%b]" % (b" " * SEARCHED_BYTES))
    harness.connect()
    harness.channel.dataReceived(post(large, KEY, JSON, title, path=PATH))
    assert threads.work  # it was let in, and waits for a thread
    serve(harness, post(CHAT, f"x-api-key: {DIGEST_KEY}", JSON, path=PATH))
    for _ in range(2):
        serve(harness, data)
    assert known(harness, data) is not None
    threads.finish()
    harness.connection.send(answered())
    harness.connection.close()
    serve(harness, data)
    assert DIGEST_KEY.encode() not in upstream_heads(harness)[-1]


def test_a_configuration_that_no_new_request_begins_with_remembers_nothing() -> None:
    harness = twice()
    harness.connect()
    harness.send(WHOLE)
    memo = harness.generation.memo
    assert memo.heads
    assert memo.targets
    reload(harness, THREE_FAMILIES)
    assert harness.generation.in_use
    harness.connection.send(answered())
    assert not harness.generation.in_use
    assert not any((memo.heads, memo.findings, memo.targets, memo.sent, memo.shapes, memo.labels))


def test_a_head_that_is_kept_anew_takes_its_room_once() -> None:
    harness = WebServerHarness()
    title = "x" * 7000
    others = [post(CHAT, KEY, f"X-Title: {number} {title}", path=PATH) for number in range(3)]
    for data in (*others, *others):
        serve(harness, data)
    memo = harness.generation.memo
    key, kept = next(iter(memo.heads.items()))
    for _ in range(MAX_KEYS_BYTES // len(key)):
        memo.keep_head((key, 0, 0, ()), kept)
    assert len(memo.heads) == len(memo.findings) == 3


def test_the_token_of_an_upload_is_checked_each_time() -> None:
    harness = WebServerHarness()
    harness.server.wall = harness.clock.seconds
    address, digest = b"/upload/v1beta/files?upload_id=abc&provider=gem", sha256(b"edge").digest()
    token = upload_token(digest, address, 0.0)
    data = post(b"abc", path=f"{address.decode()}&mgw={token}")
    for _ in range(3):
        assert serve(harness, data).startswith(b"HTTP/1.1 200 ")
    assert known(harness, data) is None
    harness.clock.advance(LIFETIME_SECONDS + 1)
    assert serve(harness, data).startswith(b"HTTP/1.1 401 ")
