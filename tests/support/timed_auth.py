"""A made-up way to authenticate, first of two files: it signs method, target, body and time."""

from __future__ import annotations

import hmac
from typing import Final

from mgw.credentials.provider import CredentialRefusal
from mgw.wire.headers import RawHeaders, value_of

SIGNATURE: Final = b"X-Timed-Signature"
TIME: Final = b"X-Timed-At"


class OurClock:
    """The clock of a host that has the same as we."""

    correction = 0.0

    def note(self, date: bytes, sent_at: float, received_at: float) -> None:
        """Learn nothing."""


class TimedSigner:
    """Signs with one key."""

    own_prefix = b"x-timed-"
    names = frozenset({SIGNATURE.lower(), TIME.lower()})

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.clock = OurClock()

    def sign(
        self, method: bytes, target: bytes, headers: RawHeaders, digest: bytes, now: float
    ) -> RawHeaders:
        """Return the time, and the signature of all that must not change."""
        at = b"%.1f" % now
        return [(TIME, at), (SIGNATURE, signature(self._key, method, target, headers, digest, at))]

    def signs_otherwise(self, refusal: CredentialRefusal, correction: float) -> bool:
        """Never."""
        return False


def signature(
    key: bytes, method: bytes, target: bytes, headers: RawHeaders, digest: bytes, at: bytes
) -> bytes:
    """Return what a host expects."""
    signed = [method, target, at, digest]
    signed += [value_of(headers, name) or b"" for name in (b"host", b"content-type", b"x-framed-key")]
    return hmac.digest(key, b"\n".join(signed), "sha256").hex().encode()
