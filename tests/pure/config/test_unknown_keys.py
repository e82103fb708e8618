"""What is said of keys that no setting has, wherever they are."""

from __future__ import annotations

import pytest

from mgw.config.load import parse, parse_prices, parse_profile
from mgw.config.other_words import OTHER_WORDS
from mgw.config.problems import ANY, ConfigError
from mgw.config.profile import Profile
from mgw.config.settings import Config
from mgw.config.settings_base import known_keys
from mgw.config.unknown_keys import LITELLM, MOST_LISTED, places_of
from tests.support.known_keys import fill_in_keys

ONE = "providers: {main: {kind: openai}}\n"


def said_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(text, "mgw.yaml", {})
    return [str(problem).partition(": ")[2] for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "edge_auth: {keys: [{name: a, key: k, rpm: 5}]}",
            "edge_auth.keys.0.rpm: unknown key, did you mean requests_per_minute?",
        ),
        (
            "edge_auth: {keys: [{name: a, key: k, model: []}]}",
            "edge_auth.keys.0.model: unknown key, did you mean models?",
        ),
        (
            "hooks: {file: {}}",
            fill_in_keys("hooks.file: unknown key; allowed keys: {keys of hooks}"),
        ),
        (
            "hooks: {jsonl: {output: stdout, rotate: 1}}",
            (
                "hooks.jsonl.rotate: unknown key, did you mean rotate_bytes? "
                "(allowed: output, rotate_bytes, keep)"
            ),
        ),
        ("routes: {dney: []}", "routes.dney: unknown key, did you mean deny? (allowed: deny, azure)"),
        (
            "first_byte: 5",
            "first_byte: unknown key at this place: it belongs in timeouts or in providers.<name>.timeouts",
        ),
        (
            "cors: {listen: ':1'}",
            "cors.listen: unknown key at this place: it belongs at the top level (allowed: origins, max_age)",
        ),
        ("spool: {url: 5}", "spool.url: unknown key; allowed keys: dir, body_memory, body_disk, max_bytes"),
    ],
)
def test_an_unknown_key_is_named_with_what_it_may_mean_and_what_is_allowed(setting: str, said: str) -> None:
    assert said_of(f"{ONE}{setting}\n") == [said]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("port: 8787", 'port: unknown key: write listen: "127.0.0.1:8787"'),
        ("host: 0.0.0.0", 'host: unknown key: write listen: "127.0.0.1:8787"'),
        ("default_provider: main", "default_provider: unknown key: write defaults: {openai_dialect: main}"),
        (
            "auth: {keys: []}",
            "auth: unknown key: write edge_auth: {enabled: true, keys_env: MGW_EDGE_KEYS}",
        ),
        (
            "models: [main/gpt-5]",
            "models: unknown key at this place: list models below their provider, in providers.<name>.models",
        ),
        (
            "log_level: debug",
            (
                "log_level: unknown key: the log has one level and goes to standard error; "
                "to write it to a file, use mgw run --log-file FILE"
            ),
        ),
        ("metrics: true", "metrics: unknown key: metrics need no setting and are at /metrics"),
        ("tls: {cert: a.pem, key_file: b.pem}", None),
        ("hooks: {jsonl: {path: usage.jsonl}}", None),
        ("fleet: {redis: {uri: 'redis://h'}}", None),
    ],
)
def test_a_word_that_other_programs_have_leads_to_the_setting(setting: str, said: str | None) -> None:
    found = said_of(f"{ONE}{setting}\n")
    assert len(found) == 1, "what was meant is not missing as well"
    assert said is None or found == [said]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("url", "base_url"), ("endpoint", "base_url"), ("api_base", "base_url"), ("baseURL", "base_url")],
)
def test_the_address_of_a_provider_has_one_name(word: str, meant: str) -> None:
    found = said_of(f"providers: {{main: {{kind: openai_compat, auth: none, {word}: 'http://h/v1'}}}}")
    assert found == [f"providers.main.{word}: unknown key, did you mean {meant}?"]


@pytest.mark.parametrize(("word", "meant"), [("type", "kind"), ("vendor", "kind")])
def test_so_has_the_api_of_a_provider(word: str, meant: str) -> None:
    found = said_of(f"providers: {{main: {{{word}: openai, api_key: long-enough}}}}")
    assert found == [f"providers.main.{word}: unknown key, did you mean {meant}?"]


@pytest.mark.parametrize("word", ["budget", "max_budget"])
def test_a_budget_of_a_group_is_a_limit(word: str) -> None:
    (said,) = said_of(f"{ONE}edge_auth: {{groups: {{research: {{{word}: 50}}}}}}\n")
    where = f"edge_auth.groups.research.{word}"
    assert said.startswith(f"{where}: unknown key: write limits: [{{usd: 50, per: month}}] (allowed: ")


def test_a_limit_in_another_currency_is_in_us_dollars() -> None:
    (said,) = said_of(f"{ONE}edge_auth: {{limits: [{{eur: 50, per: month}}]}}\n")
    meant = "money is counted in US dollars, with usd"
    assert said.startswith(f"edge_auth.limits.0.eur: unknown key: {meant} (allowed: ")


def test_a_provider_that_is_turned_off_is_a_comment() -> None:
    assert said_of("providers: {main: {kind: openai, enabled: false}}") == [
        "providers.main.enabled: unknown key: to turn a provider off, remove it or put # before its lines"
    ]


def test_a_header_in_the_place_of_what_is_done_with_headers_goes_below_set() -> None:
    assert said_of("providers: {main: {kind: openai, headers: {X-Team: blue}}}") == [
        (
            "providers.main.headers.…: unknown key; allowed keys: set, remove, forward, "
            "remove_tokens, add_tokens (a header to send goes below set, as in {set: {X-Team: blue}})"
        )
    ]


def test_a_word_with_a_place_in_many_blocks_says_nothing_of_where_it_belongs() -> None:
    (said,) = said_of(f"{ONE}spool: {{enabled: true}}\n")
    assert said == "spool.enabled: unknown key; allowed keys: dir, body_memory, body_disk, max_bytes"


@pytest.mark.parametrize("block", OTHER_WORDS, ids=".".join)
def test_what_other_words_mean_is_a_setting_and_they_are_none(block: tuple[str, ...]) -> None:
    known = known_keys(Config, tuple("0" if step == ANY else step for step in block))
    assert known
    for word, meant in OTHER_WORDS[block].items():
        assert word not in known
        assert word.islower()
        assert meant in known or " " in meant


def test_a_long_list_of_allowed_keys_is_left_out_beside_the_one_that_was_meant() -> None:
    (said,) = said_of("providers: {main: {kind: openai, base_ulr: 'http://h'}}")
    assert said == "providers.main.base_ulr: unknown key, did you mean base_url?"
    (said,) = said_of("providers: {main: {kind: openai, zone: eu}}")
    assert said.startswith("providers.main.zone: unknown key; allowed keys: kind, base_url, ")
    assert said.count(", ") > MOST_LISTED


def test_a_file_of_prices_knows_the_words_of_other_price_lists() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_prices("rows: [{model: a, prompt: 1, output: 2}]\n", "prices.yaml", ())
    assert "rows.0.prompt: unknown key, did you mean input?" in str(refusal.value)


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
