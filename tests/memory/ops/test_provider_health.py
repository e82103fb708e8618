"""How the providers are: probed at once, in fixed words, and remembered for a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.nouns.errors import GatewayError, Reason
from mgw.ops.probes import MAX_RESPONSE_BYTES
from mgw.ops.provider_health import HealthError, ProviderHealth
from tests.support.deferreds import result_of
from tests.support.probes import LISTS, Providers

ON = "health_checks: {enabled: true, timeout: 2}\n"
ONE = ON + 'providers: {main: {kind: openai, base_url: "http://main.example/v1", api_key: sk-canary}}'
KEYLESS = ON + 'providers: {main: {kind: openai, base_url: "http://main.example/v1"}}'
TWO = """
providers:
  main: {kind: openai, base_url: "http://main.example/v1", api_key: sk-canary}
  claude: {kind: anthropic, base_url: "http://claude.example/v1", api_key: sk-canary}
health_checks: {enabled: true, timeout: 2}
"""


class HealthHarness(Providers):
    """The health of providers in memory."""

    def __init__(self, text: str = ONE) -> None:
        super().__init__(text)
        self.health = ProviderHealth(self.probe)

    def ask(self) -> Deferred[bytes]:
        return Deferred.fromCoroutine(self.health.report(self.generation))


def report(asked: Deferred[bytes]) -> Any:  # Any: JSON
    return json.loads(result_of(asked))


def only(asked: Deferred[bytes]) -> Any:  # Any: JSON
    (provider,) = report(asked)["providers"]
    return provider


def test_a_provider_that_lists_its_models_is_well() -> None:
    harness = HealthHarness()
    asked = harness.ask()
    assert harness.target("main") == "/v1/models"
    assert harness.headers("main")["authorization"] == "Bearer sk-canary"
    harness.clock.advance(0.25)
    harness.respond("main", LISTS["main"])
    assert report(asked) == {
        "status": "ok",
        "providers": [
            {
                "name": "main",
                "kind": "openai",
                "status": "ok",
                "http_status": 200,
                "latency_ms": 250.0,
                "error": None,
            }
        ],
    }
    assert harness.settled() == (0, 0, 0)


@pytest.mark.parametrize("host", ["[::1]:8080", "my_host", "a..b", "xn--a.example", "127.0.0.1:1"])
def test_a_provider_is_asked_wherever_it_is(host: str) -> None:
    """Not every host that is dialled is a name that the rules of internationalized names allow."""
    harness = HealthHarness(ONE.replace("main.example", host))
    asked = harness.ask()
    assert harness.headers("main")["host"] == host
    harness.respond("main", LISTS["main"])
    assert only(asked)["status"] == "ok"


def test_all_are_probed_at_once_each_for_a_small_page() -> None:
    harness = HealthHarness(ON + Providers().text)
    asked = harness.ask()
    assert harness.target("claude") == "/v1/models?limit=1"
    assert harness.target("gem") == "/v1beta/models?pageSize=1"
    harness.all_say()
    assert [provider["name"] for provider in report(asked)["providers"]] == list(LISTS)


@pytest.mark.parametrize(
    ("statuses", "status"), [((200, 200), "ok"), ((200, 503), "degraded"), ((503, 503), "failing")]
)
def test_the_whole_is_told_in_one_word(statuses: tuple[int, int], status: str) -> None:
    harness = HealthHarness(TWO)
    asked = harness.ask()
    for name, each in zip(("main", "claude"), statuses, strict=True):
        harness.respond(name, LISTS[name], each)
    assert report(asked)["status"] == status


def answers(status: int) -> Callable[[HealthHarness], None]:
    return lambda harness: harness.connection("main").send(
        b"HTTP/1.1 %d Canary\r\nContent-Length: 6\r\n\r\ncanary" % status
    )


def closes(harness: HealthHarness) -> None:
    harness.connection("main").close()


def breaks(harness: HealthHarness) -> None:
    harness.connection("main").send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncanary")
    harness.connection("main").reset()


def garbage(harness: HealthHarness) -> None:
    harness.connection("main").send(b"canary\r\n\r\n")


def stalls(harness: HealthHarness) -> None:
    harness.clock.advance(2)


def stalls_in_the_body(harness: HealthHarness) -> None:
    harness.connection("main").send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncanary")
    harness.clock.advance(2)


@pytest.mark.parametrize(
    ("happens", "http_status", "error"),
    [
        (answers(200), 200, None),
        (answers(404), 404, None),
        (answers(401), 401, "unauthorized"),
        (answers(403), 403, "unauthorized"),
        (answers(302), 302, "bad_status"),
        (answers(429), 429, "bad_status"),
        (answers(500), 500, "bad_status"),
        (closes, None, "unreachable"),
        (breaks, None, "unreachable"),
        (garbage, None, "unreachable"),
        (stalls, None, "timeout"),
        (stalls_in_the_body, None, "timeout"),
    ],
)
def test_what_is_wrong_is_told_in_a_fixed_word(
    happens: Callable[[HealthHarness], None], http_status: int | None, error: str | None
) -> None:
    harness = HealthHarness()
    asked = harness.ask()
    happens(harness)
    said = result_of(asked)
    (found,) = json.loads(said)["providers"]
    assert (found["http_status"], found["error"]) == (http_status, error)
    assert found["status"] == ("ok" if error is None else "error")
    assert (found["latency_ms"] is None) == (http_status is None)
    assert b"canary" not in said.lower()
    harness.endpoints["main"].settle()
    assert harness.settled() == (0, 0, 0)


def test_an_answer_that_is_too_large_is_an_answer_all_the_same() -> None:
    harness = HealthHarness()
    asked = harness.ask()
    harness.connection("main").send(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
    harness.connection("main").send(b" " * (MAX_RESPONSE_BYTES + 1))
    assert only(asked)["status"] == "ok"
    assert harness.connection("main").aborted


@pytest.mark.parametrize(
    ("status", "error"), [(200, None), (401, None), (404, None), (429, None), (500, "bad_status")]
)
def test_a_provider_without_a_key_of_its_own_is_asked_without_one(status: int, error: str | None) -> None:
    harness = HealthHarness(KEYLESS)
    asked = harness.ask()
    assert set(harness.headers("main")) == {"host", "accept", "accept-encoding", "user-agent"}
    answers(status)(harness)
    assert only(asked)["error"] == error


class Sourceless:
    """A source of credentials that has none."""

    def __init__(self, reason: Reason) -> None:
        self.reason = reason

    signs = False

    def ready(self, client_key: ClientKey | None, model: str | None = None) -> Credential | None:
        return None

    async def obtain(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
        raise GatewayError(self.reason, "canary")

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        return None

    def refusable(self, status: int) -> bool:
        return False

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("reason", "error"),
    [(Reason.CREDENTIAL_SOURCE, "credential_source"), (Reason.NO_ACCOUNT, "no_credential")],
)
def test_a_credential_that_cannot_be_had_is_told(reason: Reason, error: str) -> None:
    harness = HealthHarness()
    harness.generation.credentials = {"main": Sourceless(reason)}
    said = result_of(harness.ask())
    assert json.loads(said)["providers"][0]["error"] == error
    assert b"canary" not in said


def test_no_word_is_told_that_is_not_in_the_list() -> None:
    words = {"unreachable", "timeout", "unauthorized", "bad_status", "no_credential", "credential_source"}
    assert {trouble.value for trouble in HealthError} == words


def test_a_report_serves_for_five_seconds() -> None:
    harness = HealthHarness()
    first = harness.ask()
    harness.respond("main", LISTS["main"])
    before = result_of(first)
    harness.clock.advance(4.9)
    assert result_of(harness.ask()) == before
    assert len(harness.requests("main")) == 1
    harness.clock.advance(0.1)
    again = harness.ask()
    assert len(harness.requests("main")) == 2
    harness.respond("main", b"", 503)
    assert report(again)["status"] == "failing"


def test_a_bad_report_serves_for_five_seconds_too() -> None:
    harness = HealthHarness()
    first = harness.ask()
    closes(harness)
    before = result_of(first)
    assert result_of(harness.ask()) == before
    assert len(harness.requests("main")) == 1


def test_another_configuration_is_probed_anew() -> None:
    harness = HealthHarness()
    first = harness.ask()
    harness.respond("main", LISTS["main"])
    report(first)
    harness.generation.number = 2
    second = harness.ask()
    harness.respond("main", b"", 503)
    assert report(second)["status"] == "failing"


def test_many_who_ask_at_the_same_time_make_one_probe() -> None:
    harness = HealthHarness()
    asked = [harness.ask() for _ in range(20)]
    assert len(harness.requests("main")) == 1
    harness.respond("main", LISTS["main"])
    assert {report(each)["status"] for each in asked} == {"ok"}


def test_a_client_that_leaves_leaves_alone() -> None:
    harness = HealthHarness()
    leaves, stays = harness.ask(), harness.ask()
    leaves.cancel()
    with pytest.raises(CancelledError):
        result_of(leaves)
    harness.respond("main", LISTS["main"])
    assert report(stays)["status"] == "ok"
    assert harness.settled() == (0, 0, 0)


@pytest.mark.parametrize(("status", "error"), [(200, None), (401, "unauthorized"), (404, None)])
def test_a_provider_that_is_said_to_want_no_credential_is_taken_at_its_word(
    status: int, error: str | None
) -> None:
    harness = HealthHarness(KEYLESS.replace('/v1"', '/v1", auth: none'))
    asked = harness.ask()
    assert "authorization" not in harness.headers("main")
    answers(status)(harness)
    assert only(asked)["error"] == error
