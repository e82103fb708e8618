"""What ``--check`` says of files that it cannot read, when their names are keys in the wrong place."""

from __future__ import annotations

import pytest

from mgw.check import check
from mgw.config.load import parse

KEY = "sk-canary-7f3a91"


@pytest.mark.parametrize(
    "settings",
    [
        "providers: {KEY: {kind: openai}}",
        "providers: {KEY: {kind: openai, ca_file: /no/such/file}}",
        "providers: {main: {kind: openai, token_file: KEY}}",
        "providers: {main: {kind: openai, token_file: CorrectCanaryStaple}}",
        "providers: {main: {kind: openai, token_file: /run/KEY}}",
        "providers: {main: {kind: openai, ca_file: KEY}}",
        "providers: {main: {kind: gemini, models: [KEY]}}",
        "providers: {main: {kind: openai, base_url: 'https://host/KEY'}}",
        "providers: {main: {kind: openai}}\nlisten: 'KEY:80'",
        "providers: {main: {kind: openai}}\nlisten: 'unix:/run/KEY'",
        "providers: {main: {kind: openai}}\ntls: {cert_file: KEY, key_file: KEY}",
        "providers: {main: {kind: openai}}\nhooks: {jsonl: {output: /no/KEY}}",
        "providers: {main: {kind: openai}}\nspool: {dir: /proc/KEY}",
        "providers: {main: {kind: openai, models: [KEY]}}\nprices: {rows: [{model: gpt-5, input: 1}]}",
        "providers: {main: {kind: openai}}\naliases: {a: main/KEY}\nprices: {rows: [{model: a, input: 1}]}",
        "providers: {main: {kind: openai}}\nprices: {file: /no/KEY}",
        "providers: {main: {kind: openai}}\nprices: {rows: [{model: KEY, provider: KEY, input: KEY}]}",
        "providers: {main: {kind: openai}}\nhooks: {jsonl: {output: KEY/KEY}}",
        "providers: {main: {kind: openai}}\npublic_url: 'http://host/KEY'\nlisten: 'ssl:443:x=KEY'",
    ],
)
def test_check_repeats_no_key(settings: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(lambda: parse(settings.replace("KEY", KEY), "mgw.yaml", {}))
    said = capsys.readouterr()
    assert said.out + said.err
    assert "canary" not in (said.out + said.err).lower()
