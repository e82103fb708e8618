"""An issuer of tokens in memory: it signs them, and has the keys that verify them."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from twisted.internet.defer import Deferred

from mgw.clients.tokens.key_set import KeySet, parse_key_set

ISSUER = "https://login.example.com"


def encoded(value: bytes) -> str:
    """Return bytes in base64url without padding."""
    return urlsafe_b64encode(value).rstrip(b"=").decode()


def new_key() -> EllipticCurvePrivateKey:
    """Return a new private key."""
    return generate_private_key(SECP256R1())


@dataclass
class TokenIssuer:
    """Signs with the newest of its keys, each of which is called by its number."""

    issuer: str = ISSUER
    audience: str = "mgw"
    keys: list[EllipticCurvePrivateKey] = field(default_factory=lambda: [new_key()])

    def rotate(self) -> None:
        """Sign with another key from now on."""
        self.keys.append(new_key())

    def token(
        self,
        subject: str,
        expires: float,
        number: int = -1,
        *,
        key_id: str | None = None,
        **claims: Any,  # Any: JSON
    ) -> str:
        """Return a token that is valid until ``expires``.

        :param key_id: what the token calls the key that signs it.
        """
        number %= len(self.keys)
        header = {"alg": "ES256", "kid": str(number) if key_id is None else key_id}
        stated = {"iss": self.issuer, "aud": self.audience, "sub": subject, "exp": expires, **claims}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, stated))
        r, s = decode_dss_signature(self.keys[number].sign(signed.encode(), ECDSA(SHA256())))
        return f"{signed}.{encoded(r.to_bytes(32) + s.to_bytes(32))}"

    def key_set(self) -> KeySet:
        """Return the keys that verify its tokens."""
        return parse_key_set(self.document({str(number): number for number in range(len(self.keys))}))

    def document(self, numbers: Mapping[str, int]) -> bytes:
        """Return a set of keys as an issuer publishes it: the numbers of keys by their ids."""
        found = []
        for key_id, number in numbers.items():
            public = self.keys[number].public_key().public_numbers()
            x, y = encoded(public.x.to_bytes(32)), encoded(public.y.to_bytes(32))
            found.append({"kty": "EC", "crv": "P-256", "kid": key_id, "x": x, "y": y})
        return json.dumps({"keys": found}).encode()


@dataclass
class FakeKeys:
    """The keys of issuers as a test has them."""

    known: dict[str, KeySet] = field(default_factory=dict)
    asked: list[Deferred[None]] = field(default_factory=list)
    may_ask: bool = False
    is_first: bool = False
    """Whether the first fetch is under way."""
    looked_up: int = 0
    """How often somebody wanted the keys, to check a token."""

    def keys_of(self, entry: str) -> KeySet | None:
        self.looked_up += 1
        return self.known.get(entry)

    def ask(self, entry: str) -> Deferred[None] | None:
        if not self.may_ask:
            return None
        self.asked.append(Deferred())
        return self.asked[-1]

    def first(self, entry: str) -> Deferred[None] | None:
        if not self.is_first:
            return None
        self.asked.append(Deferred())
        return self.asked[-1]
