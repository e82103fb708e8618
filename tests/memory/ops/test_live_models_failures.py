"""Lists of models that fail, stall or never end."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused

from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.nouns.errors import GatewayError, Reason
from mgw.ops.probes import MAX_RESPONSE_BYTES
from tests.support.live_models import CLAUDE, ONE, LiveModelsHarness, ids
from tests.support.probes import LISTS


class NoAccount:
    """A source of credentials that has none, or never comes to an end."""

    def __init__(self, reason: Reason | None) -> None:
        self.reason = reason

    signs = False

    def ready(self, client_key: ClientKey | None, model: str | None = None) -> Credential | None:
        return None

    async def obtain(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
        if self.reason is not None:
            raise GatewayError(self.reason, "canary")
        return await Deferred()

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        return None

    def refusable(self, status: int) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.mark.parametrize("reason", [Reason.CREDENTIAL_SOURCE, Reason.NO_ACCOUNT, None])
def test_a_source_of_credentials_that_fails_or_stalls_is_a_failure(reason: Reason | None) -> None:
    harness = LiveModelsHarness(ONE)
    harness.generation.credentials = {"main": NoAccount(reason)}
    asked = harness.ask()
    harness.clock.advance(3)
    assert ids(asked) == {"main": []}
    assert harness.failures == ["main"]
    assert harness.settled() == (0, 0, 0)


# Failures


def refuses(harness: LiveModelsHarness) -> None:
    harness.connection("main").close()


def garbage(harness: LiveModelsHarness) -> None:
    harness.connection("main").send(b"garbage\r\n\r\n")


def breaks(harness: LiveModelsHarness) -> None:
    harness.connection("main").send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
    harness.connection("main").reset()


def packed(harness: LiveModelsHarness) -> None:
    body = gzip.compress(json.dumps(LISTS["main"]).encode())
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    harness.connection("main").send(head % len(body) + body)


def too_large(harness: LiveModelsHarness) -> None:
    harness.connection("main").send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(2):
        half = MAX_RESPONSE_BYTES // 2 + 1
        harness.connection("main").send(b"%x\r\n%s\r\n" % (half, b" " * half))


def says(body: object, status: int = 200) -> Callable[[LiveModelsHarness], None]:
    return lambda harness: harness.respond("main", body, status)


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
def test_a_provider_that_fails_is_left_out_and_counted(fails: Callable[[LiveModelsHarness], None]) -> None:
    harness = LiveModelsHarness()
    asked = harness.ask()
    harness.all_say("main")
    fails(harness)
    found = ids(asked)
    assert (found["main"], found["claude"]) == ([], ["claude-live"])
    assert harness.failures == ["main"]
    for endpoint in harness.endpoints.values():
        endpoint.settle()
    assert harness.settled() == (0, 0, 0)


def test_a_provider_that_cannot_be_reached_is_left_out_and_counted() -> None:
    harness = LiveModelsHarness(ONE)
    harness.endpoints["main"].held = True
    asked = harness.ask()
    harness.endpoints["main"].pending[0][1].errback(Refused())
    assert ids(asked) == {"main": []}
    assert harness.failures == ["main"]


def test_a_redirect_is_not_followed() -> None:
    harness = LiveModelsHarness(ONE)
    asked = harness.ask()
    head = b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n"
    harness.connection("main").send(head)
    assert ids(asked) == {"main": []}
    assert (harness.dials("main"), harness.failures) == (1, ["main"])


def test_a_provider_has_three_seconds() -> None:
    harness = LiveModelsHarness()
    asked = harness.ask()
    harness.all_say("main")
    harness.connection("main").send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
    harness.clock.advance(2.9)
    assert not asked.called
    harness.clock.advance(0.1)
    assert ids(asked)["main"] == []
    assert harness.failures == ["main"]
    assert harness.connection("main").aborted


def test_three_seconds_are_for_all_pages_together() -> None:
    harness = LiveModelsHarness(CLAUDE)
    asked = harness.ask()
    for number in range(3):
        harness.clock.advance(0.99)
        harness.respond("claude", {"data": [{"id": str(number)}], "has_more": True})
    harness.clock.advance(0.1)
    assert ids(asked) == {"claude": []}


def test_the_time_for_a_credential_is_part_of_the_three_seconds() -> None:
    harness = LiveModelsHarness(ONE)
    source = harness.generation.credentials["main"]
    waiting: Deferred[None] = Deferred()

    class Slow(NoAccount):
        async def obtain(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
            await waiting
            return await source.obtain(client_key)

    harness.generation.credentials = {"main": Slow(None)}
    asked = harness.ask()
    harness.clock.advance(2)
    waiting.callback(None)
    harness.clock.advance(0.9)
    assert not asked.called
    harness.clock.advance(0.2)
    assert ids(asked) == {"main": []}


def test_a_list_that_breaks_off_between_pages_is_none() -> None:
    harness = LiveModelsHarness(CLAUDE)
    asked = harness.ask()
    harness.respond("claude", {"data": [{"id": "a"}], "has_more": True})
    harness.respond("claude", b"", 503)
    assert ids(asked) == {"claude": []}
    assert harness.failures == ["claude"]


def test_twenty_pages_are_the_most() -> None:
    harness = LiveModelsHarness(CLAUDE)
    asked = harness.ask()
    for number in range(20):
        assert not asked.called
        harness.respond("claude", {"data": [{"id": str(number)}], "has_more": True})
    assert ids(asked) == {"claude": []}
    assert (harness.dials("claude"), harness.failures) == (20, ["claude"])


def test_twenty_pages_are_not_too_many() -> None:
    harness = LiveModelsHarness(CLAUDE)
    asked = harness.ask()
    for number in range(20):
        harness.respond("claude", {"data": [{"id": str(number)}], "has_more": number < 19})
    assert len(ids(asked)["claude"]) == 20
