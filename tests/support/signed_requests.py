"""A host of AWS that checks signatures: with botocore's own computation, and the rule of what is signed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from mgw.credentials.aws.keys import AwsKeys
from mgw.nouns.secret import Secret
from mgw.wire.headers import RawHeaders, value_of, values_of
from tests.support.signing_source import REGION, SERVICE

KEYS: Final = AwsKeys("AKIDCANARY0000000001", Secret("aws-canary+secret/0123456789abcdef012345"))
SESSION_KEYS: Final = AwsKeys(
    "ASIACANARY0000000002",
    Secret("aws-canary+secret/abcdef0123456789012345"),
    Secret("session-canary//token+0123456789=="),
)
_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/, ]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
    r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})"
)
_NOT_SIGNED: Final = "x-amzn-trace-id"
_CARRIERS: Final = (b"x-api-key", b"api-key", b"x-goog-api-key", b"cookie")


def is_to_be_signed(name: str) -> bool:
    """Whether a signature has to cover a header."""
    lower = name.lower()
    if lower in ("host", "content-type"):
        return True
    return lower.startswith(("x-amz", "anthropic-")) and lower != _NOT_SIGNED


def as_text(value: bytes) -> str:
    """Return the value of a header as botocore takes it."""
    return value.decode("utf-8")


def signature_of(
    keys: AwsKeys, method: bytes, target: bytes, headers: RawHeaders, stamp: str, region: str, service: str
) -> tuple[str, str]:
    """Return what botocore calls the headers that it signs, and its signature.

    :param headers: those that are signed, ``Host`` and the digest of the body among them.
    """
    host = value_of(headers, b"host")
    assert host is not None
    request: Any = AWSRequest(method.decode(), f"https://{host.decode()}{target.decode('utf-8')}")
    request.context["timestamp"] = stamp
    for name, value in headers:
        request.headers.add_header(name.decode(), as_text(value))
    signer: Any = SigV4Auth(Credentials(keys.access_key_id, keys.secret_access_key.reveal()), service, region)
    to_sign = signer.string_to_sign(request, signer.canonical_request(request))
    names: str = signer.signed_headers(signer.headers_to_sign(request))
    signature: str = signer.signature(to_sign, request)
    return names, signature


@dataclass
class SigningHost:
    """Knows one key, and says what is wrong with a request."""

    keys: AwsKeys = KEYS
    region: str = REGION
    service: str = SERVICE
    stamps: list[str] = field(default_factory=list)
    """The times of the requests that were in order."""

    def check(self, method: bytes, target: bytes, headers: RawHeaders, body: bytes) -> None:
        """Fail unless a request is signed in every respect."""
        lines = values_of(headers, b"authorization")
        assert len(lines) == 1, "there is one Authorization"
        match = _AUTHORIZATION.fullmatch(lines[0].decode())
        assert match is not None, lines
        key_id, day, region, service, names, signature = match.groups()
        assert (key_id, region, service) == (self.keys.access_key_id, self.region, self.service)
        stamp = (value_of(headers, b"x-amz-date") or b"").decode()
        assert re.fullmatch(r"\d{8}T\d{6}Z", stamp)
        assert stamp[:8] == day
        assert values_of(headers, b"x-amz-content-sha256") == [sha256(body).hexdigest().encode()]
        token = self.keys.session_token
        tokens = [] if token is None else [token.reveal().encode()]
        assert values_of(headers, b"x-amz-security-token") == tokens
        assert not [name for name in _CARRIERS if value_of(headers, name) is not None]
        signed = [pair for pair in headers if is_to_be_signed(pair[0].decode())]
        assert names == ";".join(sorted({name.decode().lower() for name, _ in signed}))
        expected = signature_of(self.keys, method, target, signed, stamp, self.region, self.service)
        assert (names, signature) == expected
        self.stamps.append(stamp)

    def check_all(self, received: bytes) -> list[tuple[bytes, bytes]]:
        """Check the requests of a connection, and return the target and the body of each."""
        found = []
        while received:
            head, _, rest = received.partition(b"\r\n\r\n")
            line, *rows = head.split(b"\r\n")
            method, target, _ = line.split(b" ")
            headers = [(name, value) for name, _, value in (row.partition(b": ") for row in rows)]
            length = int(value_of(headers, b"content-length") or b"0")
            assert value_of(headers, b"transfer-encoding") is None
            body, received = rest[:length], rest[length:]
            self.check(method, target, headers, body)
            found.append((target, body))
        return found
