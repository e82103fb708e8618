"""The loader and the schema for editors, compared: mistakes of operators, and files that are in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from mgw.config.load import parse
from mgw.config.problems import ConfigError, Report
from mgw.config.schema import schema_text
from mgw.config.yaml_document import read
from mgw.routing.routes import DENIABLE
from tests.pure.config.test_operator_files import ENVIRON, ETC, uncommented
from tests.support.known_keys import fill_in_keys

FILE: Final = Path(__file__).parents[2] / "golden" / "configuration-mistakes.txt"
EDITOR: Final = Draft202012Validator(json.loads(schema_text()))


def mistakes() -> list[tuple[str, str, list[str]]]:
    """The schema's verdict, the file and the problems of each."""
    found = []
    for entry in fill_in_keys(FILE.read_text(encoding="utf-8")).split("\n=== ")[1:]:
        head, _, problems = entry.partition("\n---\n")
        verdict, _, text = head.partition("\n")
        found.append((verdict, text + "\n", problems.strip().splitlines()))
    return found


MISTAKES: Final = mistakes()


def verdict_of(text: str) -> str:
    report = Report("mgw.yaml")
    value: Any = read(text, report).value
    try:
        report.raise_if_any()
    except ConfigError:
        return "form"
    return "takes" if EDITOR.is_valid(value) else "refuses"


@pytest.mark.parametrize(
    ("verdict", "text", "problems"), MISTAKES, ids=[text[:90] for _, text, _ in MISTAKES]
)
def test_a_mistake_is_told_by_the_loader_and_refused_by_the_schema(
    verdict: str, text: str, problems: list[str]
) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(text, "mgw.yaml", {}, DENIABLE)
    assert [str(problem) for problem in refusal.value.problems] == problems
    assert verdict_of(text) == verdict


def test_the_table_is_long_and_the_schema_refuses_nearly_all_of_it() -> None:
    verdicts = [verdict for verdict, _, _ in MISTAKES]
    assert len(verdicts) >= 160
    assert verdicts.count("takes") <= 23
    assert all(len(problems) == 1 for _, _, problems in MISTAKES)


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(json.loads(schema_text()))


@pytest.mark.parametrize("file", ["mgw.yaml", "mgw-demo.yaml"])
def test_the_schema_takes_the_shipped_files(file: str) -> None:
    text = (ETC / file).read_text(encoding="utf-8")
    assert verdict_of(text) == "takes"
    assert verdict_of(uncommented()) == "takes"


ONE: Final = "providers: {main: {kind: openai}}\n"
VALUES: Final = {
    "listen: {}": [
        *(":0", "127.0.0.1:8787", "[::1]:8787", "localhost:80", "h:00080", "tcp:8787", "unix:/run/mgw/s k"),
        *(
            "ssl:443:privateKey=k.pem",
            "systemd:domain=INET:index=0",
            "tcp6:port=8787:interface=\\:\\:1",
            "a.b-c:65535",
        ),
    ],
    "public_url: {}": [
        "https://h",
        "HTTP://h.example:8443/",
        "https://h:/x",
        "http://[::1]:80/a/b%20c/",
        "http://h_1./",
    ],
    "trusted_proxies: [{}]": ["10.0.0.0/8", "::1", "fd00::/8", "::ffff:10.0.0.0/104"],
    "providers: {{main: {{kind: openai, proxy: {}}}}}": [
        *("http://h:1", "HTTPS://h_1.:0443/", "http://[::1]:80", "http://u@h:65535", "http://u:p%40:$!@h:1"),
    ],
    "fleet: {{redis: {{url: {}}}}}": [
        *("redis://h", "redis://h:1/0", "REDISS://h_1.:0443/15", "redis://[::1]:80/", "redis://:p@h"),
        *("redis://u:p%40:$!@h:65535", "unix:///run/redis.sock", "unix://u:p@/run/a%20b?db=3", "unix:///s?"),
    ],
    "aliases: {{{}: main/a/b:c}}": ["fast", "a/b", "gpt-5.4", "é"],
    "aliases: {{fast: {}}}": ["main/x", "main/meta-llama/llama-4", "main/é"],
    "spool: {{dir: {}}}": ["/", "/var/lib/my spool", "/é"],
    "edge_auth: {{enabled: true, keys: [{}]}}": ["a", "k-1/2+3=", "ä-key-1", "<", "$5", "a$KEY"],
}


def written(shape: str, value: str) -> str:
    text = shape.format(value)
    return text if text.startswith("providers") else ONE + text


ROLE: Final = "role_arn: 'arn:aws:iam::123456789012:role/a'"
VALID: Final = [
    *(written(shape, json.dumps(value)) for shape, values in VALUES.items() for value in values),
    *(
        f"providers: {{main: {{{settings}}}}}\n"
        for settings in (
            "kind: google",
            "kind: alpha_compat, base_url: 'http://127.0.0.1:11434/v1', auth: none",
            "kind: anthropic, auth: client_bearer, capabilities: {image_gen: false}, headers:",
            "kind: beta, api_key_env: OPENAI_API_KEY",
            "kind: openai, token_file: t, auth: token_file",
            "kind: openai, token_file: t, timeouts: {}",
            "kind: openai, proxy_env: PROXY_ADDRESS",
            "kind: gemini, auth: bearer, api_key: k, headers: {set: {X-A: '', X-B: a b}, remove: [X-C]}",
            "kind: openai, headers: {set: {api-key: k, X-Te: ä}, forward: [x-trace]}, stream_usage: false",
            "kind: openai, api_key: k, max_connections: 5, models: [], ca_file: ca.pem",
            f"kind: bedrock, auth: aws, aws: {{region: us-east-1, profile: a, external_id: a, {ROLE}}}",
            "kind: bedrock, auth: aws, aws: {region: cn-north-1, access_key_id: a, secret_access_key_env: K}",
            "kind: anthropic, base_url: 'https://bedrock-mantle.us-east-1.api.aws/v1', auth: aws, betas: []",
            "kind: vertex_anthropic, base_url: 'https://h/v1', auth: adc, betas: ['*']",
            "kind: gemini, auth: oauth2, oauth: {token_url: 'https://h', client_id: a, assertion_file: /a}",
            "kind: beta, auth: oauth2, oauth: {token_url: 'http://h', grant: 'urn:a', extra: {a: {env: K}}}",
        )
    ),
    *(
        ONE + settings
        for settings in (
            "edge_auth: {enabled: false}",
            "workers: auto\nfleet:",
            "workers: 256\nfleet: {redis: }",
            "fleet: {redis: {url_env: REDIS_URL, prefix: 'mgw/test.{1}:'}}",
            "edge_auth: {enabled: true, keys_env: OPENAI_API_KEY, keys: []}",
            "defaults: {openai_dialect: main, google_dialect: main}",
            "defaults:\naliases:\ntls:\nhooks:\ntimeouts:",
            "translation: {models: [{match: a, family: gamma, budget: false, default: false}]}",
            "translation: {voices: {gamma: {a b: c}, openai: }}",
            "stream_keepalive: {}\ndrain_seconds: 0\ntimeouts: {connect: 0.5}",
        )
    ),
]


@pytest.mark.parametrize("text", VALID)
def test_the_schema_takes_what_the_loader_takes(text: str) -> None:
    parse(text, "mgw.yaml", {**ENVIRON, "K": "a-long-key"}, DENIABLE)
    assert verdict_of(text) == "takes"


PIECES: Final = [
    *(
        "http",
        "s",
        "HTTP",
        "://",
        "h",
        "host.",
        "_x",
        "[::1]",
        ":",
        "80",
        "65536",
        "0",
        "/",
        ".",
        "..",
        "%20",
    ),
    *("%", "v1", " ", "$", "é", "unix:", "tcp:", "@", "u:p", "redis", "?db="),
]


@given(setting=st.sampled_from([*VALUES, "base"]), pieces=st.lists(st.sampled_from(PIECES), max_size=7))
def test_the_schema_takes_every_value_that_the_loader_takes(setting: str, pieces: list[str]) -> None:
    value = json.dumps("".join(pieces))
    base = f"providers: {{main: {{kind: openai, base_url: {value}}}}}\n"
    text = base if setting == "base" else written(setting, value)
    try:
        parse(text, "mgw.yaml", {})
    except ConfigError:
        return
    assert verdict_of(text) == "takes", text
