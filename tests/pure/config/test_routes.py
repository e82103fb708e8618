"""``routes.deny`` and ``health_checks``."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.settings import Config, HealthChecksSettings

ONE = "providers: {main: {kind: openai}}\n"
NAMES = frozenset({"chat", "files", "file_content", "organization", "healthz", "metrics"})


def config_of(settings: str, route_names: frozenset[str] | None = NAMES) -> Config:
    return parse(ONE + settings, "mgw.yaml", {}, route_names)


def said_of(settings: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        config_of(settings)
    return [str(problem) for problem in refusal.value.problems]


def test_denied_names_are_kept_as_written_each_once() -> None:
    text = "routes: {deny: [organization, files, chat, files]}"
    assert config_of(text).routes.deny == ("organization", "files", "chat")


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("openai", "openai"),
        ("alpha", "openai"),
        ("anthropic", "anthropic"),
        ("beta", "anthropic"),
        ("gemini", "gemini"),
        ("gamma", "gemini"),
        ("google", "gemini"),
    ],
)
@pytest.mark.parametrize("known", [NAMES, None], ids=["names-known", "names-unknown"])
def test_a_family_is_denied_in_each_spelling(spelling: str, name: str, known: frozenset[str] | None) -> None:
    assert config_of(f"routes: {{deny: [{spelling}]}}", known).routes.deny == (name,)


def test_two_spellings_of_a_family_deny_it_once() -> None:
    assert config_of("routes: {deny: [beta, files, anthropic]}").routes.deny == ("anthropic", "files")


@pytest.mark.parametrize("name", ["healthz", "metrics"])
def test_operational_routes_can_be_denied_too(name: str) -> None:
    assert config_of(f"routes: {{deny: [{name}]}}").routes.deny == (name,)


@pytest.mark.parametrize("written", ["", "routes:", "routes: {}", "routes: {deny: []}"])
def test_nothing_is_denied_unless_said(written: str) -> None:
    assert config_of(written).routes.deny == ()


def test_names_are_not_looked_at_where_the_routes_are_not_known() -> None:
    assert config_of("routes: {deny: [anything]}", None).routes.deny == ("anything",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("filez", "no route, route group or family is named 'filez', did you mean files?"),
        ("Files", "no route, route group or family is named 'Files', did you mean files?"),
        ("antropic", "no route, route group or family is named 'antropic', did you mean anthropic?"),
        ("/v1/xyz", "no route, route group or family is named '/v1/xyz'"),
        ("openai_compat_host", "no route, route group or family is named 'openai_compat_host'"),
        ("''", "expected a name, found an empty string"),
        ("'a b'", "expected a name without spaces or control characters, found 'a b'"),
        ("5", "expected a string (in quotes if YAML would read it as a number), found the number 5"),
        ("{a: b}", "expected a string (in quotes if YAML would read it as a number), found a mapping"),
        ("", "expected a string (in quotes if YAML would read it as a number), found nothing"),
    ],
)
def test_a_wrong_name_is_told_so_with_the_nearest(name: str, said: str) -> None:
    text = f"routes:\n  deny:\n    - files\n    - {name}\n"
    assert said_of(text) == [f"mgw.yaml:5: routes.deny.1: {said}"]


def test_every_wrong_name_is_told() -> None:
    found = said_of("routes: {deny: [fils, chat, chta]}")
    assert [said.split(": ")[1] for said in found] == ["routes.deny.0", "routes.deny.2"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("routes: [files]", "routes: expected a mapping such as {deny: [images]}, found a list"),
        ("routes: {deny: files}", "routes.deny: expected a list such as [images, gemini], found a string"),
        (
            "routes: {deny: {files: true}}",
            "routes.deny: expected a list such as [images, gemini], found a mapping",
        ),
        ("routes: {deny:}", "routes.deny: expected a list such as [images, gemini], found nothing"),
        ("routes: {dney: [files]}", "routes.dney: unknown key, did you mean deny? (allowed: deny, azure)"),
        ("health_checks: true", "health_checks: expected a mapping such as {enabled: true}, found true"),
        ("health_checks: {enabled: 1}", "health_checks.enabled: expected true or false, found the number 1"),
        (
            "health_checks: {enable: true}",
            "health_checks.enable: unknown key, did you mean enabled? (allowed: enabled, timeout)",
        ),
        (
            "health_checks: {timeout: 0}",
            "health_checks.timeout: expected a number of seconds above 0, found the number 0",
        ),
        (
            "health_checks: {timeout: .inf}",
            "health_checks.timeout: expected a number of seconds above 0, found the number inf",
        ),
        (
            "health_checks: {timeout: 5s}",
            "health_checks.timeout: expected a number of seconds above 0, found a string (write 5)",
        ),
    ],
)
def test_a_wrong_setting_is_told_what_was_expected(settings: str, said: str) -> None:
    assert said_of(settings) == [f"mgw.yaml:2: {said}"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{}", HealthChecksSettings(enabled=False, timeout=5)),
        ("{enabled: true}", HealthChecksSettings(enabled=True, timeout=5)),
        ("{enabled: true, timeout: 0.5}", HealthChecksSettings(enabled=True, timeout=0.5)),
        ("{timeout: 30}", HealthChecksSettings(enabled=False, timeout=30)),
    ],
)
def test_health_checks_are_as_written(written: str, meant: HealthChecksSettings) -> None:
    assert config_of(f"health_checks: {written}").health_checks == meant
