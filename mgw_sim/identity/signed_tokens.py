"""Tokens that an identity provider signs, good ones and flawed ones, and whether one is its own.

Sources: RFC 7515 (the compact form, ``crit``), RFC 7519 (claims), RFC 8725 (what goes wrong with tokens).
Imported late, as the keys are.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from mgw_sim.api import dump_json
from mgw_sim.identity.keys import (
    KIND_OF_ALGORITHM,
    IdentityKey,
    KeyRing,
    base64url,
    decode_base64url,
)

_LONG_AGO: Final = 7200
"""Seconds that no tolerance for clocks reaches."""
FOREIGN_FLAWS: Final = frozenset({"foreign-key", "jwk", "jku"})
"""The flaws that take a key which the provider does not have."""
_TOO_LONG: Final = 16384
"""Bytes of padding of a token that is too long for many servers."""


class WantedToken(Struct, frozen=True, forbid_unknown_fields=True):
    """What a test asks for."""

    claims: dict[str, Any] = {}
    """Added to ``iss``, ``sub``, ``aud``, ``iat`` and ``exp``, or in their place."""
    alg: str = "RS256"
    kid: str | None = None
    """The key that signs, by its id; if no key has it, it only stands in the header."""
    typ: str | None = "JWT"
    expires_in: int | float = 3600
    flaw: str | None = None
    header: dict[str, Any] = {}
    """Further members of the header."""
    without: list[str] = []
    """Claims that are left out."""
    payload: str | None = None
    """Signed in place of the claims, as it stands."""


@dataclass(slots=True)
class _Draft:
    """A token before it is written."""

    wanted: WantedToken
    header: dict[str, Any]
    claims: dict[str, Any]
    key: IdentityKey
    foreign: IdentityKey
    """A key of the same kind that the provider does not have."""
    issuer: str
    now: int
    sign: Callable[[bytes], bytes]

    def render(self) -> str:
        """Write and sign it."""
        payload = dump_json(self.claims) if self.wanted.payload is None else self.wanted.payload.encode()
        signed = f"{base64url(dump_json(self.header))}.{base64url(payload)}"
        return f"{signed}.{base64url(self.sign(signed.encode()))}"


def make_token(
    wanted: WantedToken, rings: Iterable[KeyRing], foreign: KeyRing, issuer: str, now: float
) -> str:
    """Sign a token with a key of the first ring, or the one in any ring that has the wanted ``kid``.

    Raises ValueError for an algorithm or a flaw that does not exist here.
    """
    kind = KIND_OF_ALGORITHM.get(wanted.alg)
    if kind is None:
        raise ValueError(f"unknown alg; expected one of {', '.join(KIND_OF_ALGORITHM)}")
    keys = [ring[kind] for ring in rings]
    key = next((key for key in keys if key.key_id == wanted.kid), keys[0])
    header = {"alg": wanted.alg, "kid": wanted.kid or key.key_id}
    if wanted.typ is not None:
        header["typ"] = wanted.typ
    issued = int(now)
    usual = {"iss": issuer, "sub": "alice", "aud": "mgw", "iat": issued, "exp": issued + wanted.expires_in}
    claims = {name: value for name, value in (usual | wanted.claims).items() if name not in wanted.without}
    draft = _Draft(
        wanted=wanted,
        header=header | wanted.header,
        claims=claims,
        key=key,
        foreign=foreign[kind],
        issuer=issuer,
        now=issued,
        sign=lambda data: key.sign(wanted.alg, data),
    )
    if wanted.flaw is not None:
        flaw = FLAWS.get(wanted.flaw)
        if flaw is None:
            raise ValueError(f"unknown flaw; expected one of {', '.join(FLAWS)}")
        flaw(draft)
    return draft.render()


def read_own_token(token: str, rings: Iterable[KeyRing], issuer: str, now: float) -> dict[str, Any]:
    """Return the claims of a token of this provider that is valid now.  Raises ValueError."""
    try:
        signed, _, signature = token.rpartition(".")
        header, claims = (json.loads(decode_base64url(part)) for part in signed.split("."))
        algorithm, key_id = header["alg"], header.get("kid")
        kind = KIND_OF_ALGORITHM[algorithm]
        raw = decode_base64url(signature)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ValueError("this is not a token that could be signed here") from None
    keys = [ring[kind] for ring in rings if ring[kind].key_id == key_id]
    if "crit" in header or not any(key.verifies(algorithm, signed.encode(), raw) for key in keys):
        raise ValueError("no key in the key set has signed this token")
    if not isinstance(claims, dict) or claims.get("iss") != issuer:
        raise ValueError("this token has another issuer")
    expires = claims.get("exp")
    if not isinstance(expires, int | float) or not expires > now:  # NaN is not greater, nor is true
        raise ValueError("this token has expired")
    return claims


def _flaw_none(draft: _Draft) -> None:
    draft.header["alg"] = "none"
    draft.sign = lambda _: b""


def _flaw_no_signature(draft: _Draft) -> None:
    draft.sign = lambda _: b""


def _flaw_hs256(draft: _Draft) -> None:
    draft.header["alg"] = "HS256"
    draft.sign = lambda data: hmac.digest(draft.key.public_pem(), data, hashlib.sha256)


def _flaw_bad_signature(draft: _Draft) -> None:
    sign = draft.sign

    def spoil(data: bytes) -> bytes:
        *begin, last = sign(data)
        return bytes([*begin, last ^ 1])

    draft.sign = spoil


def _flaw_foreign_key(draft: _Draft) -> None:
    draft.sign = lambda data: draft.foreign.sign(draft.wanted.alg, data)


def _flaw_jwk(draft: _Draft) -> None:
    _flaw_foreign_key(draft)
    draft.header["jwk"] = draft.foreign.public_jwk()


def _flaw_jku(draft: _Draft) -> None:
    _flaw_foreign_key(draft)
    address = f"{draft.issuer}/foreign-jwks"
    draft.header |= {"kid": draft.foreign.key_id, "jku": address, "x5u": address}


def _flaw_crit(draft: _Draft) -> None:
    draft.header |= {"crit": ["sim"], "sim": True}


def _flaw_der(draft: _Draft) -> None:
    draft.sign = lambda data: draft.key.sign(draft.wanted.alg, data, is_der=True)


def _flaw_no_kid(draft: _Draft) -> None:
    del draft.header["kid"]


def _flaw_unknown_kid(draft: _Draft) -> None:
    draft.header["kid"] = f"unknown-{secrets.token_hex(4)}"


def _flaw_expired(draft: _Draft) -> None:
    draft.claims["exp"] = draft.now - _LONG_AGO


def _flaw_not_yet_valid(draft: _Draft) -> None:
    draft.claims["nbf"] = draft.now + _LONG_AGO


def _flaw_wrong_issuer(draft: _Draft) -> None:
    draft.claims["iss"] = "https://another-issuer.example"


def _flaw_wrong_audience(draft: _Draft) -> None:
    draft.claims["aud"] = "another-audience"


def _flaw_too_long(draft: _Draft) -> None:
    draft.claims["padding"] = "x" * _TOO_LONG


FLAWS: Final[Mapping[str, Callable[[_Draft], None]]] = {
    "none": _flaw_none,
    "no-signature": _flaw_no_signature,
    "hs256-with-public-key": _flaw_hs256,
    "bad-signature": _flaw_bad_signature,
    "foreign-key": _flaw_foreign_key,
    "jwk": _flaw_jwk,
    "jku": _flaw_jku,
    "crit": _flaw_crit,
    "der": _flaw_der,
    "no-kid": _flaw_no_kid,
    "unknown-kid": _flaw_unknown_kid,
    "expired": _flaw_expired,
    "not-yet-valid": _flaw_not_yet_valid,
    "wrong-issuer": _flaw_wrong_issuer,
    "wrong-audience": _flaw_wrong_audience,
    "too-long": _flaw_too_long,
}
"""What can be wrong with a token that was asked for.  docs/simulator.rst explains each."""
