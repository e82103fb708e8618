"""What ``mgw check`` prints of providers in clouds; nobody is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from mgw.app.check import check, final_addresses, reader_of, warnings
from mgw.app.credential_check import missing_keys, token_sources
from mgw.config.load import parse

ROLE: Final = "arn:aws:iam::123456789012:role/llm"
KEY_ID: Final = "AKIAIOSFODNN7EXAMPLE"
SECRET: Final = "canary-7f3a91-secret"
KEYS: Final = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET}
STS: Final = "https://sts.us-east-1.amazonaws.com"


def sources_of(settings: str, environ: dict[str, str]) -> str:
    config = parse(f"providers: {{main: {{{settings}}}}}", "mgw.yaml", environ)
    (said,) = token_sources(config)
    assert KEY_ID[:-4] not in said
    assert SECRET not in said
    return said.removeprefix("main: auth aws, ")


@pytest.mark.parametrize(
    ("aws", "environ", "said"),
    [
        ("", KEYS, "with the access key ending in MPLE from the environment"),
        (
            f"role_arn: '{ROLE}'",
            KEYS,
            f"role {ROLE} by {STS}, with the access key ending in MPLE from the environment",
        ),
        (
            f"access_key_id: {KEY_ID}, secret_access_key: {SECRET}",
            {},
            "with the access key ending in MPLE from the configuration",
        ),
        (
            f"role_arn: '{ROLE}', web_identity_token_file: /run/token, sts_url: 'https://sts.example'",
            {},
            f"role {ROLE} by https://sts.example, with the web identity token in /run/token",
        ),
        (
            "",
            {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"},
            "with credentials from the container endpoint",
        ),
        ("", {"HOME": "/nowhere"}, "with credentials from the instance's metadata service"),
        ("", {"AWS_EC2_METADATA_DISABLED": "true"}, "and no credentials were found"),
    ],
)
def test_where_the_keys_of_aws_come_from_is_said_without_them(
    aws: str, environ: dict[str, str], said: str
) -> None:
    settings = f"kind: bedrock, auth: aws, aws: {{region: us-east-1, {aws}}}"
    assert sources_of(settings, environ) == f"service bedrock in us-east-1, {said}"


def test_a_profile_is_named(tmp_path: Path) -> None:
    (tmp_path / ".aws").mkdir()
    text = f"[llm]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\nregion = eu-west-1\n"
    (tmp_path / ".aws" / "credentials").write_text(text)
    said = sources_of("kind: bedrock, auth: aws, aws: {profile: llm}", {"HOME": str(tmp_path)})
    assert said == "service bedrock in eu-west-1, with the access key ending in MPLE from the profile 'llm'"


@pytest.mark.parametrize(
    ("environ", "used"),
    [
        ({}, "credentials from the instance's metadata service"),
        ({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/x"}, "credentials from the container endpoint"),
        (KEYS, "the access key ending in MPLE from the environment"),
    ],
)
def test_a_named_profile_without_keys_or_a_role_is_warned_about(
    tmp_path: Path, environ: dict[str, str], used: str
) -> None:
    (tmp_path / ".aws").mkdir()
    full = f"[full]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / ".aws" / "credentials").write_text(f"[llm]\nregion = eu-west-1\n{full}")

    def warnings_for(aws: str, **more: str) -> list[str]:
        text = f"providers: {{main: {{kind: bedrock, auth: aws, aws: {{region: us-east-1, {aws}}}}}}}"
        return missing_keys(parse(text, "mgw.yaml", {"HOME": str(tmp_path), **environ, **more}))

    assert warnings_for("profile: llm") == [
        "providers.main.aws.profile: the profile 'llm' has neither keys nor a role; the next source is used: "
        + used
    ]
    assert len(warnings_for(f"profile: llm, role_arn: '{ROLE}'")) == 1
    assert warnings_for("profile: full") == warnings_for("") == warnings_for("", AWS_PROFILE="llm") == []


VERTEX: Final = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/anthropic"


def test_the_address_of_a_call_has_the_model_in_it() -> None:
    text = f"""
providers:
  claude-invoke: {{kind: bedrock, auth: aws, aws: {{region: us-east-1}}}}
  claude-gcp: {{kind: vertex_anthropic, base_url: "{VERTEX}", auth: adc}}
  named: {{kind: vertex_anthropic, base_url: "{VERTEX}", auth: adc, models: [claude-opus-5]}}
"""
    config = parse(text, "mgw.yaml", {})
    assert final_addresses(config) == [
        "claude-invoke: POST https://bedrock-runtime.us-east-1.amazonaws.com/model/{model}/invoke",
        f"claude-gcp: POST {VERTEX}/models/{{model}}:rawPredict",
        f"named: POST {VERTEX}/models/claude-opus-5:rawPredict",
    ]
    assert warnings(config) == []  # not one about a version


def test_a_web_identity_that_is_not_there_yet_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    identity = f"role_arn: '{ROLE}', web_identity_token_file: /nowhere/token"
    (tmp_path / "mgw.yaml").write_text(
        f"providers:\n  main:\n    kind: bedrock\n    auth: aws\n    aws: {{region: us-east-1, {identity}}}\n"
    )
    assert check(reader_of("mgw.yaml")) == 0
    said = capsys.readouterr().out
    where = "warning: mgw.yaml:5: providers.main.aws.web_identity_token_file: file not found"
    assert where in said
    assert (
        f"main: auth aws, service bedrock in us-east-1, role {ROLE} by {STS}, with the web identity" in said
    )


def test_no_credentials_at_all_are_warned_about_with_where_they_were_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "mgw.yaml").write_text(
        "providers:\n  main:\n    kind: bedrock\n    auth: aws\n    aws: {region: us-east-1}\n"
    )
    assert check(reader_of("mgw.yaml")) == 0
    said = capsys.readouterr().out
    assert (
        "warning: mgw.yaml:4: providers.main.auth: no AWS credentials found in the environment, the profile "
        "'default' or a container's endpoint, and AWS_EC2_METADATA_DISABLED turns the instance's metadata "
        "service off; requests fail until there are some\n"
    ) in said
    assert "main: auth aws, service bedrock in us-east-1, and no credentials were found\n" in said


def test_a_broken_source_is_an_error_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[profile llm]\nsso_session = a\nregion = us-east-1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mgw.yaml").write_text(
        "providers:\n  main:\n    kind: bedrock\n    auth: aws\n    aws:\n      profile: llm\n"
    )
    assert check(reader_of("mgw.yaml")) == 1
    assert capsys.readouterr().err == (
        "mgw.yaml:6: providers.main.aws.profile: the profile 'llm' has sso_session, which is not supported: "
        "use a role, keys or a web identity\n"
    )
