"""SigV4: requests are signed with a key of AWS instead of carrying one.

A signature holds for one region, one service and a few minutes, and covers the method, the target, some
headers and the body.  Headers that a proxy on the way may change are not among them.  The key of a day and
what the requests with a head have in common are kept; no date, token or signature is.

Sources: AWS, "Create a signed AWS API request"; botocore's ``auth.py`` (``SigV4Auth``).
"""

from __future__ import annotations

import re
from hashlib import sha256
from hmac import digest as hmac_digest
from time import gmtime, strftime
from typing import Final

from msgspec import Struct

from mgw.credentials.aws.canonical import canonical_headers, canonical_target
from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.keys import AwsKeys
from mgw.credentials.provider import CredentialRefusal
from mgw.nouns.secret import Secret
from mgw.wire.amazon_errors import error_type
from mgw.wire.headers import RawHeaders

ALGORITHM: Final = b"AWS4-HMAC-SHA256"
AUTHORIZATION: Final = b"Authorization"
DATE: Final = b"X-Amz-Date"
CONTENT_HASH: Final = b"X-Amz-Content-SHA256"
TOKEN: Final = b"X-Amz-Security-Token"
_OWN_PREFIX: Final = b"x-amz-"
_NAMES: Final = frozenset({AUTHORIZATION.lower(), DATE.lower(), CONTENT_HASH.lower()})
_NAMES_OF_SESSION: Final = _NAMES | {TOKEN.lower()}
MAX_KEPT: Final = 256
"""How many heads are remembered by what they have in common."""
MAX_KEPT_BYTES: Final = 4 * 1024
"""A longer one is not remembered."""
_STAMP: Final = "%Y%m%dT%H%M%SZ"
_DAY: Final = len("20260102")
_HASH_MARK, _DATE_MARK = b"\x01", b"\x02"
"""Stand where digest and time will; no value of a header can hold such a character."""
# X-Amzn-Trace-Id is what load balancers on the way add to and change; our own headers are signed anyhow.
_is_signed: Final = re.compile(
    rb"(?i:host|content-type|anthropic-.*"
    rb"|x-amz(?!-date$|-content-sha256$|-security-token$|n-trace-id$).*)"
).fullmatch
_is_visible: Final = re.compile(r"[!-~]+").fullmatch

_Key = tuple[bytes, bytes, tuple[tuple[bytes, bytes], ...]]
"""The method, the target, and the headers that are signed."""


class _Prepared(Struct, frozen=True):
    """What the requests with a head have in common when they are signed."""

    names: bytes
    """The names of the headers that are signed."""
    before_hash: bytes
    """The canonical request up to the digest of the body."""
    before_date: bytes
    """What follows up to the time."""
    behind_date: bytes
    """What follows up to the digest at the end."""

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return len(self.names) + len(self.before_hash) + len(self.before_date) + len(self.behind_date)


class SigV4:
    """Signs requests to one service in one region with one key.

    :param service: the name that requests to it are signed with, which its host need not have.
    :param clock: that of the host, which other keys for the same host share.
    :raises ValueError: the key or its token hold what cannot stand in a header.
    """

    __slots__ = (
        *("_day", "_keys", "_kept", "_key_of_day", "_region", "_scope", "_service", "_token"),
        *("clock", "names", "own_prefix"),
    )

    def __init__(self, keys: AwsKeys, region: str, service: str, clock: HostClock) -> None:
        token = None if keys.session_token is None else keys.session_token.reveal()
        if not _is_visible(keys.access_key_id) or (token is not None and not _is_visible(token)):
            raise ValueError("an access key of AWS or its session token holds a blank or another character")
        self._keys = keys
        self._token = None if token is None else token.encode("ascii")
        self._region, self._service = region.encode(), service.encode()
        self._day = self._scope = self._key_of_day = b""
        self._kept: dict[_Key, _Prepared] = {}
        self.clock = clock
        self.own_prefix = _OWN_PREFIX
        self.names = _NAMES if token is None else _NAMES_OF_SESSION

    @property
    def kept(self) -> int:
        """How many heads are remembered by what they have in common."""
        return len(self._kept)

    def forget(self) -> None:
        """Let go of what was prepared: other keys are used now, and heads may hold this one for long."""
        self._kept.clear()

    def __repr__(self) -> str:  # it holds a secret
        return f"SigV4({self._keys!r}, {self._service.decode()} in {self._region.decode()})"

    def sign(
        self, method: bytes, target: bytes, headers: RawHeaders, digest: bytes, now: float
    ) -> RawHeaders:
        """Return the headers that sign a request, as :class:`~mgw.credentials.provider.Signer` says."""
        key = method, target, tuple([pair for pair in headers if _is_signed(pair[0])])
        prepared = self._kept.get(key) or self._prepare(key)
        stamp = strftime(_STAMP, gmtime(now + self.clock.correction)).encode("ascii")
        if stamp[:_DAY] != self._day:
            self._begin_day(stamp[:_DAY])
        payload_hash = digest.hex().encode("ascii")
        before, between, behind = prepared.before_hash, prepared.before_date, prepared.behind_date
        request = b"%b%b%b%b%b%b" % (before, payload_hash, between, stamp, behind, payload_hash)
        to_sign = sha256(request).hexdigest().encode("ascii")
        to_sign = b"%b\n%b\n%b\n%b" % (ALGORITHM, stamp, self._scope, to_sign)
        signature = hmac_digest(self._key_of_day, to_sign, "sha256").hex().encode("ascii")
        authorization = b"%b Credential=%b/%b, SignedHeaders=%b, Signature=%b" % (
            *(ALGORITHM, self._keys.access_key_id.encode("ascii"), self._scope),
            *(prepared.names, signature),
        )
        added = [(DATE, stamp), (CONTENT_HASH, payload_hash), (AUTHORIZATION, authorization)]
        return added if self._token is None else [*added, (TOKEN, self._token)]

    def signs_otherwise(self, refusal: CredentialRefusal, correction: float) -> bool:
        """Whether a request was refused for its time, and would be signed in another one now."""
        return self.clock.explains(error_type(refusal.headers, refusal.body), correction)

    def _prepare(self, key: _Key) -> _Prepared:
        method, target, headers = key
        own = [(CONTENT_HASH, _HASH_MARK), (DATE, _DATE_MARK)]
        own += [] if self._token is None else [(TOKEN, self._token)]
        signed = canonical_headers([*headers, *own])
        request = b"%b\n%b\n%b\n%b\n" % (method, canonical_target(target), signed.lines, signed.names)
        before_hash, _, rest = request.partition(_HASH_MARK)
        before_date, _, behind_date = rest.partition(_DATE_MARK)
        prepared = _Prepared(signed.names, before_hash, before_date, behind_date)
        if prepared.size <= MAX_KEPT_BYTES:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()  # heads that are in use come back at once
            self._kept[key] = prepared
        return prepared

    def _begin_day(self, day: bytes) -> None:
        self._scope = b"%b/%b/%b/aws4_request" % (day, self._region, self._service)
        self._key_of_day = signing_key(self._keys.secret_access_key, day, self._region, self._service)
        self._day = day


def signing_key(secret: Secret, day: bytes, region: bytes, service: bytes) -> bytes:
    """Return the key that signs the requests of a day."""
    key = b"AWS4" + secret.reveal().encode()
    for part in (day, region, service, b"aws4_request"):
        key = hmac_digest(key, part, "sha256")
    return key
