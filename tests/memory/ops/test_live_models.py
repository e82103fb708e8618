"""What providers list themselves: asked at once, in three seconds, kept for a minute, for one key."""

from __future__ import annotations

from pathlib import Path

from mgw import __version__
from mgw.vocabulary import Family
from tests.support.live_models import CLAUDE, KEYLESS, Bench, ids, key
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
