"""The process log is text with two lines per request unless the operator says otherwise."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.log import LogFormat, LogSettings, RequestLines
from mgw.config.problems import ConfigError
from tests.support.configs import THREE_FAMILIES


def settings_of(block: str) -> LogSettings:
    return parse(THREE_FAMILIES + block, "mgw.yaml", {}).log


@pytest.mark.parametrize("block", ["", "log:\n", "log: {}\n", "log: {format: text, requests: both}\n"])
def test_it_is_text_with_both_lines_by_default(block: str) -> None:
    assert settings_of(block) == LogSettings(format=LogFormat.TEXT, requests=RequestLines.BOTH)


@pytest.mark.parametrize("word", RequestLines)
def test_the_words_are_those_of_the_reference(word: RequestLines) -> None:
    found = settings_of(f"log: {{format: json, requests: {word.value}}}\n")
    assert (found.format, found.requests) == (LogFormat.JSON, word)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("log: {format: xml}", "log.format: unknown value; expected one of text, json"),
        ("log: {requests: two}", "log.requests: unknown value; expected one of both, one, none"),
        ("log: {requests: false}", "log.requests: expected one of both, one, none, found false"),
        (
            "log: {level: debug}",
            (
                "log.level: unknown key: the log has one level and goes to standard error; to write it to a "
                "file, use mgw run --log-file FILE (allowed: format, requests)"
            ),
        ),
        ("logging: {format: json}", "logging: unknown key: write log: {format: json, requests: one}"),
    ],
)
def test_a_mistake_says_what_to_write(block: str, said: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        settings_of(block)
    (problem,) = refusal.value.problems
    assert str(problem).partition(": ")[2] == said
