"""Where the keys of AWS come from: the order of the chain, and sources that are broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mgw.config.load import parse
from mgw.credentials.aws.chain import NoAwsKeysError, describe_source, find_key_source
from mgw.credentials.aws.keys import (
    AssumedRole,
    AwsKeys,
    ContainerEndpoint,
    FixedKeys,
    InstanceMetadata,
    KeySource,
    WebIdentity,
)
from mgw.nouns.secret import Secret

STS: Final = "https://sts.us-east-1.amazonaws.com"
REGION: Final = "us-east-1"
ROLE: Final = "arn:aws:iam::123456789012:role/"
HOST: Final = "kind: bedrock, auth: aws, aws: {region: us-east-1, "
ENVIRON: Final = {"AWS_ACCESS_KEY_ID": "AKIDENVIRON", "AWS_SECRET_ACCESS_KEY": "canary-of-environ"}
IDENTITY: Final = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/token", "AWS_ROLE_ARN": f"{ROLE}pod"}
CONTAINER: Final = {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials"}
NO_INSTANCE: Final = {"AWS_EC2_METADATA_DISABLED": "true"}
METADATA: Final = InstanceMetadata("http://169.254.169.254")
CREDENTIALS: Final = """
[default]
aws_access_key_id = AKIDDEFAULT
aws_secret_access_key = canary-of-default
[llm]
aws_access_key_id = AKIDLLM
aws_secret_access_key = canary-of-llm
aws_session_token = canary-of-session
"""
KEYS_OF_LLM: Final = FixedKeys(
    AwsKeys("AKIDLLM", Secret("canary-of-llm"), Secret("canary-of-session")), "the profile 'llm'"
)
KEYS_OF_DEFAULT: Final = FixedKeys(
    AwsKeys("AKIDDEFAULT", Secret("canary-of-default")), "the profile 'default'"
)
KEYS_OF_ENVIRON: Final = FixedKeys(AwsKeys("AKIDENVIRON", Secret("canary-of-environ")), "the environment")
POD: Final = WebIdentity(f"{ROLE}pod", "mgw", "/token", STS)
ENDPOINT: Final = ContainerEndpoint("http://169.254.170.2/v2/credentials")


def reader(config: str = "", credentials: str = "") -> Callable[[str], bytes | None]:
    files = {"/h/.aws/config": config.encode(), "/h/.aws/credentials": credentials.encode()}
    return files.get


def source_of(
    aws: str = "", environ: Mapping[str, str] = {}, *, config: str = "", credentials: str = ""
) -> KeySource:
    """Where the keys come from, by a process with this environment and these files."""
    files, whole = reader(config, credentials), {"HOME": "/h", **environ}
    provider = parse(f"providers: {{main: {{{HOST}{aws}}}}}}}", "mgw.yaml", whole, None, files).providers[
        "main"
    ]
    found = find_key_source(provider, whole, files)
    assert provider.aws is not None
    assert found == find_key_source(provider, provider.aws.environment, files)
    assert "canary" not in repr(found)
    return found


def refusal_of(
    aws: str = "", environ: Mapping[str, str] = {}, *, config: str = "", credentials: str = ""
) -> str:
    with pytest.raises(ValueError, match=r"^providers\.main\.(?:auth|aws\.profile): ") as refusal:
        source_of(aws, environ, config=config, credentials=credentials)
    assert "canary" not in str(refusal.value)
    return str(refusal.value).removeprefix("providers.main.")


def assumed(base: KeySource, role: str, session: str = "mgw", external_id: str | None = None) -> AssumedRole:
    return AssumedRole(base, ROLE + role, session, external_id, STS, REGION)


# The order ------------------------------------------------------------------------------------------------

OWN: Final = "access_key_id: AKIDOWN1, secret_access_key: canary-of-own"
OWN_KEYS: Final = FixedKeys(AwsKeys("AKIDOWN1", Secret("canary-of-own")), "the configuration")
ALL: Final = {**ENVIRON, **IDENTITY, **CONTAINER}


@pytest.mark.parametrize(
    ("aws", "environ", "found"),
    [
        (OWN, ALL, OWN_KEYS),
        ("profile: llm", ALL, KEYS_OF_LLM),
        ("profile: llm", {**ALL, "AWS_PROFILE": "default"}, KEYS_OF_LLM),
        ("", {**ALL, "AWS_PROFILE": "llm"}, KEYS_OF_ENVIRON),
        ("", {**IDENTITY, **CONTAINER, "AWS_PROFILE": "llm"}, POD),
        ("", {**CONTAINER, "AWS_PROFILE": "llm"}, KEYS_OF_LLM),
        ("", CONTAINER, KEYS_OF_DEFAULT),
        (f"web_identity_token_file: /own, role_arn: '{ROLE}own'", ALL, assumed(KEYS_OF_ENVIRON, "own")),
        (
            f"web_identity_token_file: /own, role_arn: '{ROLE}own', session_name: me",
            {**IDENTITY, **CONTAINER},
            WebIdentity(f"{ROLE}own", "me", "/own", STS),
        ),
        (f"role_arn: '{ROLE}own'", IDENTITY, assumed(POD, "own")),
        (
            f"role_arn: '{ROLE}own', external_id: gw-7",
            {},
            assumed(KEYS_OF_DEFAULT, "own", external_id="gw-7"),
        ),
        (f"role_arn: '{ROLE}own', {OWN}", ALL, assumed(OWN_KEYS, "own")),
    ],
)
def test_the_first_source_that_is_there_counts(aws: str, environ: dict[str, str], found: KeySource) -> None:
    assert source_of(aws, environ, credentials=CREDENTIALS) == found


def test_without_files_and_variables_the_container_and_then_the_instance_are_asked() -> None:
    assert source_of("", CONTAINER) == ENDPOINT
    assert source_of() == METADATA
    assert source_of(f"role_arn: '{ROLE}own'") == assumed(METADATA, "own")


def test_a_profile_without_credentials_is_passed_over() -> None:
    assert source_of("profile: a", CONTAINER, config="[profile a]\nregion = us-east-1") == ENDPOINT
    assert source_of("", CONTAINER, config="[default]\nregion = us-east-1") == ENDPOINT


def test_a_variable_that_is_empty_says_nothing() -> None:
    empty = dict.fromkeys((*ENVIRON, *IDENTITY, *CONTAINER, "AWS_PROFILE"), "")
    assert source_of("", empty, credentials=CREDENTIALS) == KEYS_OF_DEFAULT


def test_the_session_of_a_web_identity_is_named_by_the_environment() -> None:
    found = source_of("session_name: own", {**IDENTITY, "AWS_ROLE_SESSION_NAME": "pod-7"})
    assert found == WebIdentity(f"{ROLE}pod", "pod-7", "/token", STS)
    assert source_of("session_name: own", IDENTITY) == WebIdentity(f"{ROLE}pod", "own", "/token", STS)


def test_no_source_at_all_is_said_with_where_they_were_looked_for() -> None:
    with pytest.raises(NoAwsKeysError) as refusal:
        source_of("", {**NO_INSTANCE, "AWS_PROFILE": "a"}, config="[profile a]")
    assert str(refusal.value) == (
        "providers.main.auth: no AWS credentials found in the environment, the profile 'a' or a container's "
        "endpoint, and AWS_EC2_METADATA_DISABLED turns the instance's metadata service off"
    )


# Profiles -------------------------------------------------------------------------------------------------


def profile(name: str, **settings: str) -> str:
    lines = [f"{key} = {value}" for key, value in settings.items()]
    return "\n".join([f"[profile {name}]", *lines, ""])


def role(name: str, source: str, **more: str) -> str:
    return profile(name, role_arn=ROLE + name, source_profile=source, **more)


@pytest.mark.parametrize(
    ("config", "credentials", "found"),
    [
        (role("a", "llm"), CREDENTIALS, assumed(KEYS_OF_LLM, "a")),
        (
            role("a", "b", role_session_name="me", external_id="gw-7") + role("b", "llm"),
            CREDENTIALS,
            assumed(assumed(KEYS_OF_LLM, "b"), "a", "me", "gw-7"),
        ),
        (
            "".join(role(name, source) for name, source in ("ab", "bc", "cd", "de")) + role("e", "llm"),
            CREDENTIALS,
            assumed(assumed(assumed(assumed(assumed(KEYS_OF_LLM, "e"), "d"), "c"), "b"), "a"),
        ),
        # A profile that names itself has both a role and the keys to assume it.
        (
            role("a", "a", aws_access_key_id="AKIDSELF", aws_secret_access_key="canary-of-self"),
            "",
            assumed(FixedKeys(AwsKeys("AKIDSELF", Secret("canary-of-self")), "the profile 'a'"), "a"),
        ),
        # The keys of a source come before its role.
        (
            role("a", "b") + role("b", "c", aws_access_key_id="AKIDB", aws_secret_access_key="canary-of-b"),
            "",
            assumed(FixedKeys(AwsKeys("AKIDB", Secret("canary-of-b")), "the profile 'b'"), "a"),
        ),
        (
            profile("a", role_arn=f"{ROLE}a", web_identity_token_file="/a", role_session_name="me"),
            "",
            WebIdentity(f"{ROLE}a", "me", "/a", STS),
        ),
        (
            role("a", "b") + profile("b", role_arn=f"{ROLE}b", web_identity_token_file="/b"),
            "",
            assumed(WebIdentity(f"{ROLE}b", "mgw", "/b", STS), "a"),
        ),
        (
            profile("a", role_arn=f"{ROLE}a", credential_source="Ec2InstanceMetadata"),
            "",
            assumed(METADATA, "a"),
        ),
        (
            profile("a", aws_access_key_id="AKIDCONFIG", aws_secret_access_key="canary-of-config"),
            "[a]\naws_access_key_id = AKIDA\naws_secret_access_key = canary-of-a",
            FixedKeys(AwsKeys("AKIDA", Secret("canary-of-a")), "the profile 'a'"),
        ),
        (
            profile("a", aws_access_key_id="AKIDCONFIG", aws_secret_access_key="canary-of-config"),
            "[a]\nregion = us-east-1",
            FixedKeys(AwsKeys("AKIDCONFIG", Secret("canary-of-config")), "the profile 'a'"),
        ),
    ],
)
def test_a_profile_leads_to_roles_and_keys(config: str, credentials: str, found: KeySource) -> None:
    assert source_of("profile: a", config=config, credentials=credentials) == found


@pytest.mark.parametrize(
    ("source", "environ", "base"),
    [("Environment", ENVIRON, KEYS_OF_ENVIRON), ("EcsContainer", CONTAINER, ENDPOINT)],
)
def test_a_role_may_be_assumed_with_a_named_source(
    source: str, environ: dict[str, str], base: KeySource
) -> None:
    config = profile("a", role_arn=f"{ROLE}a", credential_source=source)
    assert source_of("profile: a", environ, config=config) == assumed(base, "a")
    assert refusal_of("profile: a", config=config) == (
        f"aws.profile: the profile 'a' has credential_source {source}, but there are no credentials"
    )


@pytest.mark.parametrize(
    ("url", "region"),
    [
        ("https://sts.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://sts-fips.us-west-2.amazonaws.com", "us-west-2"),
        ("https://vpce-1.sts.eu-west-3.vpce.amazonaws.com", "eu-west-3"),
        ("https://sts.amazonaws.com", "us-east-1"),
        ("https://sts.internal.example", "eu-central-1"),
        ("http://127.0.0.1:4566/sts", "eu-central-1"),
    ],
)
def test_sts_is_asked_with_a_signature_for_its_own_region(url: str, region: str) -> None:
    settings = (
        f"kind: bedrock, auth: aws, aws: {{region: eu-central-1, sts_url: '{url}', role_arn: '{ROLE}a'}}"
    )
    provider = parse(f"providers: {{main: {{{settings}}}}}", "mgw.yaml", ENVIRON).providers["main"]
    found = find_key_source(provider, ENVIRON, reader())
    assert found == AssumedRole(KEYS_OF_ENVIRON, f"{ROLE}a", "mgw", None, url, region)


LOOP: Final = "leads back to itself: "
PLACES: Final = "([NAME] in /h/.aws/credentials or [profile NAME] in /h/.aws/config)"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (role("x", "y"), "no profile of AWS is named 'a'"),
        (role("ab", "y"), "no profile of AWS is named 'a'"),
        (
            role("a", "bb") + role("bbb", "a"),
            (
                "has a source_profile that is missing: "
                f"no profile of AWS is named 'bb' {PLACES}, did you mean bbb?"
            ),
        ),
        (role("a", "b") + role("b", "a"), f"the profile 'b' {LOOP}'a' -> 'b' -> 'a'"),
        (role("a", "a"), f"{LOOP}'a' -> 'a'"),
        (role("a", "b") + role("b", "b"), f"the profile 'b' {LOOP}'a' -> 'b' -> 'b'"),
        (
            "".join(role(name, source) for name, source in ("ab", "bc", "cd", "de", "ef"))
            + role("f", "g")
            + profile("g"),
            "the profile 'f' is part of a chain of more than 5 roles",
        ),
        (role("a", "b") + profile("b"), "has a source_profile without credentials: 'b'"),
        (profile("a", role_arn=f"{ROLE}a"), "has role_arn without source_profile or credential_source"),
        (role("a", "b", credential_source="Environment"), "has both source_profile and credential_source"),
        (
            profile("a", role_arn=f"{ROLE}a", credential_source="Moon"),
            "an unknown credential_source, expected one of Environment, EcsContainer, Ec2InstanceMetadata",
        ),
        (
            role("a", "b", mfa_serial="arn:aws:iam::1:mfa/x"),
            "has mfa_serial: MFA codes are not supported",
        ),
        (profile("a", web_identity_token_file="/t"), "has web_identity_token_file without role_arn"),
        (
            profile("a", role_arn="moon", credential_source="Ec2InstanceMetadata"),
            "the role of the profile 'a': expected the ARN of a role",
        ),
        (profile("a", aws_access_key_id="AKIDA"), "has aws_access_key_id without aws_secret_access_key"),
        (profile("a", aws_secret_access_key="canary"), "has aws_secret_access_key without aws_access_key_id"),
        (
            profile("a", aws_access_key_id="AKIDA", aws_secret_access_key="canary 1"),
            "aws_secret_access_key of the profile 'a' contains spaces",
        ),
        *(
            (
                profile("a", region=REGION, **{name: "canary"}),
                f"has {name}, which is not supported: use a role, keys or a web identity",
            )
            for name in ("sso_session", "sso_start_url", "login_session", "credential_process")
        ),
        (
            role("a", "b") + profile("b", sso_session="x"),
            "the profile 'b' has sso_session, which is not supported",
        ),
        ("[profile a", "/h/.aws/config, line 1: expected ] behind the name of a profile"),
    ],
)
def test_a_broken_profile_is_an_error_and_no_reason_to_go_on(config: str, said: str) -> None:
    for aws, environ, setting in (("profile: a", ALL, "aws.profile"), ("", {"AWS_PROFILE": "a"}, "auth")):
        found = refusal_of(aws, environ, config=config)
        assert found.startswith(f"{setting}: ")
        assert said in found


def test_a_missing_profile_of_the_environment_is_told_with_its_variable() -> None:
    assert refusal_of("", {"AWS_PROFILE": "a"}, config=profile("b")).startswith(
        f"auth: AWS_PROFILE: no profile of AWS is named 'a' {PLACES}"
    )


def test_a_file_that_cannot_be_read_is_an_error() -> None:
    def read(path: str) -> bytes:
        raise PermissionError(13, "Permission denied", path)

    text = f"providers: {{main: {{{HOST}}}}}}}"
    provider = parse(text, "mgw.yaml", {}).providers["main"]
    with pytest.raises(
        ValueError, match=r"^providers\.main\.auth: permission denied for user .*credentials$"
    ):
        find_key_source(provider, {"HOME": "/h"}, read)


def test_files_are_not_read_where_an_earlier_source_is_there() -> None:
    def read(path: str) -> bytes:
        raise AssertionError(path)

    for aws, environ in ((OWN, {}), ("", ENVIRON), ("", IDENTITY)):
        provider = parse(f"providers: {{main: {{{HOST}{aws}}}}}}}", "mgw.yaml", environ).providers["main"]
        assert find_key_source(provider, environ, read) is not None


# The environment, containers and instances ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"AWS_ACCESS_KEY_ID": "AKID"},
            "the environment has AWS_ACCESS_KEY_ID without AWS_SECRET_ACCESS_KEY",
        ),
        (
            {"AWS_SECRET_ACCESS_KEY": "canary"},
            "the environment has AWS_SECRET_ACCESS_KEY without AWS_ACCESS_KEY_ID",
        ),
        (
            {**ENVIRON, "AWS_SESSION_TOKEN": "canary\n"},
            "AWS_SESSION_TOKEN of the environment ends with a line break",
        ),
        (
            {**ENVIRON, "AWS_ACCESS_KEY_ID": "AKIDÉNVIRON"},
            "AWS_ACCESS_KEY_ID of the environment contains characters that cannot be signed with",
        ),
        (
            {**ENVIRON, "AWS_SESSION_TOKEN": "canary-é"},
            "AWS_SESSION_TOKEN of the environment contains characters that cannot be signed with",
        ),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/t"}, "AWS_WEB_IDENTITY_TOKEN_FILE is set without AWS_ROLE_ARN"),
        ({**IDENTITY, "AWS_ROLE_ARN": "moon"}, "the role of the environment: expected the ARN of a role"),
        (
            {**IDENTITY, "AWS_ROLE_SESSION_NAME": "a b"},
            "the role of the environment: expected from 2 to 64 letters",
        ),
        (
            {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "@evil.example/"},
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI is not a path that begins with /",
        ),
        (
            {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "moon"},
            "AWS_EC2_METADATA_SERVICE_ENDPOINT: expected an address",
        ),
        (
            {**CONTAINER, "AWS_CONTAINER_AUTHORIZATION_TOKEN": "canary\r\nX: y"},
            "AWS_CONTAINER_AUTHORIZATION_TOKEN contains control characters",
        ),
    ],
)
def test_a_broken_variable_is_an_error(environ: dict[str, str], said: str) -> None:
    assert refusal_of("", environ).startswith(f"auth: {said}")


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("access_key_id", "access_key_id: AKIDÖWN, secret_access_key: canary-of-own"),
        ("session_token", f"{OWN}, session_token: canary-é"),
    ],
)
def test_a_key_of_the_settings_that_no_header_can_have_is_an_error(name: str, keys: str) -> None:
    files = reader()
    text = f"providers: {{main: {{{HOST}{keys}}}}}}}"
    provider = parse(text, "mgw.yaml", {}, None, files).providers["main"]
    with pytest.raises(ValueError, match=f"^providers.main.aws.{name}: contains characters") as refusal:
        find_key_source(provider, {}, files)
    assert "canary" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://anywhere.example/creds",
        "http://127.0.0.1:8080/creds?x=1",
        "http://127.9.9.9/",
        "http://[::1]:1/creds",
        "http://localhost/creds",
        "http://169.254.170.2/creds",
        "http://169.254.170.23/v1/credentials",
        "http://[fd00:ec2::23]/v1/credentials",
    ],
)
def test_a_container_may_be_asked_next_door_or_by_https(url: str) -> None:
    assert source_of("", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url}) == ContainerEndpoint(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/",
        "http://169.254.170.24/",
        "http://127.0.0.1.evil.example/",
        "ftp://127.0.0.1/",
        "x",
    ],
)
def test_no_other_host_gets_the_token_of_a_container(url: str) -> None:
    said = refusal_of("", {"AWS_CONTAINER_CREDENTIALS_FULL_URI": url})
    assert said.startswith("auth: AWS_CONTAINER_CREDENTIALS_FULL_URI: expected ")


def test_the_token_of_a_container_is_in_a_file_or_a_variable() -> None:
    token = {"AWS_CONTAINER_AUTHORIZATION_TOKEN": "canary"}
    assert source_of("", CONTAINER | token) == ContainerEndpoint(ENDPOINT.url, Secret("canary"))
    file = {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "/pod"}
    assert source_of("", CONTAINER | token | file) == ContainerEndpoint(ENDPOINT.url, None, "/pod")
    both = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://x.example/"}
    assert source_of("", CONTAINER | both) == ENDPOINT


def test_the_metadata_service_may_be_elsewhere() -> None:
    elsewhere = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://[fd00:ec2::254]/"}
    assert source_of("", elsewhere) == InstanceMetadata("http://[fd00:ec2::254]")


# In words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            FixedKeys(AwsKeys("AKIAIOSFODNN7EXAMPLE", Secret("canary")), "the environment"),
            "with the access key ending in MPLE from the environment",
        ),
        (
            FixedKeys(AwsKeys("canary", Secret("canary")), "the configuration"),
            "with the access key from the configuration",
        ),
        (
            KEYS_OF_LLM,
            "with the access key ending in DLLM from the profile 'llm'".replace("ending in DLLM ", ""),
        ),
        (POD, f"role {ROLE}pod by {STS}, with the web identity token in /token"),
        (ENDPOINT, "with credentials from the container endpoint"),
        (METADATA, "with credentials from the instance's metadata service"),
        (
            assumed(assumed(ENDPOINT, "b"), "a"),
            (
                f"role {ROLE}a by {STS}, with role {ROLE}b by {STS}, "
                "with credentials from the container endpoint"
            ),
        ),
        (
            assumed(POD, "a"),
            f"role {ROLE}a by {STS}, with role {ROLE}pod by {STS}, with the web identity token in /token",
        ),
    ],
)
def test_a_source_is_described_without_its_keys(source: KeySource, said: str) -> None:
    assert describe_source(source) == said
    assert "canary" not in said


# AWS's own resolver ---------------------------------------------------------------------------------------

_IDS: Final = st.sampled_from(["AKIDONE", "AKIDTWO"])
_NAMES: Final = ("default", "a", "b", "c")
_STATIC: Final = st.fixed_dictionaries(
    {"aws_access_key_id": _IDS, "aws_secret_access_key": st.just("s3cret")},
    optional={"aws_session_token": st.just("t0ken")},
)
_ROLE_SETTINGS: Final = {
    "role_session_name": st.just("me"),
    "external_id": st.just("gw-7"),
    "credential_source": st.just("Environment"),
}
_ROLES: Final = st.fixed_dictionaries({"role_arn": st.just(f"{ROLE}x")}, optional=_ROLE_SETTINGS)
_CHAINED: Final = st.fixed_dictionaries(
    {"role_arn": st.sampled_from([f"{ROLE}x", f"{ROLE}y"]), "source_profile": st.sampled_from(_NAMES)},
    optional={name: value for name, value in _ROLE_SETTINGS.items() if name != "credential_source"},
)
_IDENTITIES: Final = st.fixed_dictionaries(
    {"role_arn": st.just(f"{ROLE}z"), "web_identity_token_file": st.just("/token")}
)
_PROFILES: Final = st.one_of(_CHAINED, _STATIC, _CHAINED, _ROLES, _IDENTITIES, st.just({"output": "json"}))
_FILES: Final = st.dictionaries(st.sampled_from(_NAMES), _PROFILES, min_size=2, max_size=4)
_ENVIRONS: Final = st.fixed_dictionaries(
    {},
    optional={
        "keys": st.one_of(st.just({}), st.just({}), st.just(ENVIRON)),
        "profile": st.sampled_from(_NAMES).map(lambda name: {"AWS_PROFILE": name}),
    },
)


def _ini(profiles: Mapping[str, Mapping[str, str]], prefix: str) -> str:
    return "".join(
        f"[{'' if name == 'default' else prefix}{name}]\n"
        + "".join(f"{key} = {text}\n" for key, text in settings.items())
        for name, settings in profiles.items()
    )


Seen = tuple[Any, ...]  # Any: keys, and roles around them


def _seen(source: KeySource) -> Seen:
    """What a source is, as far as botocore shows it without asking anybody."""
    match source:
        case FixedKeys(keys):
            token = None if keys.session_token is None else keys.session_token.reveal()
            return (keys.access_key_id, keys.secret_access_key.reveal(), token)
        case WebIdentity(role_arn, session):
            return ("identity", role_arn, None if session == "mgw" else session)
        case AssumedRole(base, role_arn, session, external_id):
            return ("role", role_arn, None if session == "mgw" else session, external_id, _seen(base))
    raise LookupError("asked elsewhere")


def _by_botocore(environ: Mapping[str, str], patch: pytest.MonkeyPatch) -> Seen | None:
    """What AWS's own resolver finds; ``None``: nothing, and it would ask the machine."""
    credentials = pytest.importorskip("botocore.credentials")
    session = pytest.importorskip("botocore.session").Session()
    for name, value in environ.items():
        patch.setenv(name, value)
    resolver = credentials.create_credential_resolver(session, region_name=REGION)
    for provider in list(resolver.providers):
        if provider.METHOD in ("iam-role", "ec2-credentials-file", "boto-config", "container-role"):
            resolver.remove(provider.METHOD)
    found = resolver.load_credentials()
    return None if found is None else _look_into(found)


def _look_into(found: Any) -> Seen:  # Any: botocore has no types
    refresh = getattr(found, "_refresh_using", None)
    fetcher = getattr(refresh, "__self__", None)
    if fetcher is None:
        return (found.access_key, found.secret_key, found.token)
    session = fetcher._assume_kwargs["RoleSessionName"] if not fetcher._using_default_session_name else None
    role_arn = fetcher._assume_kwargs["RoleArn"]
    if not hasattr(fetcher, "_source_credentials"):
        return ("identity", role_arn, session)
    external_id = fetcher._assume_kwargs.get("ExternalId")
    return ("role", role_arn, session, external_id, _look_into(fetcher._source_credentials))


@settings(deadline=None)  # botocore's first session takes its time
@given(
    config=_FILES,
    credentials=st.dictionaries(st.sampled_from(_NAMES), _STATIC, max_size=2),
    environ=_ENVIRONS,
)
def test_the_chain_is_that_of_botocore(
    config: dict[str, dict[str, str]],
    credentials: dict[str, dict[str, str]],
    environ: dict[str, dict[str, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    named = environ.get("profile", {}).get("AWS_PROFILE")
    assume(named is None or named in {*config, *credentials})  # else it is missed even where keys win
    folder = tmp_path_factory.mktemp("aws")
    texts = {"config": _ini(config, "profile "), "credentials": _ini(credentials, "")}
    paths = {name: folder / name for name in texts}
    for name, path in paths.items():
        path.write_text(texts[name])
    whole = {
        "AWS_CONFIG_FILE": str(paths["config"]),
        "AWS_SHARED_CREDENTIALS_FILE": str(paths["credentials"]),
        **NO_INSTANCE,
        **{name: value for part in environ.values() for name, value in part.items()},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in (*ENVIRON, "AWS_PROFILE", "AWS_DEFAULT_PROFILE", *IDENTITY, *CONTAINER):
            patch.delenv(name, raising=False)
        try:
            expected: Seen | str | None = _by_botocore(whole, patch)
        except Exception as error:  # of a kind that only botocore has
            expected = type(error).__name__
    provider = parse(f"providers: {{main: {{{HOST}}}}}}}", "mgw.yaml", whole).providers["main"]
    try:
        found: Seen | str | None = _seen(
            find_key_source(provider, whole, lambda path: Path(path).read_bytes())
        )
    except NoAwsKeysError:
        found = None
    except ValueError:
        found = "an error"
    if isinstance(expected, str):
        assert found == "an error", expected
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("key_id", "end"),
    [
        ("AKIAIOSFODNN7EXAMPLE", "MPLE"),
        ("ABCDEFGH", "EFGH"),
        ("ABCDEFG", ""),
        ("ABCD", ""),
        ("A", ""),
        ("", ""),
    ],
)
def test_of_an_access_key_id_the_end_alone_is_shown_and_of_a_short_one_nothing(key_id: str, end: str) -> None:
    keys = AwsKeys(key_id, Secret("canary"))
    assert repr(keys) == f"AwsKeys(…{end})"
    said = describe_source(FixedKeys(keys, "the environment"))
    assert said == f"with the access key {f'ending in {end} ' if end else ''}from the environment"
