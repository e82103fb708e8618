"""What a valid file means."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from mgw.config.auths import AuthMode
from mgw.config.dashboard import DashboardSettings
from mgw.config.listen import EndpointText, Listen
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.provider import Provider, UpstreamTimeoutsSettings
from mgw.config.settings import Config, HealthChecksSettings, RoutesSettings, TimeoutsSettings, TlsSettings
from mgw.config.translation import AutoBreakpointsSettings, CacheTarget, TranslationSettings
from mgw.nouns.kinds import KINDS
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import DEFAULT_SPELLINGS, KIND_SPELLINGS, Capability, Kind

ONE = "providers: {main: {kind: openai}}\n"


def config_of(text: str, **environ: str) -> Config:
    return parse(text, "mgw.yaml", environ)


def provider_of(settings: str, **environ: str) -> Provider:
    return config_of(f"providers: {{main: {{{settings}}}}}", **environ).providers["main"]


def test_what_is_not_said_has_its_default() -> None:
    config = config_of(ONE)
    assert config == Config(
        providers={"main": Provider(name="main", kind=Kind.OPENAI, base_url="https://api.openai.com/v1")},
        dashboard=DashboardSettings(enabled=True),
    )
    assert config.listen == Listen("127.0.0.1", 8787)
    assert config.max_body_bytes == 32 * 1024 * 1024
    assert config.spool.body_memory == 512 * 1024 * 1024
    assert config.drain_seconds == 30
    assert config.observe_dropped_fields is True
    assert config.translation == TranslationSettings(default_max_tokens=8192, clean_history=True, models=())
    assert config.caching.auto_breakpoints == AutoBreakpointsSettings(
        enabled=False, min_chars=4096, targets=frozenset(CacheTarget)
    )
    assert config.stream_keepalive is None
    assert (config.public_url, config.trusted_proxies, config.rewrite_urls) == (None, (), True)
    assert config.routes == RoutesSettings(deny=())
    assert config.health_checks == HealthChecksSettings(enabled=False, timeout=5)


def test_an_empty_block_means_its_defaults() -> None:
    blocks = "tls:\nedge_auth:\nhooks:\n  jsonl:\ntimeouts:\nspool:\naliases:\ndefaults:\n"
    blocks += "routes:\nhealth_checks:\n"
    blocks += "translation:\n  voices:\ncaching:\n  auto_breakpoints:\nstream_keepalive:\n"
    assert config_of(ONE + blocks) == config_of(ONE)


def test_settings_are_frozen() -> None:
    config = config_of(ONE)
    with pytest.raises(ValidationError):
        config.drain_seconds = 1.0


@pytest.mark.parametrize(("spelling", "kind"), KIND_SPELLINGS.items())
def test_both_vocabularies_spell_a_kind(spelling: str, kind: Kind) -> None:
    assert provider_of(f"kind: {spelling}, base_url: 'http://host/v1', auth: none").kind is kind


@pytest.mark.parametrize("spelling", DEFAULT_SPELLINGS)
def test_both_vocabularies_spell_a_default(spelling: str) -> None:
    config = config_of(f"{ONE}defaults: {{{spelling}: main}}")
    assert config.defaults == {DEFAULT_SPELLINGS[spelling]: "main"}


def test_a_default_may_be_a_provider_of_another_family() -> None:
    assert config_of(ONE + "defaults: {anthropic_dialect: main}").defaults


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("openai", "https://api.openai.com/v1"),
        ("anthropic", "https://api.anthropic.com/v1"),
        ("gemini", "https://generativelanguage.googleapis.com/v1beta"),
    ],
)
def test_a_first_party_kind_knows_its_address(kind: str, address: str) -> None:
    assert provider_of(f"kind: {kind}").base_url == address


@pytest.mark.parametrize("kind", Kind)
def test_capabilities_are_those_of_the_kind(kind: Kind) -> None:
    provider = provider_of(f"kind: {kind}, base_url: 'http://host/v1', auth: none")
    assert provider.capabilities == KINDS[kind].capabilities


def test_stated_capabilities_stand_over_those_of_the_kind() -> None:
    provider = provider_of(
        "kind: openai_compat, base_url: 'http://h/v1', capabilities: {text: off, image_gen: on}"
    )
    assert provider.capabilities == {Capability.IMAGE_GEN}


def test_a_provider_made_by_hand_has_the_capabilities_of_its_kind() -> None:
    assert Provider(name="a", kind=Kind.ANTHROPIC, base_url="http://h").capabilities == {Capability.TEXT}


@pytest.mark.parametrize(
    ("settings", "auth", "key"),
    [
        ("", None, None),
        ("api_key: k", AuthMode.API_KEY, "k"),
        ("api_key_env: KEY", AuthMode.API_KEY, "from-env"),
        ("auth: api_key, api_key: k", AuthMode.API_KEY, "k"),
        ("auth: bearer, api_key: k", AuthMode.BEARER, "k"),
        ("auth: bearer, api_key_env: KEY", AuthMode.BEARER, "from-env"),
        ("auth: client_bearer", AuthMode.CLIENT_BEARER, None),
        ("token_file: /t", AuthMode.TOKEN_FILE, None),
        ("auth: token_file, token_file: /t", AuthMode.TOKEN_FILE, None),
    ],
)
def test_each_way_to_show_oneself_is_read(settings: str, auth: AuthMode | None, key: str | None) -> None:
    provider = provider_of(f"kind: anthropic, {settings}", KEY="from-env")
    assert provider.auth is auth
    assert provider.api_key == (None if key is None else Secret(key))


def test_a_providers_time_limits_stand_over_the_general_ones() -> None:
    config = config_of(
        "providers: {main: {kind: openai, timeouts: {idle: 7}}}\ntimeouts: {idle: 3, connect: 0.5}"
    )
    assert config.timeouts == TimeoutsSettings(idle=3, connect=0.5)
    assert config.providers["main"].timeouts == UpstreamTimeoutsSettings(idle=7, connect=0.5)


def test_header_names_to_compare_are_lower_case_and_unique() -> None:
    headers = provider_of(
        "kind: openai, headers: {set: {X-A: b}, remove: [X-B, x-b], forward: [X-C]}"
    ).headers
    assert (headers.set, headers.remove, headers.forward) == ({"X-A": "b"}, ("x-b",), ("x-c",))


def test_edge_keys_come_from_the_file_and_the_environment_each_once() -> None:
    edge_auth = config_of(
        ONE + "edge_auth: {enabled: true, keys: [a, b, a], keys_env: KEYS}", KEYS="c, a\n d,,"
    ).edge_auth
    assert [key.reveal() for key in edge_auth.secrets] == ["a", "b", "c", "d"]
    assert edge_auth.enabled


def test_the_environment_stands_over_the_file() -> None:
    config = config_of(
        ONE + "listen: ':1'\ntls: {cert_file: a, key_file: b}",
        GATEWAY_LISTEN="unix:/s",
        GATEWAY_TLS_CERT="c",
        GATEWAY_TLS_KEY="d",
    )
    assert config.listen == EndpointText("unix:/s")
    assert config.tls == TlsSettings(cert_file="c", key_file="d")


def test_the_environment_may_bring_one_half_of_tls() -> None:
    assert config_of(ONE + "tls: {cert_file: a}", GATEWAY_TLS_KEY="b").tls == TlsSettings(
        cert_file="a", key_file="b"
    )


def test_an_empty_override_counts_as_unset() -> None:
    assert config_of(ONE, GATEWAY_LISTEN="", GATEWAY_TLS_CERT="", GATEWAY_TLS_KEY="") == config_of(ONE)


def test_an_alias_keeps_all_behind_the_first_slash_as_the_model() -> None:
    assert config_of(ONE + "aliases: {fast: main/meta/llama}").aliases == {"fast": ("main/meta/llama",)}


def test_providers_and_models_keep_the_order_of_the_file() -> None:
    config = config_of("providers: {b: {kind: openai, models: [z, a, z]}, a: {kind: gemini}}")
    assert list(config.providers) == ["b", "a"]
    assert config.providers["b"].models == ("z", "a")


def test_a_provider_may_be_used_twice_by_a_yaml_alias() -> None:
    config = config_of("providers: {a: &a {kind: openai, api_key: k}, b: *a}")
    assert config.providers["b"].api_key == Secret("k")
    assert config.providers["b"].name == "b"


def test_an_alias_may_be_a_mapping_with_what_lists_say_about_it() -> None:
    text = (
        "aliases:\n  fast: {targets: [main/a, main/b], display_name: Fast, description: For all.,"
        " context_window: 200000, max_output: 9}\n  plain: [main/a, main/a]\n"
    )
    aliases = config_of(ONE + text).own_aliases
    fast = aliases["fast"]
    assert fast.targets == ("main/a", "main/b")
    said = (fast.display_name, fast.description, fast.context_window, fast.max_output)
    assert said == ("Fast", "For all.", 200_000, 9)
    assert (aliases["plain"].targets, aliases["plain"].has_metadata) == (("main/a",), False)


def test_a_listed_model_may_be_a_mapping() -> None:
    text = "providers: {main: {kind: openai, models: [a, {id: b, max_output: 9}, a]}}"
    main = config_of(text).providers["main"]
    assert main.models == ("a", "b")
    found = [(model.id, model.max_output) for model in main.listed_models]
    assert found == [("a", None), ("b", 9), ("a", None)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "aliases: {fast: {targets: [main/m, nobody/m]}}",
            "mgw.yaml:2: aliases.fast.targets.1: no provider is named 'nobody' (known: main)",
        ),
    ],
)
def test_a_mistake_in_the_mapping_of_an_alias_is_told_at_its_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        config_of(ONE + text)
    assert [str(one) for one in refusal.value.problems] == [problem]


def test_what_lists_say_about_a_model_is_said_once() -> None:
    with pytest.raises(ConfigError, match="'m' is listed twice: keep only one"):
        config_of("providers: {main: {kind: openai, models: [m, {id: m, max_output: 9}]}}")


@pytest.mark.parametrize(
    ("key", "value", "most"),
    [
        ("display_name", "x" * 200, "at most 200 characters, found 201"),
        ("description", "x" * 1000, "at most 1000 characters, found 1001"),
        ("context_window", 2**53, "a whole number above 0, found the number 9007199254740993"),
        ("max_output", 2**53, "a whole number above 0, found the number 9007199254740993"),
    ],
)
def test_what_lists_say_is_of_a_bounded_size(key: str, value: Any, most: str) -> None:
    text = ONE + "aliases: {fast: {targets: [main/m], %s: %s}}"
    assert getattr(config_of(text % (key, value)).own_aliases["fast"], key) == value
    with pytest.raises(ConfigError, match=re.escape(f"aliases.fast.{key}: expected {most}")):
        config_of(text % (key, value + (1 if isinstance(value, int) else "x")))
