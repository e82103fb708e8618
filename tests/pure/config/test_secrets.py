"""Whatever the text, a file is a configuration or a ConfigError, and neither shows a key."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from tests.support.laws import examples

CANARY = "sk-canary-7f3a"
KEYS = [
    *("providers", "main", "kind", "base_url", "api_key", "api_key_env", "auth", "headers", "set", "models"),
    *("edge_auth", "keys", "keys_env", "enabled", "defaults", "aliases", "tls", "listen", "timeouts", "idle"),
    *("public_url", "trusted_proxies", "rewrite_urls", "routes", "deny", "health_checks", "spool", "dir"),
    *("translation", "voices", "gemini", "google"),
]
PIECES = [
    *(f"{key}: " for key in KEYS),
    *(
        "\n",
        "\n  ",
        "\n    ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        "'",
        '"',
        "&a ",
        "*a",
        "!!int ",
        "!x ",
        "? ",
        "<<: ",
    ),
    *(
        "openai",
        "true",
        "12:30",
        "0b_",
        "._",
        ".inf",
        "~",
        "1",
        '"\\U7FFFFFFF"',
        "\x00",
        "\ufeff",
        "# ",
        "---\n",
        "%YAML ",
    ),
    *("é", "\u2028", "\t", "=", "2026-99-99", "999999999999999999999"),
]


def outcome(text: str, environ: dict[str, str]) -> str:
    """All that can be seen of a file: the settings' repr, or the problems with the traceback."""
    try:
        return repr(parse(text, "mgw.yaml", environ))
    except ConfigError as error:
        return str(error) + repr(error.problems) + "".join(traceback.format_exception(error))


@pytest.mark.slow
@examples(400)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=40))
def test_any_text_is_a_configuration_or_a_list_of_problems(pieces: list[str]) -> None:
    outcome("".join(pieces), {})


@given(text=st.text())
def test_any_characters_are_a_configuration_or_a_list_of_problems(text: str) -> None:
    outcome(text, {})


VALUES = [
    "{}",
    "[{}]",
    "{{a: {}}}",
    "'{} x'",
    '"{}\\n"',
    "!x {}",
    "{{{}: 1}}",
    "{{{}, {}}}",
    "[[{}]]",
    "*{}",
    "|\n      {}",
]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    "place",
    [
        "providers:\n  main:\n    kind: openai\n    api_key: {}\n",
        "providers:\n  main:\n    kind: openai\n    auth: client_bearer\n    api_key: {}\n",
        "providers:\n  main:\n    kind: openai\n    headers:\n     set:\n      X-Secret: {}\n",
        "providers:\n  main:\n    kind: openai\nedge_auth:\n  keys: {}\n",
        "providers:\n  main:\n    kind: openai\nedge_auth:\n  keys:\n   - {}\n",
        "providers:\n  main:\n    kind: openai\n    base_url: https://u:{}@host/v1\n",
        "providers:\n  main:\n    kind: openai\n    base_url: https://host/v1?key={}\n",
        "providers:\n  main:\n    kind: openai\n    api_key_env: {}\n",
        "providers:\n  main:\n    kind: openai\n    base_url: {}\n",
        "public_url: https://u:{}@host\nproviders:\n  main:\n    kind: openai\n",
        "providers:\n  main: {}\n",
    ],
    ids=[
        "key",
        "client-bearer",
        "header",
        "keys",
        "one-of-keys",
        "user",
        "query",
        "variable",
        "address",
        "public",
        "provider",
    ],
)
def test_a_key_never_shows_whatever_is_wrong_with_it(place: str, value: str) -> None:
    written = value.format(*[CANARY] * value.count("{}"))
    unsafe = place.endswith("main: {}\n") and "{{{}" in value  # there it is the name of a setting
    assert unsafe or CANARY not in outcome(place.format(written), {})


@given(key=st.text(min_size=1).map(lambda tail: CANARY + tail))
def test_a_key_of_the_environment_never_shows(key: str) -> None:
    text = "providers: {main: {kind: openai, api_key_env: KEY}}\nedge_auth: {enabled: true, keys_env: KEY}"
    assert "canary" not in outcome(text, {"KEY": key})
