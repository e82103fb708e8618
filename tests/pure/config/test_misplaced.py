"""Providers and their settings that stand a level too high: one problem for one mistake."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.problems import ConfigError

A_SETTING = "a setting of a provider, where the name of a provider is expected"


def said_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(text, "mgw.yaml", {"K": "a-long-key"})
    return [str(problem).partition(":")[2] for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "providers:\n  main:\n  kind: openai\n  api_key_env: K\n",
            f"3: providers.kind: {A_SETTING}: indent it below main",
        ),
        (
            "providers:\n  api_key_env: K\n  kind: openai\n",
            f"2: providers.api_key_env: {A_SETTING}: write it below a name,",
        ),
        (
            "providers:\nmain:\n  kind: openai\n",
            "2: main: a provider, which belongs below providers: indent it,",
        ),
        ("main: {kind: openai}\n", "1: main: a provider, which belongs below providers: indent it,"),
    ],
)
def test_a_level_that_is_missing_is_one_problem(text: str, said: str) -> None:
    (found,) = said_of(text)
    assert found.startswith(said)


def test_what_refers_to_a_misplaced_provider_is_not_a_problem_as_well() -> None:
    rest = "defaults: {openai_dialect: main}\naliases: {fast: main/gpt-5}\n"
    assert len(said_of(f"providers:\nmain:\n  kind: openai\n{rest}")) == 1
    assert len(said_of(f"providers:\n  main:\n  kind: openai\n{rest}")) == 1


def test_a_provider_may_have_the_name_of_a_setting() -> None:
    text = "providers: {kind: {kind: openai}, models: {kind: gemini}}"
    assert set(parse(text, "mgw.yaml", {}).providers) == {"kind", "models"}


def test_a_name_that_may_be_a_key_is_not_repeated() -> None:
    (found,) = said_of("providers:\n  sk-canary-7f3a91:\n  kind: openai\n")
    assert "canary" not in found
