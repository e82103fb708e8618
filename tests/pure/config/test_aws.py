"""``auth: aws`` and its block: what is filled in, and what cannot work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from mgw.config.auths import AuthMode
from mgw.config.aws_settings import AwsEnvironment, AwsSettings
from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.provider import Provider
from mgw.config.secrets import secrets_of
from mgw.config.settings import Config
from mgw.nouns.vocabulary import Capability

CANARY: Final = "canary-7f3a91-secret"
RUNTIME: Final = "https://bedrock-runtime.us-east-1.amazonaws.com"
HOST: Final = f"kind: anthropic, base_url: '{RUNTIME}/anthropic/v1', auth: aws"
LOCAL: Final = "kind: anthropic, base_url: 'http://127.0.0.1:8080/v1', auth: aws"
"""A host that says nothing of itself."""
ROLE: Final = "arn:aws:iam::123456789012:role/llm"
ENVIRON: Final = {"HOME": "/h", "KEY_ID": "AKIDEXAMPLE", "SECRET": CANARY}
FILES: Final = {
    "/h/.aws/config": b"[default]\nregion = eu-west-1\n[profile llm]\nregion = eu-central-1\n[profile bare]\n"
    b"[profile odd]\nregion = moon\n"
}


def load(settings: str, environ: Mapping[str, str] = {}, files: Mapping[str, bytes] = FILES) -> Config:
    text = f"log: {{format: json}}\nproviders:\n  main: {{{settings}}}\n"
    return parse(text, "mgw.yaml", {**ENVIRON, **environ}, read_file=files.get)


def provider_of(
    settings: str, environ: Mapping[str, str] = {}, files: Mapping[str, bytes] = FILES
) -> Provider:
    return load(settings, environ, files).providers["main"]


def aws_of(settings: str, environ: Mapping[str, str] = {}, files: Mapping[str, bytes] = FILES) -> AwsSettings:
    aws = provider_of(settings, environ, files).aws
    assert aws is not None
    return aws


def problems_of(
    settings: str, environ: Mapping[str, str] = {}, files: Mapping[str, bytes] = FILES
) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        load(settings, environ, files)
    said = [str(problem) for problem in refusal.value.problems]
    assert CANARY not in str(refusal.value)
    assert all(line.startswith(("mgw.yaml:3: providers.main.", "environment: ")) for line in said)
    return [line.removeprefix("mgw.yaml:3: providers.main.") for line in said]


# What is filled in ----------------------------------------------------------------------------------------


def local(aws: str = "") -> str:
    return f"{LOCAL}, aws: {{service: bedrock, {aws}}}"


@pytest.mark.parametrize(
    ("settings", "environ", "region"),
    [
        (HOST, {"AWS_REGION": "eu-west-3"}, "us-east-1"),
        (local("region: ap-south-1"), {"AWS_REGION": "eu-west-3"}, "ap-south-1"),
        (local(), {"AWS_REGION": "eu-west-3", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-3"),
        (local(), {"AWS_REGION": "", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2"),
        (local(), {}, "eu-west-1"),
        (local(), {"AWS_PROFILE": "llm"}, "eu-central-1"),
        (local("profile: llm"), {"AWS_PROFILE": "default"}, "eu-central-1"),
    ],
)
def test_the_region_is_the_first_that_is_said(settings: str, environ: dict[str, str], region: str) -> None:
    found = aws_of(settings, environ)
    assert found.region == region
    assert found.sts_url == f"https://sts.{region}.amazonaws.com"


def test_the_shared_files_are_not_read_where_another_place_says_the_region() -> None:
    def refuse(path: str) -> bytes:
        raise AssertionError(path)

    text = f"providers: {{main: {{{HOST}}}, other: {{kind: openai}}}}"
    assert parse(text, "mgw.yaml", ENVIRON, read_file=refuse).providers


@pytest.mark.parametrize(
    ("settings", "service"),
    [
        (HOST, "bedrock"),
        (HOST.replace("bedrock-runtime.", "bedrock-runtime-fips."), "bedrock"),
        (HOST.replace(RUNTIME, "https://bedrock-mantle.us-east-2.api.aws"), "bedrock-mantle"),
        (HOST.replace(RUNTIME, "https://aws-external-anthropic.us-west-2.api.aws"), "aws-external-anthropic"),
        (HOST.replace(RUNTIME, "https://runtime.sagemaker.us-east-1.amazonaws.com"), None),
        ("kind: bedrock, base_url: 'http://127.0.0.1:8080', auth: aws", "bedrock"),
        ("kind: bedrock, auth: aws, aws: {service: other}", "other"),
        (local(), "bedrock"),
    ],
)
def test_the_service_follows_from_the_host_or_the_kind(settings: str, service: str | None) -> None:
    if service is None:
        assert problems_of(settings) == [
            "aws.service: missing, expected a signing name, such as bedrock: the host does not imply one"
        ]
    else:
        assert aws_of(settings, {"AWS_REGION": "us-east-1"}).service == service


@pytest.mark.parametrize(
    ("aws", "environ", "url"),
    [
        ("region: cn-north-1", {}, "https://sts.cn-north-1.amazonaws.com.cn"),
        ("region: us-iso-east-1", {}, "https://sts.us-iso-east-1.c2s.ic.gov"),
        ("", {"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1/sts/"}, "http://127.0.0.1:1/sts"),
        (
            "sts_url: 'https://vpce-1.sts.us-east-1.vpce.amazonaws.com/'",
            {"AWS_ENDPOINT_URL_STS": "http://127.0.0.1:1"},
            "https://vpce-1.sts.us-east-1.vpce.amazonaws.com",
        ),
    ],
)
def test_sts_is_where_the_settings_the_environment_or_the_region_say(
    aws: str, environ: dict[str, str], url: str
) -> None:
    assert aws_of(local(aws), environ).sts_url == url


def test_the_address_of_bedrock_has_the_region_of_the_signature() -> None:
    bedrock = "kind: bedrock, auth: aws"
    assert provider_of(f"{bedrock}, aws: {{region: us-east-1}}").base_url == RUNTIME
    china = provider_of(f"{bedrock}, aws: {{profile: llm}}", {"AWS_REGION": "cn-north-1"})
    assert china.base_url == "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"
    assert provider_of(bedrock, {"AWS_PROFILE": "llm"}).base_url == RUNTIME.replace(
        "us-east-1", "eu-central-1"
    )


def test_keys_come_from_the_file_or_from_variables_and_never_print() -> None:
    written = aws_of(f"{HOST}, aws: {{access_key_id: AKIDEXAMPLE, secret_access_key: {CANARY}}}")
    named = "access_key_id_env: KEY_ID, secret_access_key_env: SECRET, session_token_env: SECRET"
    read = aws_of(f"{HOST}, aws: {{{named}}}")
    for found in (written, read):
        assert found.access_key_id is not None
        assert found.access_key_id.reveal() == "AKIDEXAMPLE"
        assert found.secret_access_key is not None
        assert found.secret_access_key.reveal() == CANARY
        assert not {"AKIDEXAMPLE", CANARY} & set(repr(found).replace("'", " ").split())
    assert written.session_token is None
    assert read.session_token is not None
    config = load(f"{HOST}, aws: {{{named}}}")
    assert {"AKIDEXAMPLE", CANARY} <= {secret.reveal() for secret in secrets_of(config)}
    assert CANARY not in repr(config)


def test_what_the_environment_says_is_kept_and_its_secrets_are_known() -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": CANARY, "AWS_SESSION_TOKEN": "t" * 9}
    others = {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "c" * 9, "AWS_PROFILE": "llm", "PATH": "/bin"}
    config = load(HOST, {**keys, **others})
    aws = config.providers["main"].aws
    assert aws is not None
    for name, value in {**keys, **others, "HOME": "/h"}.items():
        assert aws.environment.get(name) == (None if name == "PATH" else value)
    known = {secret.reveal() for secret in secrets_of(config)}
    assert {*keys.values(), "c" * 9} <= known
    assert "llm" not in known
    assert repr(aws.environment) == "AwsEnvironment(…)"


def test_the_environment_cannot_be_stated_in_a_file() -> None:
    (said,) = problems_of(f"{HOST}, aws: {{environment: {{}}}}")
    assert said.startswith("aws.environment: unknown key")


def test_a_provider_without_signatures_has_no_settings_for_them() -> None:
    assert provider_of("kind: openai", {"AWS_REGION": "us-east-1"}).aws is None
    assert AwsSettings.model_construct().environment == AwsEnvironment()


# Realtime -------------------------------------------------------------------------------------------------


def test_realtime_is_off_with_signed_requests() -> None:
    openai = f"kind: openai, base_url: '{RUNTIME}/openai/v1', auth: aws"
    assert provider_of(openai).capabilities == set(Capability) - {Capability.REALTIME}
    assert provider_of(f"{openai}, capabilities: {{realtime: false}}").auth is AuthMode.AWS
    assert problems_of(f"{openai}, capabilities: {{realtime: true}}") == [
        "capabilities.realtime: realtime does not work with auth aws: set it to false or leave it out"
    ]


# What cannot work -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "base_url"),
    [
        ("azure_openai", "https://h.example/openai/v1"),
        ("gemini", "https://h.example/v1beta"),
        ("vertex_anthropic", "https://h.example/v1"),
    ],
)
def test_other_kinds_want_no_signatures_of_aws(kind: str, base_url: str) -> None:
    settings = f"kind: {kind}, base_url: '{base_url}', auth: aws, aws: {{region: us-east-1, service: x}}"
    assert problems_of(settings) == [
        (
            "auth: auth aws is only for the kinds openai, openai_compat, anthropic and bedrock, "
            f"found kind {kind}"
        )
    ]


@pytest.mark.parametrize(
    ("kind", "url"), [("openai", "https://api.openai.com/v1"), ("anthropic", "https://api.anthropic.com/v1")]
)
def test_the_vendors_own_address_takes_no_signatures(kind: str, url: str) -> None:
    said = [f"auth: auth aws signs requests, and {url} takes no signatures: set base_url"]
    assert problems_of(f"kind: {kind}, auth: aws") == said
    stated = f"kind: {kind}, base_url: '{url}', auth: aws, aws: {{region: us-east-1, service: x}}"
    assert problems_of(stated) == said


def test_a_kind_without_an_address_of_its_own_needs_one() -> None:
    assert problems_of("kind: openai_compat, auth: aws") == [
        "base_url: missing, expected the address of the host: there is no default for kind openai_compat"
    ]


@pytest.mark.parametrize(
    ("beside", "said"),
    [
        ("api_key: k", "auth: auth aws uses only aws: remove the api_key"),
        ("api_key_env: SECRET", "auth: auth aws uses only aws: remove the api_key"),
        ("token_file: /t", "auth: auth aws uses only aws: remove token_file"),
        ("service_account_file: /t", "auth: auth aws uses only aws: remove service_account_file"),
        (
            "oauth: {token_url: 'https://h/t', client_id: a, client_secret: b}",
            "auth: auth aws uses only aws: remove oauth",
        ),
    ],
)
def test_signatures_need_no_other_credential(beside: str, said: str) -> None:
    assert problems_of(f"{HOST}, {beside}") == [said]


def test_a_pool_and_signatures_exclude_each_other() -> None:
    said = problems_of(f"{HOST}, pool: {{credentials: [a], profile: p}}")
    assert "pool: the credentials come from the pool: remove auth" in said
    both = problems_of("kind: anthropic, pool: {credentials: [a], profile: p}, aws: {region: us-east-1}")
    assert "pool: the credentials come from the pool: remove aws" in both


def test_an_aws_block_needs_auth_aws() -> None:
    assert problems_of("kind: anthropic, aws: {region: us-east-1}") == [
        "aws: add auth: aws, which uses this block"
    ]
    assert problems_of("kind: anthropic, auth: bearer, api_key: k, aws: {region: us-east-1}") == [
        "auth: auth bearer takes api_key or api_key_env, found aws (to use it: auth: aws)"
    ]


NO_REGION: Final = (
    "aws.region: missing, expected a region: the host of base_url, AWS_REGION and the profile do not name one"
)
A_REGION: Final = "expected the name of a region, such as us-east-1"
PLACES: Final = "([NAME] in /h/.aws/credentials or [profile NAME] in /h/.aws/config)"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (local(), NO_REGION),
        (local("profile: bare"), NO_REGION),
        ("kind: bedrock, auth: aws", NO_REGION),
        (local("profile: lml"), f"aws.profile: no profile of AWS is named 'lml' {PLACES}, did you mean llm?"),
        (
            "kind: bedrock, auth: aws, aws: {profile: x}",
            f"aws.profile: no profile of AWS is named 'x' {PLACES}",
        ),
        (
            local("profile: odd"),
            f"aws.profile: the region of the profile is not valid: {A_REGION}",
        ),
    ],
)
def test_a_region_is_needed(settings: str, said: str) -> None:
    files = {"/h/.aws/config": FILES["/h/.aws/config"].replace(b"[default]\nregion = eu-west-1\n", b"")}
    assert problems_of(settings, {}, files) == [said]


def test_a_profile_that_the_environment_names_has_to_exist() -> None:
    assert problems_of(local(), {"AWS_PROFILE": "lml"}) == [
        f"auth: AWS_PROFILE: no profile of AWS is named 'lml' {PLACES}, did you mean llm?"
    ]


def test_a_shared_file_that_cannot_be_read_is_an_error() -> None:
    (said,) = problems_of(local(), {}, {"/h/.aws/config": b"[profile x\n"})
    assert said == "auth: /h/.aws/config, line 1: expected ] behind the name of a profile"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_REGION", "moon", A_REGION),
        ("AWS_DEFAULT_REGION", "us-east-1/", A_REGION),
        ("AWS_ENDPOINT_URL_STS", "sts", "expected an address that begins with http:// or https://"),
    ],
)
def test_a_variable_that_says_something_else_is_named(variable: str, value: str, said: str) -> None:
    environ = {"AWS_REGION": "us-east-1"} if variable == "AWS_ENDPOINT_URL_STS" else {}
    assert problems_of(local(), {**environ, variable: value}) == [f"environment: {variable}: {said}"]


@pytest.mark.parametrize(
    ("aws", "said"),
    [
        ("region: us-west-2", "aws.region: the host of base_url is in us-east-1, found us-west-2"),
        (
            "service: bedrock-runtime",
            "aws.service: requests to bedrock-runtime are signed for bedrock, found 'bedrock-runtime'",
        ),
        ("service: bédrock", "aws.service: expected a name of letters, digits and -, found 'bédrock'"),
        ("service: a/b", "aws.service: expected a name of letters, digits and -, found 'a/b'"),
        ("region: USA", "aws.region: expected the name of a region, such as us-east-1, found 'USA'"),
        ("access_key_id: AKIDEXAMPLE", "aws.secret_access_key: missing: {pair} require each other"),
        ("access_key_id_env: KEY_ID", "aws.secret_access_key: missing: {pair} require each other"),
        ("secret_access_key_env: SECRET", "aws.access_key_id: missing: {pair} require each other"),
        ("session_token: tttttttt", "aws.access_key_id: missing: {pair} require each other"),
        (
            "access_key_id: a, access_key_id_env: KEY_ID, secret_access_key: b",
            "aws.access_key_id_env: access_key_id is also set: keep only one of them",
        ),
        (
            "access_key_id: a, secret_access_key: b, profile: llm",
            "aws.profile: access_key_id is also set: the keys come from there, so remove profile",
        ),
        (
            "access_key_id_env: KEY_ID, secret_access_key: b, role_arn: '{role}', {file}: /t",
            "aws.{file}: access_key_id_env is also set: the keys come from there, so remove {file}",
        ),
        (
            "access_key_id: a, secret_access_key_env: UNSET",
            "aws.secret_access_key_env: the environment variable UNSET is not set",
        ),
        (
            "access_key_id: a, secret_access_key: '${SECRET}'",
            "aws.secret_access_key: the key is a placeholder, and placeholders are not filled in: {read}",
        ),
        ("external_id: gw-7", "aws.external_id: requires role_arn"),
        ("web_identity_token_file: /t", "aws.web_identity_token_file: requires role_arn"),
        (
            "role_arn: llm",
            "aws.role_arn: expected the ARN of a role, such as {role}, found 'llm'",
        ),
        (
            "role_arn: '{role}', session_name: a b",
            "aws.session_name: expected from 2 to 64 letters, digits and _+=,.@-",
        ),
        ("sts_url: sts", "aws.sts_url: expected an address that begins with http:// or https://"),
        ("rolearn: x", "aws.rolearn: unknown key, did you mean role_arn?"),
    ],
)
def test_settings_that_do_not_fit_together_are_errors(aws: str, said: str) -> None:
    words = {
        "{role}": ROLE,
        "{pair}": "access_key_id and secret_access_key",
        "{file}": "web_identity_token_file",
    }
    words["{read}"] = "to read the key from the environment, name its variable in secret_access_key_env"
    for word, meant in words.items():
        aws, said = aws.replace(word, meant), said.replace(word, meant)
    assert problems_of(f"{HOST}, aws: {{{aws}}}") == [said]


@pytest.mark.parametrize("kind", ["anthropic", "bedrock", "openai_compat"])
def test_a_host_of_aws_is_not_called_in_clear_text(kind: str) -> None:
    url = RUNTIME.replace("https", "http")
    said = ["base_url: hosts of AWS are called by https://, found http://"]
    assert problems_of(f"kind: {kind}, base_url: '{url}', auth: aws") == said
    if kind == "bedrock":
        assert problems_of(f"kind: bedrock, base_url: '{url}', api_key: k") == said
    here = f"kind: {kind}, base_url: 'http://127.0.0.1:1', auth: aws, aws: {{service: bedrock}}"
    assert provider_of(here).auth is AuthMode.AWS


@pytest.mark.parametrize(
    "host", ["sts.us-east-1.amazonaws.com", "sts.amazonaws.com", "v.sts.cn-north-1.amazonaws.com.cn"]
)
def test_the_token_service_of_aws_is_not_called_in_clear_text_either(host: str) -> None:
    said = "hosts of AWS are called by https://, found http://"
    assert problems_of(f"{HOST}, aws: {{sts_url: 'http://{host}'}}") == [f"aws.sts_url: {said}"]
    stated = {"AWS_ENDPOINT_URL_STS": f"http://{host}"}
    assert problems_of(HOST, stated) == [f"environment: AWS_ENDPOINT_URL_STS: {said}"]


# Kinds whose hosts must not get the credentials of clients ------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [("bedrock", "auth: aws, or api_key or api_key_env"), ("vertex_anthropic", "auth")],
)
def test_no_key_of_a_client_ever_goes_to_a_cloud_by_default(kind: str, wanted: str) -> None:
    host = f"kind: {kind}, base_url: 'https://h.example/v1/publishers/anthropic'"
    assert problems_of(host) == [
        f"auth: missing, expected {wanted}: credentials of clients are not sent to hosts of kind {kind}"
    ]
    for auth in ("client_bearer", "none", "adc", "bearer, api_key: k", "token_file, token_file: /t"):
        assert provider_of(f"{host}, auth: {auth}").auth is not None


def test_a_key_of_bedrock_needs_no_auth() -> None:
    assert provider_of("kind: bedrock, base_url: 'https://h.example', api_key: k").auth is AuthMode.API_KEY


@pytest.mark.parametrize("auth", ["auth: api_key, ", ""])
def test_hosts_of_vertex_take_no_static_keys(auth: str) -> None:
    host = f"kind: vertex_anthropic, base_url: 'https://h.example/v1', {auth}api_key: k"
    assert problems_of(host) == [
        "auth: hosts of kind vertex_anthropic take tokens, not API keys: expected auth: adc or another"
    ]


# Betas ----------------------------------------------------------------------------------------------------


def test_betas_are_patterns_and_all_of_them_by_default() -> None:
    assert provider_of("kind: anthropic").betas == ("*",)
    assert provider_of("kind: anthropic, betas: []").betas == ()
    assert provider_of(f"{HOST}, betas: [context-1m-*, 'x']").betas == ("context-1m-*", "x")


@pytest.mark.parametrize("kind", ["openai", "gemini"])
def test_betas_are_only_for_kinds_of_anthropics_family(kind: str) -> None:
    assert problems_of(f"kind: {kind}, betas: []") == [
        f"betas: only for the kinds anthropic, bedrock and vertex_anthropic, found with kind {kind}"
    ]


def test_a_beta_is_a_word() -> None:
    assert problems_of("kind: anthropic, betas: ['a b']") == [
        "betas.0: expected a name without spaces or control characters, found 'a b'"
    ]
