"""What is said of a file that cannot be used."""

from __future__ import annotations

import pytest

from mgw.config.key_settings import NamedKeySettings, PreviousKeySettings
from mgw.config.limit_rows import LimitRowSettings
from mgw.config.load import parse
from mgw.config.problems import (
    OF_LIMIT_ROWS,
    OF_NAMED_KEYS,
    ConfigError,
    Problem,
)
from mgw.config.settings_base import file_settings
from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import Capability
from mgw.routing.resolve import REQUIRED
from mgw.routing.routes import ROUTES

ONE = "providers: {main: {kind: openai}}\n"


def test_every_setting_of_a_named_key_is_known_so_that_its_limits_hold_and_messages_name_it() -> None:
    assert set(file_settings(NamedKeySettings)) == OF_NAMED_KEYS, "a limit belongs in LIMITS_OF_KEYS"
    assert set(file_settings(LimitRowSettings)) == OF_LIMIT_ROWS
    assert set(file_settings(PreviousKeySettings)) <= OF_NAMED_KEYS


def problems_of(text: str, **environ: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as refusal:
        parse(text, "mgw.yaml", environ)
    assert str(refusal.value) == "\n".join(map(str, refusal.value.problems))
    return refusal.value.problems


def said_of(text: str, **environ: str) -> list[str]:
    return [str(problem) for problem in problems_of(text, **environ)]


def of_provider(settings: str, **environ: str) -> list[str]:
    text = f"providers: {{main: {{{settings}}}}}"
    return [
        str(problem).removeprefix("mgw.yaml:1: providers.main.") for problem in problems_of(text, **environ)
    ]


def test_a_problem_names_file_line_path_and_the_nearest_key() -> None:
    text = "providers:\n  main:\n    kind: openai\n    base_ulr: http://x\n"
    assert said_of(text) == ["mgw.yaml:4: providers.main.base_ulr: unknown key, did you mean base_url?"]


def test_all_problems_come_together_in_the_order_of_the_file() -> None:
    text = """\
max_body_bytes: 32MiB
providers:
  main:
    kind: opena
    api_key_env: NOT_SET
    timeouts: {idle: 0, idel: 1}
  host: {kind: openai_compat}
defaults:
  openai_dialect: mian
aliases:
  fast: main
edge_auth: {enabled: true}
listen: 8787
"""
    found = problems_of(text, GATEWAY_LISTEN="nowhere")
    assert [(problem.line, problem.path) for problem in found] == [
        (1, "max_body_bytes"),
        (4, "providers.main.kind"),
        (5, "providers.main.api_key_env"),
        (6, "providers.main.timeouts.idle"),
        (6, "providers.main.timeouts.idel"),
        (7, "providers.host.base_url"),
        (9, "defaults.openai_dialect"),
        (11, "aliases.fast"),
        (12, "edge_auth.enabled"),
        (13, "listen"),
        (None, "GATEWAY_LISTEN"),
    ]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "providers: {}\n", "drain_seconds: 1\n"])
def test_a_file_without_providers_says_that_they_are_missing(text: str) -> None:
    (said,) = said_of(text)
    assert said.startswith("mgw.yaml:1: providers: missing")
    assert "expected at least one provider" in said


def test_a_file_that_is_no_mapping_is_refused() -> None:
    assert said_of("- a\n") == [
        (
            'mgw.yaml:1: expected a mapping of settings, as in "providers: {main: {kind: openai, '
            'api_key_env: OPENAI_API_KEY}}", found a list'
        )
    ]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "listen: 8787",
            'expected a string in quotes such as "127.0.0.1:8787" or ":8787", found the number 8787',
        ),
        ("listen: 12:30", "found the number 750 (what YAML makes of 12:30 without quotes)"),
        ("listen:", "found nothing"),
        ("max_body_bytes: 32MiB", "a whole number of bytes from 1 to 2147483648, without a unit"),
        ("max_body_bytes: 0", "found the number 0"),
        ("max_body_bytes: 2147483649", "found the number 2147483649"),
        ("max_body_bytes: 1.5", "found the number 1.5"),
        ("max_body_bytes: true", "found true"),
        ("drain_seconds: -1", "expected a number of seconds, 0 or more, found the number -1"),
        ("drain_seconds: .inf", "found the number inf"),
        ("drain_seconds: '5'", "found a string"),
        ("timeouts: {idle: 0}", "expected a number of seconds above 0, found the number 0"),
        ("timeouts: {idle: yes}", "found true (what YAML makes of yes without quotes)"),
        ("timeouts: 5", "expected a mapping such as {first_byte: 600, idle: 300}, found the number 5"),
        ("edge_auth: {enabled: 'true'}", "expected true or false, found a string"),
        (
            "edge_auth: {keys: abc}",
            "expected a list such as [{name: alice, key_env: ALICE_KEY}], found a string",
        ),
        (
            "edge_auth: {keys: [123]}",
            "expected a string (put the key in quotes) or a mapping with a name, found a number",
        ),
        ("hooks: {jsonl: {}}", "missing, expected stdout, stderr or the path of a file"),
        ("hooks: {jsonl: {output: ''}}", "expected a string, found an empty string"),
        ("spool: {body_memory: 512M}", "without a unit (512 MiB is 536870912), found a string"),
        (
            "aliases: {a: 4.1}",
            "expected <provider>/<model> or a list of them, found the number 4.1",
        ),
        (
            "aliases: {a: main}",
            "expected <provider>/<model>, found 'main', which is a provider: add the model",
        ),
        ("aliases: {a: /x}", "expected <provider>/<model>, found '/x'"),
        ("aliases: {a: main/}", "expected <provider>/<model>, found 'main/'"),
        ("aliases: {a: mian/x}", "no provider is named 'mian', did you mean main? (known: main)"),
        ("aliases: {'': main/x}", "found an empty string"),
        ("aliases: {'a b': main/x}", "expected a name without spaces or control characters"),
        ("defaults: {openai_dialect: mian}", "no provider is named 'mian', did you mean main? (known: main)"),
        ("defaults: {opnai_dialect: main}", "unknown key, did you mean openai_dialect?"),
        ("defaults: [main]", "expected a mapping of names such as {openai_dialect: main}, found a list"),
        ("tls: {cert_file: a}", "missing, TLS requires both files: set it or GATEWAY_TLS_KEY"),
        ("tls: {}\nlisten: 'ssl:443:k'", "missing, TLS requires both files"),
        (
            "listen: 'ssl:443:k'\ntls: {cert_file: a, key_file: b}",
            "the endpoint in listen already uses TLS",
        ),
        ("edge_auth: {keys_env: UNSET}", "the environment variable UNSET is not set"),
        ("edge_auth: {keys_env: EMPTY}", "the environment variable EMPTY is empty"),
        ("edge_auth: {keys_env: COMMAS}", "the environment variable COMMAS contains no key"),
        ("edge_auth: {keys_env: sk-1}", "expected the name of an environment variable"),
        ("edge_auth: {enabled: true, keys: []}", "edge auth requires a key or an issuer"),
    ],
)
def test_a_wrong_setting_is_told_what_was_expected_and_found(setting: str, said: str) -> None:
    assert said in said_of(f"{ONE}{setting}\n", EMPTY="", COMMAS=" , ")[0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            "api_key: k",
            (
                "kind: missing, expected one of openai, openai_compat, azure_openai, anthropic, bedrock, "
                "vertex_anthropic, gemini"
            ),
        ),
        (
            "kind: antropic",
            "kind: unknown value 'antropic', did you mean anthropic? (expected one of openai, openai_compat,",
        ),
        (
            "kind: 5",
            (
                "expected one of openai, openai_compat, azure_openai, anthropic, bedrock, vertex_anthropic, "
                "gemini, found the number 5"
            ),
        ),
        ("kind: openai_compat", "base_url: missing, expected the address of the host"),
        ("kind: openai, base_url: 'ftp://x'", "base_url: expected an address that begins with http://"),
        (
            "kind: openai, auth: basic",
            "auth: unknown value; expected one of api_key, bearer, client_bearer, token_file",
        ),
        (
            "kind: openai, max_connections: 0",
            "max_connections: expected a whole number above 0, found the number 0",
        ),
        (
            "kind: openai, models: x",
            "models: expected a list such as [gpt-5.4, gpt-5.4-mini], found a string",
        ),
        (
            "kind: openai, models: [4.1]",
            "models.0: expected a string (in quotes if YAML would read it as a number)",
        ),
        ("kind: openai, ca_file: 5", "ca_file: expected a string, found the number 5"),
        ("kind: openai, timeouts: {client_idle: 5}", "timeouts.client_idle: unknown key"),
        ("kind: openai, capabilities: {txt: on}", "capabilities.txt: unknown key, did you mean text?"),
        ("kind: openai, headers: {set: {Host: x}}", "headers.set.Host: Host describes the connection"),
        ("kind: openai, headers: {set: {x: 5}}", "headers.set.x: expected a string (in quotes"),
        ("kind: openai, headers: {set: {x: a, X: b}}", "headers.set.X: the same header as x: keep only one"),
        ("kind: openai, headers: {remove: [te]}", "headers.remove.0: te describes the connection"),
        ("kind: openai, headers: {forward: [cookie]}", "headers.forward.0: cookie carries credentials"),
        ("kind: openai, headers: {forward: [x], remove: [X]}", "headers.remove: x is also set or forwarded"),
    ],
)
def test_a_wrong_setting_of_a_provider_is_told_so(settings: str, said: str) -> None:
    assert of_provider(settings)[0].startswith(said) or said in of_provider(settings)[0]
    assert len(of_provider(settings)) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("api_key: a, api_key_env: KEY", "api_key_env: api_key is also set: keep only one of them"),
        ("api_key: a, token_file: /t", "token_file: a provider has one credential"),
        ("auth: api_key", "auth: auth api_key requires api_key or api_key_env, found neither"),
        ("auth: bearer", "auth: auth bearer requires api_key or api_key_env, found neither"),
        (
            "auth: api_key, token_file: /t",
            "auth: auth api_key takes api_key or api_key_env, found token_file",
        ),
        ("auth: bearer, api_key: a, token_file: /t", "auth: auth bearer takes api_key or api_key_env"),
        ("auth: client_bearer, api_key: a", "auth: auth client_bearer sends the client's own token"),
        ("auth: client_bearer, token_file: /t", "auth: auth client_bearer sends the client's own token"),
        ("auth: none, api_key: a", "auth: auth none sends no credential: remove the provider's key or token"),
        ("auth: none, token_file: /t", "auth: auth none sends no credential: remove the provider's key"),
        ("auth: none", "auth: auth none cannot work at https://api.openai.com/v1, which rejects requests"),
        ("auth: token_file", "auth: auth token_file requires token_file"),
        ("auth: token_file, token_file: /t, api_key: a", "auth: auth token_file uses only token_file"),
        ("api_key_env: UNSET", "api_key_env: the environment variable UNSET is not set"),
        ("api_key_env: EMPTY", "api_key_env: the environment variable EMPTY is empty"),
        (
            "api_key_env: LINE",
            "api_key_env: the key in the environment variable LINE ends with a line break: store it",
        ),
        ("api_key: ''", "api_key: the key is empty"),
        ("api_key:", "api_key: expected a string (put the key in quotes), found nothing"),
        ("auth: bearer, api_key: 5", "api_key: expected a string (put the key in quotes), found a number"),
    ],
)
def test_credentials_that_cannot_work_are_refused_at_load(settings: str, said: str) -> None:
    (found,) = of_provider(f"kind: openai, {settings}", KEY="k", EMPTY="", LINE="canary\n")
    assert found.startswith(said)


@pytest.mark.parametrize(
    "capability", ["image_gen", "video_gen", "audio_speech", "audio_transcribe", "realtime"]
)
def test_what_a_kind_cannot_do_cannot_be_switched_on(capability: str) -> None:
    (found,) = of_provider(f"kind: anthropic, capabilities: {{{capability}: on}}")
    assert found == (
        f"capabilities.{capability}: a provider of kind anthropic cannot do {capability}: "
        "set it to false or leave it out"
    )


def test_two_spellings_of_one_default_are_refused() -> None:
    assert said_of(ONE + "defaults:\n  openai_dialect: main\n  alpha_dialect: main\n") == [
        (
            "mgw.yaml:4: defaults.alpha_dialect: another spelling of openai_dialect, "
            "which is also set: keep only one"
        )
    ]


@pytest.mark.parametrize("name", ["a/b", "a b", "ä", ""])
def test_a_providers_name_is_plain(name: str) -> None:
    (found,) = said_of(f"providers: {{'{name}': {{kind: openai}}}}")
    assert "a provider's name may contain only letters, digits" in found


def test_a_wrong_override_names_its_variable() -> None:
    (found,) = said_of(ONE, GATEWAY_LISTEN="8787")
    assert found.startswith("environment: GATEWAY_LISTEN: expected")


def test_half_of_tls_from_the_environment_asks_for_the_other() -> None:
    (found,) = said_of(ONE, GATEWAY_TLS_CERT="/c")
    assert found.endswith("tls.key_file: missing, TLS requires both files: set it or GATEWAY_TLS_KEY")


def test_what_follows_from_a_problem_is_not_reported_too() -> None:
    text = ONE + "edge_auth: {enabled: true, keys_env: UNSET}\ndefaults: {openai_dialect: other}\n"
    text += "aliases: {a: broken/x}\n"
    text = text.replace("main: {kind: openai}", "main: {kind: openai}, other: 5, broken: {kind: x}")
    assert [problem.path for problem in problems_of(text)] == [
        "providers.other",
        "providers.broken.kind",
        "edge_auth.keys_env",
    ]


def test_a_value_that_cannot_be_read_is_one_problem() -> None:
    (found,) = of_provider("kind: openai, api_key: !x y")
    assert found == (
        "api_key: tags (!) are not supported: write the value itself, or its variable in a setting that ends "
        "in _env"
    )


def test_a_wrong_edge_key_is_not_a_missing_one_too() -> None:
    assert [problem.path for problem in problems_of(ONE + "edge_auth: {enabled: true, keys: ['a b']}")] == [
        "edge_auth.keys.0"
    ]


@pytest.mark.parametrize(
    "placeholder", ["${MAIN_KEY}", "$MAIN_KEY", "${KEY:-x}", "os.environ/MAIN_KEY", "<your key>", "<API_KEY>"]
)
def test_a_placeholder_is_no_key_and_is_told_where_the_key_goes(placeholder: str) -> None:
    (found,) = of_provider(f"kind: openai, api_key: '{placeholder}'")
    assert found == (
        "api_key: the key is a placeholder, and placeholders are not filled in: to read the key "
        "from the environment, name its variable in api_key_env"
    )
    (found,) = of_provider("kind: openai, api_key_env: KEY", KEY=placeholder)
    assert found.endswith(
        "KEY is a placeholder, and placeholders are not filled in: put the key itself in the variable"
    )
    text = f"providers: {{a: {{kind: openai}}}}\nedge_auth: {{enabled: true, keys: ['{placeholder}']}}"
    with pytest.raises(ConfigError, match=r"edge_auth\.keys\.0: .* name its variable in keys_env"):
        parse(text, "mgw.yaml", {})


@pytest.mark.parametrize("kind", ["openai", "openai_compat", "anthropic", "gemini"])
def test_a_version_that_would_go_nowhere_is_refused(kind: str) -> None:
    assert of_provider(f"kind: {kind}, base_url: 'http://h/v1', api_version: 2024-10-21") == [
        f"api_version: providers of kind {kind} have no version in the query: put it into base_url"
    ]


@pytest.mark.parametrize("key", ["$5-of-luck", "a$KEY", "<a", "os.environ", "${KEY}x"])
def test_a_key_that_only_resembles_a_placeholder_is_taken(key: str) -> None:
    parse(f"providers: {{a: {{kind: openai, api_key: '{key}'}}}}", "mgw.yaml", {})


def test_each_capability_that_may_be_switched_on_has_a_route_that_the_kind_serves() -> None:
    for kind, row in KINDS.items():
        for capability in Capability:
            if capability is Capability.REALTIME:  # has no row yet
                continue
            served = any(
                REQUIRED.get(route.modality) is capability
                and (row.family in route.translated_for or (row.family is route.family and route.native))
                for route in ROUTES
            )
            assert served == (capability not in row.impossible), (kind, capability)
            text = f"kind: {kind}, base_url: 'http://h/v1', auth: none, capabilities: {{{capability}: true}}"
            if served:
                parse(f"providers: {{main: {{{text}}}}}", "mgw.yaml", {})
            else:
                said = f"capabilities.{capability}: a provider of kind {kind} cannot do {capability}"
                assert of_provider(text) == [f"{said}: set it to false or leave it out"]
