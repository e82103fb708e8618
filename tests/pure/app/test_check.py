"""What a valid file still makes worth saying."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mgw.app.check import check, final_addresses, reader_of, warnings
from mgw.config.load import parse
from mgw.usage.prices import PriceTable


def warnings_of(text: str) -> list[str]:
    return warnings(parse(text, "mgw.yaml", {}))


def test_an_ordinary_file_has_no_warnings() -> None:
    assert warnings_of("providers: {a: {kind: openai}, b: {kind: anthropic}, c: {kind: gemini}}") == []


def test_an_open_listener_without_edge_auth_is_warned_about() -> None:
    (said,) = warnings_of("providers: {a: {kind: openai}}\nlisten: ':8787'")
    assert said.startswith("listen: :8787 can be reached from other machines, and edge_auth is off")


def test_an_open_listener_with_edge_auth_is_fine() -> None:
    text = "providers: {a: {kind: openai}}\nlisten: ':8787'\nedge_auth: {enabled: true, keys: [a-long-key]}"
    assert warnings_of(text) == []


@pytest.mark.parametrize("limit", ["models: [gpt-*]", "requests_per_minute: 5"])
def test_a_dashboard_that_no_key_opens_is_warned_about(limit: str) -> None:
    keys = f"keys: [{{name: a, key: a-long-key-{'k' * 20}, {limit}}}]"
    text = f"providers: {{a: {{kind: openai}}}}\nedge_auth: {{enabled: true, {keys}}}"
    text += "\ndefaults: {openai_dialect: a}"
    (said,) = warnings_of(text)
    assert "no key opens the dashboard" in said
    assert not warnings_of(f"{text}\ndashboard: {{keys: [canary-dashboard-key]}}")
    assert not warnings_of(f"{text}\ndashboard: {{enabled: false}}")
    assert not warnings_of(text.replace(f", {limit}", ""))
    assert not warnings_of(text.replace("keys: [", "keys: [another-long-key, "))


IN_GROUP = """
providers: {a: {kind: openai}}
defaults: {openai_dialect: a}
edge_auth:
  enabled: true
  groups: {ops: {}, limited: {limits: [{in_flight: 5}]}}
  keys: [{name: a, key: a-long-key, groups: [limited]}]
"""


def test_groups_count_where_nobody_may_open_the_dashboard() -> None:
    (said,) = warnings_of(IN_GROUP)
    assert "every key of edge_auth has models or limits, itself or by a group, so no key opens" in said
    (said,) = warnings_of(f"{IN_GROUP}dashboard: {{groups: [ops]}}\n")
    assert "no key of edge_auth is in one of dashboard.groups, so no key opens" in said
    assert not warnings_of(f"{IN_GROUP}dashboard: {{groups: [limited]}}\n")
    assert not warnings_of(
        IN_GROUP.replace("  enabled: true\n", "  enabled: true\n  keys_dir: /etc/mgw/keys\n")
    )


def test_limits_without_edge_auth_are_warned_about() -> None:
    (said,) = warnings_of("providers: {a: {kind: openai}}\nedge_auth: {limits: [{in_flight: 5}]}")
    assert said == "edge_auth.limits: edge auth is off, so no limit applies to any request"
    (said,) = warnings_of("providers: {a: {kind: openai}}\nedge_auth: {groups: {a: {}}}")
    assert said.startswith("edge_auth.groups: edge auth is off")


REDIS = "providers: {a: {kind: openai}}\nfleet: {redis: {url: 'redis://h'}}\nprices: {rows: []}\n"


@pytest.mark.parametrize(
    ("limits", "is_said"),
    [
        ("limits: [{requests: 5, per: day}]", True),
        ("groups: {g: {limits: [{usd: 5, per: total}]}}", True),
        ("limits: [{requests: 5, per: minute}, {in_flight: 5}]", False),
    ],
)
def test_rows_that_last_need_a_redis_that_does(limits: str, *, is_said: bool) -> None:
    text = f"{REDIS}edge_auth: {{enabled: true, keys: [a-long-key-1], {limits}}}\n"
    said = [line for line in warnings_of(text) if line.startswith("fleet.redis")]
    assert bool(said) is is_said
    assert all("Redis must be persistent" in line for line in said)


def test_patterns_of_groups_that_fit_no_model_are_warned_about() -> None:
    text = "providers: {main: {kind: openai}}\nedge_auth: {enabled: true, keys: [a-long-key-1], "
    (said,) = warnings_of(f"{text}groups: {{g: {{models: ['mian/*', 'main/*']}}}}}}")
    assert said.startswith(
        "edge_auth.groups.g.models: 'mian/*' matches no model: no provider is named 'mian'"
    )


def test_keys_that_nobody_is_asked_for_are_warned_about() -> None:
    (said,) = warnings_of("providers: {a: {kind: openai}}\nedge_auth: {keys: [a-long-key]}")
    assert said.startswith("edge_auth.enabled: keys are set")


def test_less_memory_than_one_body_is_warned_about() -> None:
    (said,) = warnings_of("providers: {a: {kind: openai}}\nspool: {body_memory: 1000}")
    assert said.startswith("spool.body_memory: less than max_body_bytes")


def test_less_disk_than_one_body_is_warned_about() -> None:
    (said,) = warnings_of("providers: {a: {kind: openai}}\nspool: {body_disk: 1000}")
    assert said == "spool.body_disk: less than max_body_bytes, so the largest request bodies never fit"


@pytest.mark.parametrize(
    "listener", ["tls: {cert_file: a, key_file: b}", "listen: 'ssl:1:interface=127.0.0.1'"]
)
def test_a_plain_public_address_of_a_listener_with_tls_is_warned_about(listener: str) -> None:
    (said,) = warnings_of(f"providers: {{a: {{kind: openai}}}}\n{listener}\npublic_url: http://gw/llm")
    assert said == "public_url: http://gw/llm is plain HTTP, but the listener uses TLS"


@pytest.mark.parametrize(
    "settings",
    [
        "public_url: http://gw.example",
        "public_url: https://gw.example",
        "public_url: https://gw.example\ntls: {cert_file: a, key_file: b}",
    ],
)
def test_a_proxy_may_speak_tls_for_the_gateway_and_none_need(settings: str) -> None:
    assert warnings_of(f"providers: {{a: {{kind: openai}}}}\n{settings}") == []


@pytest.mark.parametrize(
    ("kind", "address", "said"),
    [
        ("openai", "https://h", "has no version segment (/v1)"),
        ("openai", "https://h/v1beta", "has no version segment (/v1)"),
        ("anthropic", "https://h/v2", "has no version segment (/v1)"),
        ("gemini", "https://h", "has no version segment (/v1beta or /v1 or /v1alpha)"),
        ("openai", "https://h/v1/chat/completions", "ends with the path of a call"),
        ("openai", "https://h/v1", None),
        ("openai", "https://generativelanguage.googleapis.com/v1beta/openai", None),
        ("openai_compat", "https://generativelanguage.googleapis.com/v1beta/openai", None),
        (
            "gemini",
            "https://h/v1beta/openai",
            "is Google's OpenAI-compatible API: for Gemini's own API",
        ),
        ("openai_compat", "https://h/api/paas/v4", None),
        ("openai_compat", "https://h/v1beta/openai", None),
        ("openai_compat", "https://h/serving-endpoints", None),
        ("anthropic", "https://h/serving-endpoints/anthropic", "has no version segment (/v1)"),
        ("gemini", "https://h/v1/projects/p/locations/l/publishers/google", None),
        ("gemini", "https://h/v1alpha", None),
    ],
)
def test_an_address_without_its_version_is_warned_about(kind: str, address: str, said: str | None) -> None:
    found = warnings_of(f"providers: {{a: {{kind: {kind}, base_url: '{address}', api_key: long-enough}}}}")
    assert len(found) == (said is not None)
    assert all(f"providers.a.base_url: {address} {said}" in sentence for sentence in found)


def test_the_final_address_of_one_call_is_shown_for_each_provider() -> None:
    text = """
providers:
  main: {kind: openai}
  claude: {kind: anthropic}
  google: {kind: gemini, models: [gemini-x]}
  vertex: {kind: gemini, base_url: 'https://h/v1/publishers/google'}
  claude-gcp: {kind: vertex_anthropic, base_url: 'https://h/v1/publishers/anthropic', auth: adc}
"""
    assert final_addresses(parse(text, "mgw.yaml", {})) == [
        "main: POST https://api.openai.com/v1/chat/completions",
        "claude: POST https://api.anthropic.com/v1/messages",
        "google: POST https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent",
        "vertex: POST https://h/v1/publishers/google/models/{model}:generateContent",
        "claude-gcp: POST https://h/v1/publishers/anthropic/models/{model}:rawPredict",
    ]


def test_a_host_that_gets_the_keys_of_the_clients_is_warned_about() -> None:
    (found,) = warnings_of("providers: {a: {kind: openai_compat, base_url: 'http://h/v1'}}")
    assert found.startswith(
        "providers.a: no key, so the credentials of all OpenAI clients are sent to this host"
    )
    assert "auth: none" in found


@pytest.mark.parametrize("settings", ["auth: none", "api_key: long-enough", "auth: client_bearer"])
def test_a_host_with_a_key_or_without_any_is_not(settings: str) -> None:
    assert (
        warnings_of(f"providers: {{a: {{kind: openai_compat, base_url: 'http://h/v1', {settings}}}}}") == []
    )


def test_keys_that_are_words_are_warned_about_and_not_quoted() -> None:
    text = "providers: {a: {kind: openai, api_key: canary}}\nedge_auth: {enabled: true, keys: [canary2]}"
    rest = (
        "has fewer than 8 characters, so it could be an ordinary word and is not hidden if a log line "
        "or a provider's error repeats it"
    )
    assert warnings_of(text) == [f"edge_auth: a key {rest}", f"providers.a: its key {rest}"]


def unpriced(text: str) -> list[str]:
    config = parse(text, "mgw.yaml", {})
    assert config.prices is not None
    return warnings(config, PriceTable(config.prices.rows))


ROWS = "prices: {rows: [{model: 'gpt-*', input: 1}, {model: 'claude-*', provider: b, input: 1}]}\n"


def test_models_that_no_price_fits_are_warned_about_by_provider() -> None:
    text = (
        "providers:\n  a: {kind: openai, models: [gpt-5, o9, claude-5]}\n"
        "  b: {kind: anthropic, models: [claude-5]}\n"
        "aliases: {one: b/claude-6, two: [a/gpt-6, b/other, b/other], three: a/o9}\n"
    )
    assert unpriced(text + ROWS) == [
        "prices: no row matches o9, claude-5 of providers.a, so these requests have no cost_usd",
        "prices: no row matches other of providers.b, so these requests have no cost_usd",
    ]


def test_models_without_a_price_are_refused_to_clients_with_a_budget() -> None:
    text = "providers: {a: {kind: openai, models: [o9]}}\n"
    budget = "edge_auth: {enabled: true, keys: [a-long-key-1], limits: [{usd: 5, per: day}]}\n"
    rows = "prices: {rows: [{model: 'gpt-*', input: 1}], unpriced: %s}\n"
    (said,) = unpriced(text + budget + rows % "refuse")
    assert said == (
        "prices: no row matches o9 of providers.a, so these requests have no cost_usd, and clients under a "
        "limit on usd get 403"
    )
    (said,) = unpriced(text + budget + rows % "allow")
    assert said.endswith("so these requests have no cost_usd")


def test_many_models_without_a_price_are_not_all_named() -> None:
    models = "[o1, o2, o3, o4, o5, o6, o7]"
    (said,) = unpriced(
        f"providers: {{a: {{kind: openai, models: {models}}}, b: {{kind: anthropic}}}}\n{ROWS}"
    )
    assert "no row matches o1, o2, o3, o4, o5 and 2 more of providers.a" in said


DAYS = {"2026-11-30T12:00:00": 0, "2026-12-01T00:00:00": 1}


@pytest.mark.parametrize(("moment", "warned"), DAYS.items())
def test_a_price_that_is_over_is_no_price(moment: str, warned: int) -> None:
    row = "{model: 'gpt-*', input: 1, valid_until: 2026-11-30}"
    text = f"providers: {{a: {{kind: openai, models: [gpt-5]}}}}\nprices: {{rows: [{row}]}}\n"
    config = parse(text, "mgw.yaml", {})
    assert config.prices is not None
    wall = datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp()
    found = warnings(config, PriceTable(config.prices.rows), wall)
    assert ["no row matches gpt-5 of providers.a" in warning for warning in found] == [True] * warned


def test_without_prices_no_price_is_missed() -> None:
    assert warnings_of("providers: {a: {kind: openai, models: [o1]}}") == []


@pytest.mark.parametrize("target", [None, "/dev/zero"])
def test_a_pipe_or_an_endless_file_is_no_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str | None
) -> None:
    file = tmp_path / "mgw.yaml"
    if target is None:
        os.mkfifo(file)
    else:
        file.symlink_to(target)
    assert check(reader_of(str(file))) == 1
    said = capsys.readouterr().err
    assert said == f"mgw: configuration file {file} cannot be read: not a regular file\n"


def test_warnings_of_prices_are_found_in_time_that_grows_with_the_configuration_alone() -> None:
    """A provider was compared with the targets of all aliases: three million for a thousand providers."""

    def steps_for(count: int) -> int:
        providers = ", ".join(f"p{number}: {{kind: openai}}" for number in range(count))
        aliases = ", ".join(f"a{number}: p{number % count}/m{number}" for number in range(3 * count))
        settings = parse(f"providers: {{{providers}}}\naliases: {{{aliases}}}", "mgw.yaml", {})
        steps = 0

        def count_steps(*_: object) -> None:
            nonlocal steps
            steps += 1

        sys.setprofile(count_steps)
        try:
            found = warnings(settings, PriceTable(()))
        finally:
            sys.setprofile(None)
        assert sum("no row matches" in warning for warning in found) == count
        return steps

    assert steps_for(160) < 4.1 * steps_for(40)


@pytest.mark.parametrize(
    ("models", "model"),
    [
        ("", "{model}"),
        (", models: [us.anthropic.claude-x]", "us.anthropic.claude-x"),
        (", models: [a.b]", "{model}"),
    ],
)
def test_a_call_of_bedrock_is_shown_with_a_model_that_it_serves(models: str, model: str) -> None:
    url = "https://bedrock-runtime.us-east-1.amazonaws.com"
    text = f'providers: {{aws: {{kind: bedrock, base_url: "{url}", api_key: abcdefgh{models}}}}}'
    [shown] = final_addresses(parse(text, "mgw.yaml", {}))
    assert f"POST {url}/model/{model}/invoke" in shown
