"""What providers list themselves: asked at once, in three seconds, kept for a minute, for one key."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionRefusedError as Refused

from mgw import __version__
from mgw.credentials.provider import ClientKey, Credential
from mgw.errors import GatewayError, Reason
from mgw.ops import live_models
from mgw.ops.live_models import LiveModels, Models
from mgw.ops.probes import MAX_RESPONSE_BYTES
from mgw.secret import Secret
from mgw.vocabulary import Family
from tests.support.configs import THREE_FAMILIES
from tests.support.deferreds import result_of
from tests.support.probes import LISTS, Providers

ONE = 'providers: {main: {kind: openai, base_url: "http://main.example/v1", api_key: sk-canary}}'
CLAUDE = 'providers: {claude: {kind: anthropic, base_url: "http://c.example/v1", api_key: sk-canary}}'
GEM = 'providers: {gem: {kind: gemini, base_url: "http://g.example/v1beta", api_key: AIza-canary}}'
KEYLESS = """
providers:
  main: {kind: openai, base_url: "http://main.example/v1"}
  claude: {kind: anthropic, base_url: "http://claude.example/v1"}
  other: {kind: openai_compat, base_url: "http://other.example/v1"}
defaults: {openai_dialect: main, anthropic_dialect: claude}
"""
EDITED = """
providers:
  claude:
    kind: anthropic
    base_url: "http://claude.example/v1"
    api_key: sk-canary
    headers: {set: {X-Team: blue, User-Agent: team}, remove: [anthropic-version]}
"""


class Bench(Providers):
    """Live lists over providers in memory."""

    def __init__(self, text: str = THREE_FAMILIES) -> None:
        super().__init__(text)
        self.failures: list[str] = []
        self.lists = LiveModels(self.probe, self.failures.append)

    def ask(self, key: ClientKey | None = None, family: Family | None = None) -> Deferred[Any]:
        return Deferred.fromCoroutine(self.lists.ask(self.generation, key, family))

    def dials(self, name: str) -> int:
        return len(self.requests(name))


def ids(asked: Deferred[dict[str, Models]]) -> dict[str, list[str]]:
    return {name: [model.id for model in models] for name, models in result_of(asked).items()}


def key(value: str, family: Family = Family.OPENAI, scheme: bytes | None = b"Bearer") -> ClientKey:
    return ClientKey(Secret(value), scheme, family)


# What is asked, and of whom


def test_all_providers_are_asked_at_once_and_each_is_read_in_its_own_words() -> None:
    bench = Bench()
    asked = bench.ask()
    assert {name: bench.target(name) for name in bench.endpoints} == {
        "main": "/v1/models",
        "host": "/v1/models",
        "claude": "/v1/models?limit=1000",
        "gem": "/v1beta/models?pageSize=1000",
        "mute": "/v1/models",
    }
    bench.all_say()
    assert ids(asked) == {
        "main": ["gpt-c", "gpt-live"],
        "host": ["meta/llama"],
        "claude": ["claude-live"],
        "gem": ["gemini-live"],
        "mute": [],
    }
    assert bench.failures == []
    assert bench.settled() == (0, 0, 0)


def test_only_one_familys_providers_are_asked_where_that_is_wanted() -> None:
    bench = Bench()
    asked = bench.ask(family=Family.ANTHROPIC)
    bench.says("claude", LISTS["claude"])
    assert ids(asked) == {"claude": ["claude-live"]}
    assert sum(len(endpoint.wires) for endpoint in bench.endpoints.values()) == 1


def test_a_request_carries_what_the_kind_requires_and_the_providers_own_key() -> None:
    bench = Bench()
    bench.ask()  # type: ignore[unused-awaitable]  # it stays under way
    assert bench.headers("claude") == {
        "host": "anthropic.example",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": f"mgw/{__version__}",
        "anthropic-version": "2023-06-01",
        "x-api-key": "sk-ant-0003",
    }
    assert bench.headers("gem")["x-goog-api-key"] == "AIza-0004"
    assert bench.headers("main")["authorization"] == "Bearer sk-main-0001"


def test_the_operators_edits_are_made() -> None:
    bench = Bench(EDITED)
    bench.ask()  # type: ignore[unused-awaitable]  # it stays under way
    headers = bench.headers("claude")
    assert (headers["x-team"], headers["user-agent"]) == ("blue", "team")
    assert "anthropic-version" not in headers


# Whose key


def test_the_default_of_its_family_alone_gets_a_clients_own_key() -> None:
    bench = Bench(KEYLESS)
    asked = bench.ask(key("sk-own-canary"))
    assert [name for name in ("main", "claude", "other") if bench.endpoints[name].wires] == ["main"]
    assert bench.headers("main")["authorization"] == "Bearer sk-own-canary"
    bench.says("main", LISTS["main"])
    assert ids(asked) == {"main": ["gpt-c", "gpt-live"], "claude": [], "other": []}


def test_a_provider_that_there_is_no_key_for_is_left_out_and_no_failure() -> None:
    bench = Bench(KEYLESS)
    assert ids(bench.ask()) == {"main": [], "claude": [], "other": []}
    assert bench.failures == []
    assert not any(endpoint.wires for endpoint in bench.endpoints.values())


def test_a_list_is_never_shown_to_another_key() -> None:
    bench = Bench(KEYLESS)
    first = bench.ask(key("sk-canary-1"))
    bench.says("main", LISTS["main"])
    assert ids(first)["main"] == ["gpt-c", "gpt-live"]
    second = bench.ask(key("sk-canary-2"))
    assert bench.headers("main")["authorization"] == "Bearer sk-canary-2"
    bench.says("main", {"data": []})
    assert ids(second)["main"] == []
    assert ids(bench.ask(key("sk-canary-1")))["main"] == ["gpt-c", "gpt-live"]


def test_keys_that_ask_at_the_same_time_do_not_share_a_request() -> None:
    bench = Bench(KEYLESS)
    first, second = bench.ask(key("sk-canary-1")), bench.ask(key("sk-canary-2"))
    for wire, body in zip(bench.endpoints["main"].wires, (b'["x"]', b'{"data":[]}'), strict=True):
        wire.says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert ids(first)["main"] == ids(second)["main"] == []
    assert bench.failures == ["main"]


def test_a_token_that_is_refused_is_renewed_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-old")
    bench = Bench(
        f"""providers: {{main: {{kind: openai, base_url: "http://m.example/v1", token_file: "{file}"}}}}"""
    )
    asked = bench.ask()
    file.write_text("canary-new")
    bench.says("main", b"{}", 401)
    assert bench.headers("main")["authorization"] == "Bearer canary-new"
    bench.says("main", LISTS["main"])
    assert ids(asked) == {"main": ["gpt-c", "gpt-live"]}


def test_a_token_that_is_refused_again_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-old")
    bench = Bench(
        f"""providers: {{main: {{kind: openai, base_url: "http://m.example/v1", token_file: "{file}"}}}}"""
    )
    asked = bench.ask()
    for token in ("canary-new", "canary-newest"):
        file.write_text(token)
        bench.says("main", b"{}", 401)
    assert ids(asked) == {"main": []}
    assert (bench.dials("main"), bench.failures) == (2, ["main"])


def test_a_token_is_renewed_once_for_all_pages(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-old")
    bench = Bench(
        f"""providers: {{claude: {{kind: anthropic, base_url: "http://c.io/v1", token_file: "{file}"}}}}"""
    )
    asked = bench.ask()
    file.write_text("canary-new")
    bench.says("claude", b"{}", 401)
    bench.says("claude", {"data": [{"id": "a"}], "has_more": True})
    assert bench.headers("claude")["authorization"] == "Bearer canary-new"
    file.write_text("canary-newest")
    bench.says("claude", b"{}", 401)
    assert ids(asked) == {"claude": []}
    assert bench.dials("claude") == 3


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


# Pages


def test_anthropics_pages_are_followed_to_the_last() -> None:
    bench = Bench(CLAUDE)
    asked = bench.ask()
    bench.says("claude", {"data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    assert bench.target("claude") == "/v1/models?limit=1000&after_id=a"
    bench.says("claude", {"data": [{"id": "b"}], "has_more": False, "last_id": "b"})
    assert ids(asked) == {"claude": ["a", "b"]}
    assert len(bench.endpoints["claude"].wires) == 1


def test_googles_pages_are_followed_to_the_last() -> None:
    bench = Bench(GEM)
    asked = bench.ask()
    bench.says("gem", {"models": [{"name": "models/a"}], "nextPageToken": "t/1"})
    assert bench.target("gem") == "/v1beta/models?pageSize=1000&pageToken=t%2F1"
    bench.says("gem", {"models": [{"name": "models/b"}]})
    assert ids(asked) == {"gem": ["a", "b"]}


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


# What is kept


def test_a_list_serves_for_sixty_seconds_without_a_new_request() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    expected = ids(first)
    bench.clock.advance(59.9)
    assert ids(bench.ask()) == expected
    assert bench.dials("main") == 1


def test_after_sixty_seconds_the_provider_is_asked_anew() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    ids(first)
    bench.clock.advance(60)
    second = bench.ask()
    assert bench.dials("main") == 2
    bench.says("main", {"data": [{"id": "new"}]})
    assert ids(second) == {"main": ["new"]}


def test_a_list_of_before_a_failure_does_not_outlive_its_time() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    ids(first)
    bench.clock.advance(60)
    second = bench.ask()
    bench.says("main", b"", 503)
    assert ids(second) == {"main": []}


def test_a_provider_that_failed_is_not_asked_again_for_fifteen_seconds() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", b"", 503)
    ids(first)
    bench.clock.advance(14.9)
    assert ids(bench.ask()) == {"main": []}
    assert len(bench.requests("main")) == 1
    bench.clock.advance(0.1)
    third = bench.ask()
    bench.says("main", LISTS["main"])
    assert ids(third) == {"main": ["gpt-c", "gpt-live"]}


def test_the_failures_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_models, "MAX_FAILURES", 1)
    bench = Bench(THREE_FAMILIES)
    asked = bench.ask()
    bench.says("main", b"", 503)
    bench.says("host", b"", 503)
    bench.all_say("main", "host")
    ids(asked)
    count = len(bench.requests("main"))
    _ = bench.ask()
    assert len(bench.requests("main")) == count + 1


def test_another_configuration_is_asked_anew() -> None:
    bench = Bench(ONE)
    first = bench.ask()
    bench.says("main", LISTS["main"])
    ids(first)
    bench.generation.number = 2
    second = bench.ask()
    bench.says("main", {"data": []})
    assert ids(second) == {"main": []}


def test_what_is_kept_is_bounded_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_models, "MAX_CACHED_MODELS", 10)
    bench = Bench(KEYLESS)
    for number in range(6):
        asked = bench.ask(key(f"sk-canary-{number}"))
        bench.says("main", LISTS["main"])  # two models, and the list itself
        ids(asked)
    before = bench.dials("main")
    for number in (5, 4, 3):
        assert ids(bench.ask(key(f"sk-canary-{number}")))["main"] == ["gpt-c", "gpt-live"]
    assert bench.dials("main") == before
    again = bench.ask(key("sk-canary-2"))
    assert bench.dials("main") == before + 1
    _ = again.addErrback(lambda failure: failure.trap(CancelledError))
    again.cancel()


# Many at the same time


def test_many_who_ask_at_the_same_time_make_one_request() -> None:
    bench = Bench(ONE)
    asked = [bench.ask() for _ in range(20)]
    assert bench.dials("main") == 1
    bench.says("main", LISTS["main"])
    assert [ids(each) for each in asked] == [{"main": ["gpt-c", "gpt-live"]}] * 20


def test_a_failure_is_counted_once_however_many_wait() -> None:
    bench = Bench(ONE)
    asked = [bench.ask() for _ in range(5)]
    bench.says("main", b"", 503)
    assert [ids(each) for each in asked] == [{"main": []}] * 5
    assert bench.failures == ["main"]


def test_a_client_that_leaves_leaves_alone() -> None:
    bench = Bench()
    leaves, stays = bench.ask(), bench.ask()
    leaves.cancel()
    with pytest.raises(CancelledError):
        result_of(leaves)
    bench.all_say()
    assert ids(stays)["main"] == ["gpt-c", "gpt-live"]
    assert bench.settled() == (0, 0, 0)


def test_a_list_that_nobody_waits_for_any_more_is_kept() -> None:
    bench = Bench(ONE)
    leaves = bench.ask()
    leaves.cancel()
    with pytest.raises(CancelledError):
        result_of(leaves)
    assert bench.generation.in_use == 1
    bench.says("main", LISTS["main"])
    assert ids(bench.ask()) == {"main": ["gpt-c", "gpt-live"]}
    assert bench.dials("main") == 1
    assert bench.failures == []


def test_a_configuration_stays_open_until_the_lists_that_it_asked_for_have_come() -> None:
    bench = Bench(ONE)
    asked = bench.ask()
    bench.generation.retire()
    bench.says("main", LISTS["main"])
    assert ids(asked) == {"main": ["gpt-c", "gpt-live"]}
    assert bench.wire("main").closing


def test_nothing_of_a_key_is_in_what_is_shown_of_a_question() -> None:
    bench = Bench(ONE)
    credential = result_of(bench.generation.credentials["main"].obtain(None))
    request = bench.probe.request(bench.generation, "main", credential)
    assert "canary" not in repr((request, bench.probe, bench.lists, json.dumps(bench.failures)))
