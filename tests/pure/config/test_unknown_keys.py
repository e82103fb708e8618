"""What is said of keys that no setting has, wherever they are."""

from __future__ import annotations

import pytest

from mgw.config.load import parse, parse_profile
from mgw.config.problems import ConfigError
from mgw.config.profile import Profile
from mgw.config.settings import Config
from mgw.config.unknown_keys import LITELLM, MOST_LISTED, places_of

ONE = "providers: {main: {kind: openai}}\n"
OF_KEYS = "name, key, key_env, sha256, models, requests_per_minute, tokens_per_minute, max_in_flight"


def said_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(text, "mgw.yaml", {})
    return [str(problem).partition(": ")[2] for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "edge_auth: {keys: [{name: a, key: k, rpm: 5}]}",
            f"edge_auth.keys.0.rpm: unknown key; allowed keys: {OF_KEYS}",
        ),
        (
            "edge_auth: {keys: [{name: a, key: k, model: []}]}",
            f"edge_auth.keys.0.model: unknown key, did you mean models? (allowed: {OF_KEYS})",
        ),
        ("hooks: {file: {}}", "hooks.file: unknown key; allowed keys: jsonl, webhook, sqlite, otlp"),
        (
            "hooks: {jsonl: {output: stdout, rotate: 1}}",
            (
                "hooks.jsonl.rotate: unknown key, did you mean rotate_bytes? "
                "(allowed: output, rotate_bytes, keep)"
            ),
        ),
        ("routes: {dney: []}", "routes.dney: unknown key, did you mean deny?"),
        (
            "first_byte: 5",
            "first_byte: unknown key at this place: it belongs in timeouts or in providers.<name>.timeouts",
        ),
        ("cors: {listen: ':1'}", "cors.listen: unknown key at this place: it belongs at the top level"),
        ("spool: {url: 5}", "spool.url: unknown key; allowed keys: dir, body_memory, body_disk, max_bytes"),
    ],
)
def test_an_unknown_key_is_named_with_what_it_may_mean_and_what_is_allowed(setting: str, said: str) -> None:
    assert said_of(f"{ONE}{setting}\n") == [said]


def test_a_long_list_of_allowed_keys_is_left_out_beside_the_one_that_was_meant() -> None:
    (said,) = said_of("providers: {main: {kind: openai, base_ulr: 'http://h'}}")
    assert said == "providers.main.base_ulr: unknown key, did you mean base_url?"
    (said,) = said_of("providers: {main: {kind: openai, zone: eu}}")
    assert said.startswith("providers.main.zone: unknown key; allowed keys: kind, base_url, ")
    assert said.count(", ") > MOST_LISTED


def test_a_profile_has_its_own_keys() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_profile("client_id: a\ntoken: {url: 'https://h/', clients: x}\n", "profile.yaml", {})
    said = "token.clients: unknown key; allowed keys: url, style, parameters, headers, sends_state"
    assert str(refusal.value) == f"profile.yaml:2: {said}"


@pytest.mark.parametrize("key", sorted(LITELLM))
def test_settings_of_litellm_lead_to_the_page_about_it(key: str) -> None:
    said = said_of(f"{ONE}{key}: 1\n")
    assert len(said) == 1
    assert said[0].startswith(f"{key}: this is LiteLLM's, not a setting of mgw: ")
    assert said[0].endswith("see docs/coming-from-litellm.rst")
    assert key not in places_of(Config)
    assert key not in places_of(Profile)


def test_a_configuration_of_litellm_does_not_lack_providers_as_well() -> None:
    assert len(said_of("model_list: []\nlitellm_settings: {}\n")) == 2


@pytest.mark.parametrize("text", ["{kind:gemini, api_key: k}", "{api_key: k, kind:gemini}"])
def test_a_name_that_is_joined_to_its_value_lacks_a_space_and_nothing_else(text: str) -> None:
    assert said_of(f"providers: {{main: {text}}}") == ['providers.main: put a space after "kind:"']


@pytest.mark.parametrize(
    "key", ["correct-horse-battery", "CorrectHorse", "sk-canary-7f3a91", "a b", "x" * 30]
)
def test_what_may_be_a_gateway_key_is_not_named(key: str) -> None:
    (said,) = said_of(f"{ONE}edge_auth: {{keys: [{{name: a, key: k, {key}: 1}}]}}\n")
    assert said.startswith("edge_auth.keys.0.…: unknown key; allowed keys: name, ")
    assert key not in said
