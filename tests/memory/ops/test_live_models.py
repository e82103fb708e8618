"""What providers list themselves: asked at once, in three seconds, kept for a minute, for one key."""

from __future__ import annotations

from pathlib import Path

from mgw import __version__
from mgw.nouns.vocabulary import Family
from tests.support.live_models import CLAUDE, KEYLESS, LiveModelsHarness, ids, key
from tests.support.probes import LISTS

GEM = 'providers: {gem: {kind: gemini, base_url: "http://g.example/v1beta", api_key: AIza-canary}}'
EDITED = """
providers:
  claude:
    kind: anthropic
    base_url: "http://claude.example/v1"
    api_key: sk-canary
    headers: {set: {X-Team: blue, User-Agent: team}, remove: [anthropic-version]}
"""


# What is asked, and of whom


def test_all_providers_are_asked_at_once_and_each_is_read_in_its_own_words() -> None:
    harness = LiveModelsHarness()
    asked = harness.ask()
    assert {name: harness.target(name) for name in harness.endpoints} == {
        "main": "/v1/models",
        "host": "/v1/models",
        "claude": "/v1/models?limit=1000",
        "gem": "/v1beta/models?pageSize=1000",
        "mute": "/v1/models",
    }
    harness.all_say()
    assert ids(asked) == {
        "main": ["gpt-c", "gpt-live"],
        "host": ["meta/llama"],
        "claude": ["claude-live"],
        "gem": ["gemini-live"],
        "mute": [],
    }
    assert harness.failures == []
    assert harness.settled() == (0, 0, 0)


def test_only_one_familys_providers_are_asked_where_that_is_wanted() -> None:
    harness = LiveModelsHarness()
    asked = harness.ask(family=Family.ANTHROPIC)
    harness.respond("claude", LISTS["claude"])
    assert ids(asked) == {"claude": ["claude-live"]}
    assert sum(len(endpoint.connections) for endpoint in harness.endpoints.values()) == 1


def test_a_request_carries_what_the_kind_requires_and_the_providers_own_key() -> None:
    harness = LiveModelsHarness()
    harness.ask()  # type: ignore[unused-awaitable]  # it stays under way
    assert harness.headers("claude") == {
        "host": "anthropic.example",
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": f"mgw/{__version__}",
        "anthropic-version": "2023-06-01",
        "x-api-key": "sk-ant-0003",
    }
    assert harness.headers("gem")["x-goog-api-key"] == "AIza-0004"
    assert harness.headers("main")["authorization"] == "Bearer sk-main-0001"


def test_the_operators_edits_are_made() -> None:
    harness = LiveModelsHarness(EDITED)
    harness.ask()  # type: ignore[unused-awaitable]  # it stays under way
    headers = harness.headers("claude")
    assert (headers["x-team"], headers["user-agent"]) == ("blue", "team")
    assert "anthropic-version" not in headers


# Whose key


def test_the_default_of_its_family_alone_gets_a_clients_own_key() -> None:
    harness = LiveModelsHarness(KEYLESS)
    asked = harness.ask(key("sk-own-canary"))
    assert [name for name in ("main", "claude", "other") if harness.endpoints[name].connections] == ["main"]
    assert harness.headers("main")["authorization"] == "Bearer sk-own-canary"
    harness.respond("main", LISTS["main"])
    assert ids(asked) == {"main": ["gpt-c", "gpt-live"], "claude": [], "other": []}


def test_a_provider_that_there_is_no_key_for_is_left_out_and_no_failure() -> None:
    harness = LiveModelsHarness(KEYLESS)
    assert ids(harness.ask()) == {"main": [], "claude": [], "other": []}
    assert harness.failures == []
    assert not any(endpoint.connections for endpoint in harness.endpoints.values())


def test_a_list_is_never_shown_to_another_key() -> None:
    harness = LiveModelsHarness(KEYLESS)
    first = harness.ask(key("sk-canary-1"))
    harness.respond("main", LISTS["main"])
    assert ids(first)["main"] == ["gpt-c", "gpt-live"]
    second = harness.ask(key("sk-canary-2"))
    assert harness.headers("main")["authorization"] == "Bearer sk-canary-2"
    harness.respond("main", {"data": []})
    assert ids(second)["main"] == []
    assert ids(harness.ask(key("sk-canary-1")))["main"] == ["gpt-c", "gpt-live"]


def test_keys_that_ask_at_the_same_time_do_not_share_a_request() -> None:
    harness = LiveModelsHarness(KEYLESS)
    first, second = harness.ask(key("sk-canary-1")), harness.ask(key("sk-canary-2"))
    for connection, body in zip(
        harness.endpoints["main"].connections, (b'["x"]', b'{"data":[]}'), strict=True
    ):
        connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert ids(first)["main"] == ids(second)["main"] == []
    assert harness.failures == ["main"]


def test_a_token_that_is_refused_is_renewed_once(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-old")
    harness = LiveModelsHarness(
        f"""providers: {{main: {{kind: openai, base_url: "http://m.example/v1", token_file: "{file}"}}}}"""
    )
    asked = harness.ask()
    file.write_text("canary-new")
    harness.respond("main", b"{}", 401)
    assert harness.headers("main")["authorization"] == "Bearer canary-new"
    harness.respond("main", LISTS["main"])
    assert ids(asked) == {"main": ["gpt-c", "gpt-live"]}


def test_a_token_that_is_refused_again_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-old")
    harness = LiveModelsHarness(
        f"""providers: {{main: {{kind: openai, base_url: "http://m.example/v1", token_file: "{file}"}}}}"""
    )
    asked = harness.ask()
    for token in ("canary-new", "canary-newest"):
        file.write_text(token)
        harness.respond("main", b"{}", 401)
    assert ids(asked) == {"main": []}
    assert (harness.dials("main"), harness.failures) == (2, ["main"])


def test_a_token_is_renewed_once_for_all_pages(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("canary-old")
    harness = LiveModelsHarness(
        f"""providers: {{claude: {{kind: anthropic, base_url: "http://c.io/v1", token_file: "{file}"}}}}"""
    )
    asked = harness.ask()
    file.write_text("canary-new")
    harness.respond("claude", b"{}", 401)
    harness.respond("claude", {"data": [{"id": "a"}], "has_more": True})
    assert harness.headers("claude")["authorization"] == "Bearer canary-new"
    file.write_text("canary-newest")
    harness.respond("claude", b"{}", 401)
    assert ids(asked) == {"claude": []}
    assert harness.dials("claude") == 3


# Pages


def test_anthropics_pages_are_followed_to_the_last() -> None:
    harness = LiveModelsHarness(CLAUDE)
    asked = harness.ask()
    harness.respond("claude", {"data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    assert harness.target("claude") == "/v1/models?limit=1000&after_id=a"
    harness.respond("claude", {"data": [{"id": "b"}], "has_more": False, "last_id": "b"})
    assert ids(asked) == {"claude": ["a", "b"]}
    assert len(harness.endpoints["claude"].connections) == 1


def test_googles_pages_are_followed_to_the_last() -> None:
    harness = LiveModelsHarness(GEM)
    asked = harness.ask()
    harness.respond("gem", {"models": [{"name": "models/a"}], "nextPageToken": "t/1"})
    assert harness.target("gem") == "/v1beta/models?pageSize=1000&pageToken=t%2F1"
    harness.respond("gem", {"models": [{"name": "models/b"}]})
    assert ids(asked) == {"gem": ["a", "b"]}
