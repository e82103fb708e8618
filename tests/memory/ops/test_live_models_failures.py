"""Lists of models that fail, stall or never end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused

from mgw.credentials.provider import ClientKey, Credential
from mgw.errors import GatewayError, Reason
from mgw.ops.probes import MAX_RESPONSE_BYTES
from tests.support.live_models import CLAUDE, ONE, Bench, ids
from tests.support.probes import LISTS


class NoAccount:
    """A source of credentials that has none, or never comes to an end."""

    def __init__(self, reason: Reason | None) -> None:
        self.reason = reason

    async def obtain(self, client_key: ClientKey | None) -> Credential:
        if self.reason is not None:
            raise GatewayError(self.reason, "canary")
        return await Deferred()

    async def refused(
        self, credential: Credential, status: int, retry_after: float | None
    ) -> Credential | None:
        return None

    def refusable(self, status: int) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.mark.parametrize("reason", [Reason.CREDENTIAL_SOURCE, Reason.NO_ACCOUNT, None])
def test_a_source_of_credentials_that_fails_or_stalls_is_a_failure(reason: Reason | None) -> None:
    bench = Bench(ONE)
    bench.generation.credentials = {"main": NoAccount(reason)}
    asked = bench.ask()
    bench.clock.advance(3)
    assert ids(asked) == {"main": []}
    assert bench.failures == ["main"]
    assert bench.settled() == (0, 0, 0)


# Failures


def refuses(bench: Bench) -> None:
    bench.wire("main").closes()


def garbage(bench: Bench) -> None:
    bench.wire("main").says(b"garbage\r\n\r\n")


def breaks(bench: Bench) -> None:
    bench.wire("main").says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
    bench.wire("main").breaks()


def packed(bench: Bench) -> None:
    body = gzip.compress(json.dumps(LISTS["main"]).encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    bench.wire("main").says(head % len(body) + body)


def too_large(bench: Bench) -> None:
    bench.wire("main").says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(2):
        half = MAX_RESPONSE_BYTES // 2 + 1
        bench.wire("main").says(b"%x\r\n%s\r\n" % (half, b" " * half))


def says(body: object, status: int = 200) -> Callable[[Bench], None]:
    return lambda bench: bench.says("main", body, status)


@pytest.mark.parametrize(
    "fails",
    [
        refuses,
        garbage,
        breaks,
        packed,
        too_large,
        says(b"<html>"),
        says(b"[" * 100_000),
        says({"data": [{"id": 7}]}),
        says({"error": {"message": "canary"}}, 401),
        says(b"", 404),
        says(LISTS["main"], 503),
        says({"data": [{"id": str(number)} for number in range(20_001)]}),
    ],
)
def test_a_provider_that_fails_is_left_out_and_counted(fails: Callable[[Bench], None]) -> None:
    bench = Bench()
    asked = bench.ask()
    bench.all_say("main")
    fails(bench)
    found = ids(asked)
    assert (found["main"], found["claude"]) == ([], ["claude-live"])
    assert bench.failures == ["main"]
    for endpoint in bench.endpoints.values():
        endpoint.settle()
    assert bench.settled() == (0, 0, 0)


def test_a_provider_that_cannot_be_reached_is_left_out_and_counted() -> None:
    bench = Bench(ONE)
    bench.endpoints["main"].held = True
    asked = bench.ask()
    bench.endpoints["main"].pending[0][1].errback(Refused())
    assert ids(asked) == {"main": []}
    assert bench.failures == ["main"]


def test_a_redirect_is_not_followed() -> None:
    bench = Bench(ONE)
    asked = bench.ask()
    head = b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
    bench.wire("main").says(head)
    assert ids(asked) == {"main": []}
    assert (bench.dials("main"), bench.failures) == (1, ["main"])


def test_a_provider_has_three_seconds() -> None:
    bench = Bench()
    asked = bench.ask()
    bench.all_say("main")
    bench.wire("main").says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
    bench.clock.advance(2.9)
    assert not asked.called
    bench.clock.advance(0.1)
    assert ids(asked)["main"] == []
    assert bench.failures == ["main"]
    assert bench.wire("main").aborted


def test_three_seconds_are_for_all_pages_together() -> None:
    bench = Bench(CLAUDE)
    asked = bench.ask()
    for number in range(3):
        bench.clock.advance(0.99)
        bench.says("claude", {"data": [{"id": str(number)}], "has_more": True})
    bench.clock.advance(0.1)
    assert ids(asked) == {"claude": []}


def test_the_time_for_a_credential_is_part_of_the_three_seconds() -> None:
    bench = Bench(ONE)
    source = bench.generation.credentials["main"]
    waiting: Deferred[None] = Deferred()

    class Slow(NoAccount):
        async def obtain(self, client_key: ClientKey | None) -> Credential:
            await waiting
            return await source.obtain(client_key)

    bench.generation.credentials = {"main": Slow(None)}
    asked = bench.ask()
    bench.clock.advance(2)
    waiting.callback(None)
    bench.clock.advance(0.9)
    assert not asked.called
    bench.clock.advance(0.2)
    assert ids(asked) == {"main": []}


def test_a_list_that_breaks_off_between_pages_is_none() -> None:
    bench = Bench(CLAUDE)
    asked = bench.ask()
    bench.says("claude", {"data": [{"id": "a"}], "has_more": True})
    bench.says("claude", b"", 503)
    assert ids(asked) == {"claude": []}
    assert bench.failures == ["claude"]


def test_twenty_pages_are_the_most() -> None:
    bench = Bench(CLAUDE)
    asked = bench.ask()
    for number in range(20):
        assert not asked.called
        bench.says("claude", {"data": [{"id": str(number)}], "has_more": True})
    assert ids(asked) == {"claude": []}
    assert (bench.dials("claude"), bench.failures) == (20, ["claude"])


def test_twenty_pages_are_not_too_many() -> None:
    bench = Bench(CLAUDE)
    asked = bench.ask()
    for number in range(20):
        bench.says("claude", {"data": [{"id": str(number)}], "has_more": number < 19})
    assert len(ids(asked)["claude"]) == 20
