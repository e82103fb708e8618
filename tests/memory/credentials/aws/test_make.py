"""From the settings of a provider to credentials that sign, through the chain and the files on the disk."""

from __future__ import annotations

import os
from email.utils import formatdate
from pathlib import Path
from typing import Any, Final

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs

from mgw.config.load import parse
from mgw.config.provider import Provider
from mgw.credentials import credentials_of
from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.keys import ContainerEndpoint
from mgw.credentials.aws.make import find_keys
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.aws.source import CHECK_SECONDS, AwsCredentials
from mgw.credentials.build import build_credentials, read_credential_files
from mgw.credentials.token_request import TokenRequestError
from mgw.generation import Generation, build_generation
from mgw.nouns.secret import key_hash
from tests.support.aws_keys import (
    CONTAINER,
    METADATA,
    ROLE,
    STS,
    answer_instance,
    keys_json,
    obtain,
    role_xml,
    scope_of,
    secret_of,
)
from tests.support.deferreds import result_of
from tests.support.token_endpoints import WALL, TokenHosts

CLAUDE = (
    "providers: {p: {kind: anthropic, auth: aws, "
    "base_url: 'https://bedrock-runtime.eu-central-1.amazonaws.com/anthropic/v1'%s}}"
)
KEYS = {"AWS_ACCESS_KEY_ID": "AKIDENVIRON", "AWS_SECRET_ACCESS_KEY": "canary-environment"}


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    return tmp_path


def write(home: Path, file: str, text: str) -> None:
    """Write a file, in a state of its own however fast the test is."""
    path = home / ".aws" / file
    path.write_text(text)
    write.number += 1  # type: ignore[attr-defined]  # a counter
    os.utime(path, ns=(0, write.number * 10**9))  # type: ignore[attr-defined]  # as above


write.number = 0  # type: ignore[attr-defined]  # as above


def provider(home: Path, settings: str = "", **environ: str) -> Provider:
    text = CLAUDE % (f", aws: {{{settings}}}" if settings else "")
    return parse(text, "mgw.yaml", {"HOME": str(home), "AWS_ENDPOINT_URL_STS": STS, **environ}).providers["p"]


def source(hosts: TokenHosts, home: Path, settings: str = "", **environ: str) -> AwsCredentials:
    found = credentials_of(provider(home, settings, **environ), hosts.sources)
    assert isinstance(found, AwsCredentials)
    return found


def error_of(waiting: Deferred[Any]) -> TokenRequestError:
    with pytest.raises(TokenRequestError) as caught:
        result_of(waiting)
    return caught.value


def test_keys_of_the_environment_sign_for_the_region_and_the_service_of_the_host(
    hosts: TokenHosts, home: Path
) -> None:
    found = source(hosts, home, **KEYS)
    credential = result_of(obtain(found))
    assert scope_of(credential) == "AKIDENVIRON eu-central-1 bedrock"
    assert credential.key_hash == key_hash("AKIDENVIRON")
    assert found.signs
    assert not hosts.sources.watchers, "no file was asked"


def test_the_keys_of_a_profile_change_with_its_file(hosts: TokenHosts, home: Path) -> None:
    profile = "[llm]\naws_access_key_id = AKIDPROFILE%d\naws_secret_access_key = canary-profile-%d\n"
    write(home, "credentials", profile % (1, 1))
    found = source(hosts, home, "profile: llm", **KEYS)
    assert secret_of(result_of(obtain(found))) == "canary-profile-1"
    write(home, "credentials", profile % (2, 2))
    assert secret_of(found.ready(None)) == "canary-profile-1"
    hosts.clock.advance(CHECK_SECONDS)
    assert found.ready(None) is None
    assert secret_of(result_of(obtain(found))) == "canary-profile-2"
    known = {secret.reveal() for secret in hosts.sources.secrets()}
    assert {"canary-profile-1", "canary-profile-2"} <= known


def test_a_file_that_did_not_exist_counts_once_it_does(hosts: TokenHosts, home: Path) -> None:
    found = source(hosts, home, AWS_EC2_METADATA_DISABLED="true")
    error = error_of(obtain(found))
    assert error.message.startswith("no AWS credentials found in the environment, the profile 'default'")
    assert error.code == "credential_source_failed"
    keys = "[default]\naws_access_key_id = AKIDNEW\naws_secret_access_key = canary-new-secret\n"
    write(home, "credentials", keys)
    hosts.clock.advance(CHECK_SECONDS)
    assert scope_of(result_of(obtain(found))) == "AKIDNEW eu-central-1 bedrock"


def test_a_profile_may_lead_to_roles_and_to_other_roles_later(hosts: TokenHosts, home: Path) -> None:
    write(home, "credentials", "[base]\naws_access_key_id=AKIDBASE\naws_secret_access_key=canary-base-key\n")
    config = "[profile llm]\nrole_arn = arn:aws:iam::123456789012:role/%s\nsource_profile = base\n"
    write(home, "config", config % "one")
    found = source(hosts, home, "profile: llm")
    waiting = obtain(found)
    assert hosts.newest(STS).form["RoleArn"].endswith("/one")
    hosts.newest(STS).answer(role_xml(1))
    assert result_of(waiting).key_hash == key_hash("arn:aws:iam::123456789012:role/one")
    write(home, "config", config % "two")
    hosts.clock.advance(CHECK_SECONDS)
    waiting = obtain(found)
    assert hosts.newest(STS).form["RoleArn"].endswith("/two")
    hosts.newest(STS).answer(role_xml(2))
    assert result_of(waiting).key_hash == key_hash("arn:aws:iam::123456789012:role/two")
    found.close()
    assert not len(hosts.sources)


def test_a_file_that_is_written_again_with_the_same_content_keeps_the_keys(
    hosts: TokenHosts, home: Path
) -> None:
    write(home, "config", f"[default]\nrole_arn = {ROLE}\ncredential_source = Environment\n")
    found = source(hosts, home, "profile: default", **KEYS)
    waiting = obtain(found)
    hosts.newest(STS).answer(role_xml(1))
    first = result_of(waiting)
    known = found.found
    assert find_keys(provider(home, "profile: default", **KEYS), known) is known, "no file was read"
    write(home, "config", f"[default]\nrole_arn = {ROLE}\ncredential_source = Environment\n# a comment\n")
    hosts.clock.advance(CHECK_SECONDS)
    assert result_of(obtain(found)) is first
    assert len(hosts.posts(STS)) == 1


BROKEN = {
    "no profile": "[other]\naws_access_key_id = a\n",
    "half of a pair": "[llm]\naws_access_key_id = AKIDPROFILE\n",
    "no file of this kind": "canary {\n",
    "not offered": "[llm]\ncredential_process = canary\n",
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_file_that_breaks_is_an_error_at_load_and_a_warning_later(
    hosts: TokenHosts, home: Path, text: str
) -> None:
    good = "[llm]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = canary-profile-1\n"
    write(home, "credentials", good)
    found = source(hosts, home, "profile: llm")
    first = result_of(obtain(found))
    write(home, "credentials", text)
    hosts.clock.advance(CHECK_SECONDS)
    with capturedLogs() as events:
        assert result_of(obtain(found)) is first
    (event,) = events
    assert event["provider"] == "p"
    assert "canary" not in f"{event}"
    with pytest.raises(ValueError, match=r"providers\.p\.aws\.profile"):
        find_keys(provider(home, "profile: llm, region: eu-central-1"))
    os.remove(home / ".aws" / "credentials")
    hosts.clock.advance(CHECK_SECONDS)
    assert result_of(obtain(found)) is first
    write(home, "credentials", good.replace("-1", "-2"))
    hosts.clock.advance(CHECK_SECONDS)
    assert secret_of(result_of(obtain(found))) == "canary-profile-2"


def test_a_file_that_may_not_be_read_any_longer_is_a_warning_too(hosts: TokenHosts, home: Path) -> None:
    write(home, "credentials", "[llm]\naws_access_key_id = A\naws_secret_access_key = canary-profile-1\n")
    found = source(hosts, home, "profile: llm")
    first = result_of(obtain(found))
    os.remove(home / ".aws" / "credentials")
    (home / ".aws" / "credentials").mkdir()
    hosts.clock.advance(CHECK_SECONDS)
    with capturedLogs() as events:
        assert result_of(obtain(found)) is first
    assert "found a directory" in events[0]["problem"]


@pytest.mark.parametrize(
    "url",
    [
        "https://keys.example/v1",
        "http://localhost:8080/keys",
        "http://127.9.9.9:51/keys?id=1",
        "http://[::1]/",
        "http://169.254.170.2/v2",
        "http://169.254.170.23/v1/credentials",
        "http://[fd00:ec2::23]/v1/credentials",
    ],
)
def test_keys_may_come_by_tls_or_from_this_machine_or_from_aws(home: Path, url: str) -> None:
    found = find_keys(provider(home, AWS_CONTAINER_CREDENTIALS_FULL_URI=url))
    assert found.source == ContainerEndpoint(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://canary.example/",
        "http://169.254.169.254/",
        "http://169.254.170.2.canary.example/",
        "http://localhost.canary.example/",
        "http://127.0.0.1@canary.example/",
        "http://canary@127.0.0.1/",
        "http://2130706433/",
        "ftp://127.0.0.1/",
        "http://127.0.0.1/a\r\nX: canary",
        "http://[::1",
    ],
)
def test_keys_come_from_nowhere_else(home: Path, url: str) -> None:
    with pytest.raises(ValueError, match="AWS_CONTAINER_CREDENTIALS_FULL_URI") as caught:
        find_keys(provider(home, AWS_CONTAINER_CREDENTIALS_FULL_URI=url))
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("path", ["keys", "@canary.example/", ".canary.example/", ":80@canary.example"])
def test_a_relative_address_cannot_lead_elsewhere(home: Path, path: str) -> None:
    found = find_keys(provider(home, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI="/v2/keys?id=1"))
    assert found.source == ContainerEndpoint(f"{CONTAINER}/v2/keys?id=1")
    with pytest.raises(ValueError, match="AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        find_keys(provider(home, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=path))


def test_an_instance_that_is_none_is_told_with_what_was_looked_at(hosts: TokenHosts, home: Path) -> None:
    for settings in ("", f"role_arn: '{ROLE}'"):
        found = source(hosts, home, settings)
        waiting = obtain(found)
        hosts.clock.advance(1)
        message = error_of(waiting).message
        where = "the environment, the profile 'default' or a container's endpoint"
        start = f"no AWS credentials were found in {where}, and AWS's instance metadata service did not"
        assert message.startswith(start)
    write(home, "config", f"[default]\nrole_arn = {ROLE}\ncredential_source = Ec2InstanceMetadata\n")
    waiting = obtain(source(hosts, home))
    hosts.clock.advance(1)
    assert error_of(waiting).message.startswith("AWS's instance metadata service did not respond")


def test_the_role_of_the_settings_is_assumed_with_what_was_found(hosts: TokenHosts, home: Path) -> None:
    found = source(
        hosts,
        home,
        f"role_arn: '{ROLE}', external_id: gw-7, session_name: gate",
        AWS_CONTAINER_CREDENTIALS_RELATIVE_URI="/v2/keys",
    )
    waiting = obtain(found)
    hosts.newest(CONTAINER).answer(keys_json(1))
    form = hosts.newest(STS).form
    assert (form["RoleArn"], form["ExternalId"], form["RoleSessionName"]) == (ROLE, "gw-7", "gate")
    hosts.newest(STS).answer(role_xml(2))
    credential = result_of(waiting)
    assert scope_of(credential) == "ASIAROLE2 eu-central-1 bedrock"
    assert credential.key_hash == key_hash(ROLE)


def test_keys_of_an_instance_survive_a_reload(hosts: TokenHosts, home: Path) -> None:
    text = CLAUDE % ", aws: {region: eu-central-1}"
    config = parse(text, "mgw.yaml", {"HOME": str(home)})
    first = build_generation(1, config, MemoryReactorClock(), 0, hosts.sources)
    waiting = Deferred.fromCoroutine(first.credentials["p"].obtain(None))
    answer_instance(hosts)
    result_of(waiting)
    assert first.signs
    second = build_generation(2, config, MemoryReactorClock(), 0, hosts.sources)
    first.retire()
    again = Deferred.fromCoroutine(second.credentials["p"].obtain(None))
    assert secret_of(result_of(again)) == "canary-secret-1"
    assert len(hosts.posts(METADATA)) == 3
    second.retire()
    assert not len(hosts.sources)


def test_what_files_say_is_read_ahead_and_known_to_the_log(hosts: TokenHosts, home: Path) -> None:
    write(home, "credentials", "[llm]\naws_access_key_id = A\naws_secret_access_key = canary-profile-1\n")
    text = CLAUDE % ", aws: {profile: llm}"
    config = parse(text, "mgw.yaml", {"HOME": str(home)})
    files = read_credential_files(config, {})
    assert "canary-profile-1" in {secret.reveal() for secret in files.secrets()}
    os.remove(home / ".aws" / "credentials")
    built = build_credentials(config.providers["p"], "", files, hosts.sources)
    assert isinstance(built, AwsCredentials)
    assert secret_of(result_of(obtain(built))) == "canary-profile-1"
    broken = read_credential_files(config, {})
    with pytest.raises(ValueError, match=r"providers\.p\.aws\.profile"):
        build_credentials(config.providers["p"], "", broken, hosts.sources)


def test_what_is_known_of_the_hosts_clock_outlives_keys(hosts: TokenHosts, home: Path) -> None:
    found = source(hosts, home, AWS_CONTAINER_CREDENTIALS_RELATIVE_URI="/v2/keys")
    waiting = obtain(found)
    hosts.newest(CONTAINER).answer(keys_json(1))
    first = result_of(waiting).signer
    assert first is not None
    first.clock.note(formatdate(WALL + 3600, usegmt=True).encode(), WALL, WALL)
    hosts.clock.advance(3600)
    waiting = obtain(found)
    hosts.newest(CONTAINER).answer(keys_json(2, 7200))
    second = result_of(waiting).signer
    assert second is not None
    assert second is not first
    assert second.clock.correction > 3500


HOUR: Final = 3600
TWO: Final = """
providers:
  p: {kind: bedrock, auth: aws, aws: {region: eu-central-1}}
  q: {kind: bedrock, auth: aws, aws: {region: us-east-1}}
"""


def test_what_is_known_of_a_hosts_clock_outlives_a_reload_and_is_said_once(
    hosts: TokenHosts, home: Path
) -> None:
    date = formatdate(WALL + HOUR, usegmt=True).encode()

    def build(number: int, text: str) -> Generation:
        config = parse(text, "mgw.yaml", {"HOME": str(home), **KEYS})
        return build_generation(number, config, MemoryReactorClock(), 0, hosts.sources)

    def clock_of(generation: Generation, provider: str) -> HostClock:
        signer = result_of(Deferred.fromCoroutine(generation.credentials[provider].obtain(None))).signer
        assert isinstance(signer, SigV4)
        return signer.clock

    with capturedLogs() as events:
        first = build(1, TWO)
        clock_of(first, "p").note(date, WALL, WALL)
        second = build(2, f"{TWO}server_timing: true\n")
        first.retire()
        assert clock_of(second, "p").correction > HOUR - 2
        assert clock_of(second, "q").correction == 0, "another host has another clock"
        clock_of(second, "p").note(date, WALL, WALL)
        third = build(3, TWO.replace("eu-central-1", "eu-west-1"))
        second.retire()
        assert clock_of(third, "p").correction == 0, "so has another host of the same provider"
        clock_of(third, "p").note(date, WALL, WALL)
    assert [event["provider"] for event in events if "seconds" in event] == ["p", "p"], "once for each host"
    third.retire()
    del first, second, third
    assert not hosts.sources.clocks, "nothing is kept that nobody uses"
