"""The values of ``auth``: a row of each, from which the rest follows."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from mgw.config.auths import AUTHS, CREDENTIALS, SECRET_KEYS, AuthMode, AuthSettings, keys_of
from mgw.config.settings_base import file_settings

FURTHER: Final = Path(__file__).parents[2] / "support" / "further_auth.py"


@pytest.mark.parametrize("mode", AuthMode)
def test_each_value_has_a_row_and_a_module(mode: AuthMode) -> None:
    assert callable(import_module(f"mgw.credentials.{AUTHS[mode].module}").make_credentials)


def test_each_setting_of_a_credential_is_in_a_row() -> None:
    assert {"auth", "pool", *keys_of(CREDENTIALS)} == set(file_settings(AuthSettings))


def test_keys_and_their_variables_are_never_quoted() -> None:
    assert {"api_key", "api_key_env"} <= set(SECRET_KEYS)
    assert not {"token_file", "oauth", "service_account_file"} & set(SECRET_KEYS)


@pytest.fixture(scope="module")
def further() -> dict[str, Any]:
    """What a process says whose gateway knows a further value, by the two files that it takes."""
    done = subprocess.run([sys.executable, str(FURTHER)], capture_output=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_further_value_is_its_row_and_its_module(further: dict[str, Any]) -> None:
    assert further["loaded"] == ["timed", "ak-1", "Secret(…)"]
    assert further["signs"]
    assert further["hides_its_key"]
    assert further["is_valid_in_an_editor"]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("auth: timed", "auth: auth timed requires timed_id"),
        (
            "auth: timed, timed_id: ak-1",
            "auth: auth timed requires timed_key or timed_key_env, found neither",
        ),
        ("timed_id: ak-1, timed_key: '0123456789'", "timed_id: add auth: timed, which uses this setting"),
        (
            "auth: timed, timed_id: a, timed_key: b, api_key: c",
            "auth: auth timed uses only timed_id and timed_key or timed_key_env: remove the api_key",
        ),
        (
            "auth: none, timed_id: a",
            "auth: auth none sends no credential: remove the provider's key or token",
        ),
        (
            "auth: bearer, timed_id: a",
            "auth: auth bearer takes api_key or api_key_env, found timed_id (to use it: auth: timed)",
        ),
        (
            "auth: timed, timed_id: a, timed_key: b, timed_key_env: X",
            "timed_key_env: timed_key is also set: keep only one of them",
        ),
        (
            "pool: {credentials: [a], profile: p}, timed_id: a",
            "pool: the credentials come from the pool: remove timed_id",
        ),
    ],
)
def test_the_loader_and_the_schema_know_what_does_not_go_with_a_further_value(
    further: dict[str, Any], settings: str, problem: str
) -> None:
    said, is_marked = further["problems"][settings]
    assert f"providers.p.{problem}" in said
    assert is_marked


def test_the_variable_of_a_further_value_has_to_be_set(further: dict[str, Any]) -> None:
    said, _ = further["problems"]["auth: timed, timed_id: a, timed_key_env: UNSET"]
    assert "providers.p.timed_key_env: the environment variable UNSET is not set" in said


@pytest.mark.parametrize("key", ["timed_key", "timed_key_env"])
def test_what_stands_in_place_of_a_further_key_is_not_quoted(further: dict[str, Any], key: str) -> None:
    said, _ = further["problems"][f"auth: timed, timed_id: a, {key}: {{hidden: 1, hidden: 2}}"]
    assert f"providers.p.{key}.…: duplicate key" in said
    assert "hidden" not in said
