"""The signature of one request: each attempt gets one of its own, last before its bytes go out.

What is signed may no longer change: neither the target nor a header that the signature covers, nor a byte of
the body.  So nothing of a signed head is kept.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from msgspec import Struct

from mgw.credentials.provider import Signer
from mgw.wire.headers import RawHeaders, value_of

NO_BODY: Final = sha256(b"").digest()
"""The digest of a body that is not there."""


class Signing(Struct, frozen=True):
    """What a signature covers beside the head."""

    signer: Signer
    digest: bytes
    """The SHA-256 of the body as it is sent."""
    now: float
    """Unix seconds."""
    correction: float = 0.0
    """Seconds that the signer adds to them."""

    def __repr__(self) -> str:  # signers hold keys
        return f"Signing(at {self.now})"

    def signed(self, method: bytes, target: bytes, headers: RawHeaders, host: bytes) -> RawHeaders:
        """Return the headers of a request with those that sign it.

        :param host: what ``Host`` will say, which is the connection's own to send.
        """
        added = self.signer.sign(method, target, [(b"Host", host), *headers], self.digest, self.now)
        names = self.signer.names
        return [*[pair for pair in headers if pair[0].lower() not in names], *added]

    def note_answer(self, headers: RawHeaders, received_at: float) -> None:
        """Have the signer learn of the host's clock, unless a cache answered.

        :param received_at: unix seconds at which the head of the answer came.
        """
        date = value_of(headers, b"date")
        if date is not None and value_of(headers, b"age") is None:
            self.signer.clock.note(date, self.now, received_at)
