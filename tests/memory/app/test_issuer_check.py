"""What ``mgw check`` and the start say of issuers: where keys come from, and files that cannot be used."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mgw.app.check import check, find_problems, reader_of, warnings
from mgw.cli.main import main
from mgw.config.load import parse
from mgw.config.settings import Config
from mgw.generation import make_parts
from mgw.identity.key_rules import read_keys
from tests.support.signed_tokens import jwk_of, key_for

WELL_KNOWN: Final = "/.well-known/openid-configuration"
HEAD: Final = "providers: {main: {kind: openai, api_key: a-long-key}}\ndefaults: {openai_dialect: main}\n"
ENTRY: Final = "name: corp, issuer: 'https://login.example.com/main/', audience: mgw, rules: [{when: {a: b}}]"


def text_of(*more: str, beside: str = "") -> str:
    entries = ", ".join(
        "{" + ENTRY.replace("corp", f"corp{n}").replace("/main/", f"/{n}/") + f", {one}}}"
        for n, one in enumerate(more)
    )
    return f"{HEAD}edge_auth: {{enabled: true, keys: [a-long-edge-key], jwt: [{entries}]{beside}}}\n"


def config_of(*more: str) -> Config:
    return parse(text_of(*more), "mgw.yaml", {})


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], tuple[int, str, str]]:
    def checked(text: str) -> tuple[int, str, str]:
        file = tmp_path / "mgw.yaml"
        file.write_text(text)
        status = check(reader_of(str(file), {}))
        out, err = capsys.readouterr()
        return status, out, err

    return checked


Said = Callable[[str], tuple[int, str, str]]


def test_it_says_where_the_keys_of_each_issuer_come_from(said: Said, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [jwk_of(key_for("ES256"))]}))
    status, out, err = said(
        text_of(
            "clock_skew: 5",
            "jwks_url: 'https://keys.example.com/jwks?p=b2c'",
            f"jwks_file: {keys}",
            "proxy: 'http://me:canary-password@proxy.example:3128'",
        )
    )
    assert (status, err) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("issuer ")] == [
        f"issuer corp0: keys from the jwks_uri in https://login.example.com/0{WELL_KNOWN}",
        "issuer corp1: keys from https://keys.example.com/jwks",
        f"issuer corp2: keys from the file {keys}",
        (
            f"issuer corp3: keys from the jwks_uri in https://login.example.com/3{WELL_KNOWN}, "
            "through the proxy proxy.example:3128"
        ),
    ]
    assert "canary" not in out


UNUSABLE: Final[dict[str, Any]] = {
    "none of its keys": {"keys": []},
    "it is a shared secret": {"keys": [{"kty": "oct", "k": "Y2FuYXJ5", "kid": "a"}]},
    "not a JSON object": [],
}


@pytest.mark.parametrize("reason", UNUSABLE)
def test_a_file_without_a_usable_key_keeps_the_gateway_from_starting(
    reason: str, said: Said, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(UNUSABLE[reason]))
    status, _, err = said(text_of("clock_skew: 5", f"jwks_file: {keys}"))
    assert status == 1
    (line,) = err.splitlines()
    assert ":3: edge_auth.jwt.1.jwks_file: no set of public keys (JWKS): " in line
    assert reason in line
    assert "Y2FuYXJ5" not in line
    config = config_of("clock_skew: 5", f"jwks_file: {keys}")
    assert len(make_parts(config, {}, 0).files.issuer_problems) == 1


@pytest.mark.parametrize("setting", ["jwks_file", "ca_file"])
def test_a_file_that_is_not_there_is_an_error(setting: str) -> None:
    problems, _ = find_problems(config_of(f"{setting}: /no/such/file"), {})
    assert len(problems) == 1
    assert f"edge_auth.jwt.0.{setting}: file not found" in problems[0]


def test_a_token_that_is_not_there_is_only_warned_of(said: Said) -> None:
    status, out, _ = said(text_of("token_file: /no/such/file"))
    assert status == 0
    assert "edge_auth.jwt.0.token_file: file not found; no keys are fetched until it can be read" in out


def test_a_dashboard_that_only_tokens_could_open_is_warned_of_unless_they_do() -> None:
    only = text_of("clock_skew: 5").replace("keys: [a-long-edge-key], ", "groups: {ops: }, ")
    (warning,) = warnings(parse(only, "mgw.yaml", {}))
    assert "tokens open it only with dashboard.groups, so no key opens the dashboard" in warning
    named = f"{only}dashboard: {{groups: [ops]}}\n"
    (warning,) = warnings(parse(named, "mgw.yaml", {}))
    assert "no rule or key of edge_auth is in one of dashboard.groups" in warning
    opened = named.replace("{when: {a: b}}", "{when: {a: b}, groups: [ops]}")
    assert warnings(parse(opened, "mgw.yaml", {})) == []


def test_a_key_file_cannot_have_the_name_of_an_issuer(said: Said, tmp_path: Path) -> None:
    folder = tmp_path / "keys.d"
    folder.mkdir()
    file = folder / "corp0.yaml"
    file.write_text(f"sha256: '{'0' * 64}'\n")
    text = text_of("clock_skew: 5", beside=f", keys_dir: {folder}")
    status, _, err = said(text)
    assert (status, err.strip()) == (1, f"{file}:1: expected another name: an issuer in edge_auth.jwt has it")
    assert main(["key", "rotate", "corp0", "-c", str(tmp_path / "mgw.yaml")]) == 1
    before = read_keys(parse(text.replace("name: corp0", "name: second"), "mgw.yaml", {}))
    assert before is not None
    assert list(before.keys) == ["corp0"]
    after = read_keys(parse(text, "mgw.yaml", {}), before)
    assert after is not None
    assert not after.keys, "the last good state of the file stays, but not under an issuer's name"
