"""Verifies AWS's Signature Version 4 as its front doors do: from what arrived, and nothing else.

Source: AWS's reference "Create a signed AWS API request" and botocore's ``SigV4Auth``.
"""

import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote, unquote

from msgspec import Struct

from mgw_sim.aws.errors import AwsError
from mgw_sim.recording import RecordedRequest

MAX_SKEW_SECONDS: Final = 300
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_AUTHORIZATION: Final = re.compile(
    _ALGORITHM + r" Credential=([\w-]+)/(\d{8})/([a-z0-9-]+)/([a-z0-9-]+)/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;_-]+), ?Signature=([0-9a-f]{64})"
)


class KeyPair(Struct, frozen=True):
    """What a request can be signed with."""

    key_id: str
    secret: str
    token: str | None = None
    expires: float | None = None
    """Unix seconds; None: never."""
    region: str | None = None
    """The region that its requests must be signed for; None: any."""


class Signature(Struct, frozen=True):
    """What ``Authorization`` says."""

    key_id: str
    date: str
    region: str
    service: str
    signed_headers: tuple[str, ...]
    hex_digest: str


def read_signature(authorization: str) -> Signature | None:
    """What the header says, or None where it is no signature."""
    match = _AUTHORIZATION.fullmatch(authorization)
    if match is None:
        return None
    key_id, date, region, service, names, digest = match.groups()
    return Signature(key_id, date, region, service, tuple(names.split(";")), digest)


class Scope(Struct, frozen=True):
    """What a host takes signatures for."""

    services: frozenset[str]
    """The signing names."""
    regions: frozenset[str] = frozenset()
    """Empty: any."""


def verify(
    request: RecordedRequest, find_key: Callable[[str], KeyPair | None], now: float, scope: Scope
) -> KeyPair:
    """Return the key that a request is signed with.  Raises AwsError."""
    authorization = _one(request, "authorization")
    if authorization is None:
        raise AwsError("MissingAuthenticationTokenException", "Missing Authentication Token")
    signature = read_signature(authorization)
    if signature is None:
        message = "Authorization header requires 'Credential', 'SignedHeaders' and 'Signature' parameters."
        raise AwsError("InvalidSignatureException", message)
    _check_headers(request, signature)
    _check_scope(signature, scope)
    _check_time(request, signature, now)
    key = find_key(signature.key_id)
    if key is None or key.token != _one(request, "x-amz-security-token"):
        raise AwsError(
            "UnrecognizedClientException", "The security token included in the request is invalid."
        )
    if not hmac.compare_digest(_expected(request, signature, key.secret), signature.hex_digest):
        message = (
            "The request signature we calculated does not match the signature you provided. Check your AWS "
            "Secret Access Key and signing method. Consult the service documentation for details."
        )
        raise AwsError("InvalidSignatureException", message)
    if key.expires is not None and now >= key.expires:
        raise AwsError("ExpiredTokenException", "The security token included in the request is expired")
    return key


def _check_headers(request: RecordedRequest, signature: Signature) -> None:
    """What must be signed is, and what is signed is there."""
    names = {name.lower() for name, _ in request.headers}
    must = {"host", *(name for name in names if name.startswith("x-amz-"))}
    if not must.issubset(signature.signed_headers):
        missing = ", ".join(sorted(must.difference(signature.signed_headers)))
        message = f"There were headers present in the request which were not signed: {missing}"
        raise AwsError("InvalidSignatureException", message)
    if list(signature.signed_headers) != sorted(set(signature.signed_headers)):
        raise AwsError("InvalidSignatureException", "'SignedHeaders' must be sorted.")
    claimed, actual = _one(request, "x-amz-content-sha256"), hashlib.sha256(request.body).hexdigest()
    if claimed not in {None, actual}:
        message = "The provided 'x-amz-content-sha256' header does not match what was computed."
        raise AwsError("InvalidSignatureException", message)


def _check_scope(signature: Signature, scope: Scope) -> None:
    """The region and the service of the signature are those of this host."""
    if scope.regions and signature.region not in scope.regions:
        message = f"Credential should be scoped to a valid region, not '{signature.region}'. "
        raise AwsError("InvalidSignatureException", message)
    if signature.service not in scope.services:
        message = f"Credential should be scoped to correct service: '{min(scope.services)}'."
        raise AwsError("InvalidSignatureException", message)


def _check_time(request: RecordedRequest, signature: Signature, now: float) -> None:
    """The time of the signature is that of this host."""
    stamp = _one(request, "x-amz-date") or ""
    try:
        signed_at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        message = "Date must be in ISO-8601 'basic format'."
        raise AwsError("InvalidSignatureException", message) from None
    if stamp[:8] != signature.date:
        message = "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date"
        raise AwsError("InvalidSignatureException", message)
    here = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    if signed_at < now - MAX_SKEW_SECONDS:
        message = f"Signature expired: {stamp} is now earlier than {here} - 5 min."
        raise AwsError("InvalidSignatureException", message)
    if signed_at > now + MAX_SKEW_SECONDS:
        message = f"Signature not yet current: {stamp} is still later than {here} + 5 min."
        raise AwsError("InvalidSignatureException", message)


def _expected(request: RecordedRequest, signature: Signature, secret: str) -> str:
    """The signature that this request has with a secret."""
    path, _, query = request.target.partition("?")
    canonical = "\n".join(
        (
            request.method,
            _canonical_path(path),
            _canonical_query(query),
            *(f"{name}:{_canonical_value(request, name)}" for name in signature.signed_headers),
            "",
            ";".join(signature.signed_headers),
            hashlib.sha256(request.body).hexdigest(),
        )
    )
    scope = f"{signature.date}/{signature.region}/{signature.service}/aws4_request"
    digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
    text = f"{_ALGORITHM}\n{_one(request, 'x-amz-date')}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def _canonical_path(path: str) -> str:
    """The path with its dots resolved and each segment encoded once more."""
    found: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del found[-1:]
        elif segment not in {"", "."}:
            found.append(quote(segment, safe="-_.~"))
    ending = "/" if found and path.endswith(("/", "/.", "/..")) else ""
    return "/" + "/".join(found) + ending


def _canonical_query(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    encoded = [
        (quote(unquote(name), safe="-_.~"), quote(unquote(value), safe="-_.~")) for name, _, value in pairs
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(encoded))


def _canonical_value(request: RecordedRequest, name: str) -> str:
    values = [" ".join(value.split()) for key, value in request.headers if key.lower() == name]
    return ",".join(values)


def _one(request: RecordedRequest, name: str) -> str | None:
    """The only value of a header, or None."""
    values = [value for key, value in request.headers if key.lower() == name]
    return values[0] if len(values) == 1 else None
