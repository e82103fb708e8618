"""Keys as AWS's services give them, and the sources that they come from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from twisted.internet.defer import Deferred

from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.found_keys import FoundKeys, NoKeys
from mgw.credentials.aws.key_givers import use_keys
from mgw.credentials.aws.keys import (
    AssumedRole,
    AwsKeys,
    ContainerEndpoint,
    FixedKeys,
    InstanceMetadata,
    KeySource,
    WebIdentity,
)
from mgw.credentials.aws.signed_keys import KeyGiver, SignedKeys
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.aws.source import AwsCredentials
from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.sources import CredentialSources
from mgw.nouns.secret import Secret
from tests.support.token_endpoints import WALL, TokenHosts, TokenPost

STS = "http://sts.example"
CONTAINER = "http://169.254.170.2"
METADATA = "http://169.254.169.254"
ROLE = "arn:aws:iam::123456789012:role/llm"
KEYS = AwsKeys("AKIDEXAMPLE", Secret("canary-secret-0"))
OTHER_KEYS = AwsKeys("AKIDOTHER", Secret("canary-secret-9"))
FIXED = FixedKeys(KEYS, "the environment")
EXPIRED = CredentialRefusal(
    403, [(b"x-amzn-errortype", b"ExpiredTokenException:http://internal.amazon.com/")]
)
DENIED = CredentialRefusal(403, [(b"x-amzn-errortype", b"AccessDeniedException")])


def assumed(base: KeySource = FIXED, role: str = ROLE, url: str = STS, **more: Any) -> AssumedRole:
    """Return a role that is assumed."""
    settings = {"session_name": "mgw", "external_id": None, "region": "us-east-1", **more}
    return AssumedRole(base, role, settings["session_name"], settings["external_id"], url, settings["region"])


def web_identity(file: str, url: str = STS) -> WebIdentity:
    """Return a role that is assumed with a token in a file."""
    return WebIdentity(ROLE, "mgw", file, url)


def container(token: str | None = "canary-container", file: str | None = None) -> ContainerEndpoint:
    """Return the endpoint of ECS."""
    return ContainerEndpoint(f"{CONTAINER}/v2/keys", Secret(token) if token else None, file)


INSTANCE = InstanceMetadata(METADATA)


def expiration(seconds: float) -> str:
    """Return when keys expire that are good for so long from the beginning of a test."""
    return datetime.fromtimestamp(WALL + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def role_xml(number: int | str = 1, seconds: float = 3600.0, action: str = "AssumeRole") -> bytes:
    """Return what STS answers."""
    return f"""<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <{action}Result>
    <AssumedRoleUser><AssumedRoleId>ARO123:mgw</AssumedRoleId><Arn>{ROLE}</Arn></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>ASIAROLE{number}</AccessKeyId>
      <SecretAccessKey>canary-secret-{number}</SecretAccessKey>
      <SessionToken>canary-token-{number}</SessionToken>
      <Expiration>{expiration(seconds)}</Expiration>
    </Credentials>
  </{action}Result>
  <ResponseMetadata><RequestId>c6104cbe-af31</RequestId></ResponseMetadata>
</{action}Response>""".encode()


def error_xml(code: str) -> bytes:
    """Return an error of STS."""
    return (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>canary-description</Message></Error></ErrorResponse>"
    ).encode()


def keys_json(number: int | str = 1, seconds: float = 3600.0, **more: object) -> bytes:
    """Return what a container's endpoint or an instance's metadata service answers."""
    keys = {
        "AccessKeyId": f"ASIAROLE{number}",
        "SecretAccessKey": f"canary-secret-{number}",
        "Token": f"canary-token-{number}",
        "Expiration": expiration(seconds),
        **more,
    }
    return json.dumps(keys).encode()


def answer_instance(hosts: TokenHosts, number: int = 1, seconds: float = 3600.0) -> list[TokenPost]:
    """Answer the three requests to an instance's metadata service; return them."""
    for body in (b"canary-imds", b"my-role\n", keys_json(number, seconds, Code="Success")):
        hosts.newest(METADATA).answer(body)
    return hosts.posts(METADATA)[-3:]


@dataclass
class Files:
    """Files that a source follows: which state they are in, and where they lead to."""

    source: KeySource | NoKeys = FIXED
    state: int = 1
    problem: str | None = None
    looks: int = 0

    def find(self, known: FoundKeys) -> FoundKeys:
        """Return where keys come from now."""
        self.looks += 1
        if self.problem is not None:
            raise ValueError(self.problem)
        files = (("/credentials", (self.state, 0, 0)),)
        return known if known.files == files else FoundKeys(self.source, files)

    def change(self, source: KeySource | NoKeys) -> None:
        """Write something else."""
        self.source, self.state, self.problem = source, self.state + 1, None


NOTHING = FoundKeys(FIXED)


def credentials(
    sources: CredentialSources, found: FoundKeys | Files, region: str = "us-east-1", provider: str = "p"
) -> AwsCredentials:
    """Return the credentials of a provider."""
    clock = HostClock(provider)

    def use(source: KeySource | NoKeys) -> KeyGiver:
        return use_keys(sources, None, source)

    def same(known: FoundKeys) -> FoundKeys:
        return known

    signed = SignedKeys(lambda keys: SigV4(keys, region, "bedrock", clock))
    if isinstance(found, Files):
        return AwsCredentials(provider, found.find(NOTHING), found.find, use, signed, sources)
    return AwsCredentials(provider, found, same, use, signed, sources)


def obtain(found: AwsCredentials) -> Deferred[Credential]:
    """Ask for a credential."""
    return Deferred.fromCoroutine(found.obtain(None))


def secret_of(credential: Credential | None) -> str | None:
    """Return the secret key of a credential."""
    return None if credential is None else credential.value.reveal()


def scope_of(credential: Credential) -> str:
    """Return what a credential signs for: key, region, service."""
    assert credential.signer is not None
    signed = credential.signer.sign(b"GET", b"/", [(b"Host", b"h")], b"\0" * 32, WALL)
    value = dict(signed)[b"Authorization"].decode()
    key, _, region, service, _ = value.partition("Credential=")[2].partition(",")[0].split("/")
    return f"{key} {region} {service}"
