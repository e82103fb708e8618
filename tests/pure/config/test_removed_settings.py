"""Settings that were removed are accepted with a warning."""

from __future__ import annotations

import pytest

from mgw.config.advice import advice
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.removed_settings import REMOVED
from mgw.config.settings import Config
from mgw.config.settings_base import file_settings

OPENAI = "providers: {openai: {kind: openai}}\n"


@pytest.mark.parametrize("value", ["true", "false", "maybe", "[1]", "{a: b}", ""])
@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_setting_has_no_effect_but_a_warning(name: str, value: str) -> None:
    config = parse(f"{OPENAI}{name}: {value}\n", "mgw.yaml", {})
    assert config.model_copy(update={"removed": ()}) == parse(OPENAI, "mgw.yaml", {})
    (warning,) = advice(config)
    assert config.places.locate(warning) == f"mgw.yaml:2: {name}: {REMOVED[name]}"


def test_without_one_nothing_is_said() -> None:
    assert advice(parse(OPENAI, "mgw.yaml", {})) == []


def test_nothing_that_is_still_a_setting_is_called_removed() -> None:
    assert REMOVED.keys().isdisjoint(file_settings(Config))


def test_a_removed_setting_is_no_setting_of_a_provider() -> None:
    with pytest.raises(ConfigError, match="express"):
        parse("providers: {openai: {kind: openai, express: true}}\n", "mgw.yaml", {})
