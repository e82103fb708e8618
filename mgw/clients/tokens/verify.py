"""Whether a token is valid, and what its client may do.

The checks have a fixed order, and the first that fails is the reason: form, algorithm, key, signature, times,
audience, client, rule (RFC 7519 7.2, RFC 8725 3).  Before the signature holds, only what finds its key is
believed.  Keys in the header (``jku``, ``jwk``, ``x5u``, ``x5c``) are never used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final, Protocol

from msgspec import Struct

from mgw.clients.tokens.claims import Claim, Condition, Rule
from mgw.clients.tokens.token import UnverifiedToken
from mgw.config.groups import MAX_TAG_CHARACTERS
from mgw.config.jwt import JwtSettings
from mgw.nouns.token_flaw import TokenFlaw

MAX_CLIENT_CHARACTERS: Final = 256
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""C0, DEL, C1, line and paragraph separators, and what reverses the direction of the text around it."""
_EDDSA: Final = frozenset({"EdDSA", "Ed25519"})


class VerifyingKey(Protocol):
    """A public key."""

    @property
    def thumbprint(self) -> bytes:
        """What no other key has."""
        ...

    def has_signed(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether it has made a signature."""
        ...


class VerifyingKeys(Protocol):
    """The keys of an issuer."""

    def suiting(self, algorithm: str, key_id: str | None) -> Sequence[VerifyingKey]:
        """Return the keys that may have signed a token."""
        ...


class TokenError(Exception):
    """A token is not accepted.

    :param what: the reason as a sentence for the client, without a value of token or configuration.
    """

    def __init__(self, flaw: TokenFlaw, what: str) -> None:
        super().__init__(what)
        self.flaw = flaw
        self.what = what


class TokenEntry(Struct, frozen=True, eq=False):
    """The settings of an issuer, ready to check its tokens."""

    name: str
    issuer: str
    audiences: frozenset[str]
    algorithms: frozenset[str]
    types: frozenset[str] | None
    """In lower case, without ``application/``."""
    client: Claim
    clock_skew: float
    rules: tuple[Rule, ...]
    tags: tuple[tuple[str, Claim], ...]

    @classmethod
    def of(cls, settings: JwtSettings) -> TokenEntry:
        """Compile the settings."""
        algorithms = frozenset(map(str, settings.algorithms))
        return cls(
            name=settings.name,
            issuer=settings.issuer,
            audiences=frozenset(settings.audience),
            algorithms=algorithms | _EDDSA if algorithms & _EDDSA else algorithms,
            types=None if settings.typ is None else frozenset(map(_media_type, settings.typ)),
            client=Claim.of(settings.client),
            clock_skew=settings.clock_skew,
            rules=tuple(
                Rule(
                    tuple(Condition.of(claim, values) for claim, values in (rule.when or {}).items()),
                    tuple(rule.groups),
                )
                for rule in settings.rules
            ),
            tags=tuple((name, Claim.of(claim)) for name, claim in settings.tags.items()),
        )


class VerifiedToken(Struct, frozen=True, eq=False):
    """What follows from a valid token."""

    entry: str
    """The name of its issuer's entry."""
    value: str
    """What names the client."""
    groups: tuple[str, ...]
    """Those of the first rule that holds."""
    tags: tuple[tuple[str, str], ...]
    until: float
    """The first moment at which it is no longer valid, in Unix seconds."""
    expires: float
    """What the token itself says of that: without the skew that is allowed."""
    thumbprint: bytes
    """That of the key that has signed it."""

    def __repr__(self) -> str:
        return f"VerifiedToken({self.entry!r})"


def check_before_key(token: UnverifiedToken, entry: TokenEntry) -> None:
    """Check what needs no key: form and algorithm.

    :raises TokenError: ``MALFORMED`` or ``ALGORITHM``.
    """
    header = token.header
    if token.issuer != entry.issuer:
        raise _malformed("another issuer has issued it")
    if token.flaw is not None:
        raise _malformed(token.flaw)
    if "crit" in header:  # RFC 7515 4.1.11: none of its extensions is known here
        raise _malformed("it has critical extensions")
    if not isinstance(header.get("kid", ""), str):
        raise _malformed("the id of its key is not a string")
    if entry.types is not None:
        kind = header.get("typ")
        if not isinstance(kind, str) or _media_type(kind) not in entry.types:
            raise _malformed("its type is not accepted here")
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in entry.algorithms:
        raise TokenError(TokenFlaw.ALGORITHM, "the algorithm of the token's signature is not accepted here")


def verify_token(
    token: UnverifiedToken, entry: TokenEntry, keys: VerifyingKeys | None, now: float
) -> VerifiedToken:
    """Check everything.

    :param keys: those of the issuer; ``None``: they are not known.
    :param now: Unix seconds.
    :raises TokenError: with the first check that fails.
    """
    check_before_key(token, entry)
    thumbprint = _check_signature(token, keys)
    claims = token.claims
    expires = _check_times(claims, entry.clock_skew, now)
    _check_audience(claims.get("aud"), entry.audiences)
    value = entry.client.find(claims)
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= MAX_CLIENT_CHARACTERS
        or _CONTROL.search(value) is not None
    ):
        raise TokenError(TokenFlaw.CLAIMS, "the token does not name its client in the claim that is expected")
    for rule in entry.rules:
        if rule.holds(claims):
            tags, until = _tags(claims, entry), expires + entry.clock_skew
            return VerifiedToken(entry.name, value, rule.groups, tags, until, expires, thumbprint)
    raise TokenError(TokenFlaw.NO_RULE, "the token is valid, but its claims do not grant access")


def _check_signature(token: UnverifiedToken, keys: VerifyingKeys | None) -> bytes:
    """Return the thumbprint of the key that has signed."""
    if keys is None:
        raise TokenError(TokenFlaw.KEYS_UNAVAILABLE, "the keys of the token's issuer are not available")
    algorithm = token.header["alg"]
    found = keys.suiting(algorithm, token.key_id)
    if not found:
        raise TokenError(TokenFlaw.UNKNOWN_KEY, "the key of the token's signature is not known")
    for key in found:
        if key.has_signed(algorithm, token.signed, token.signature):
            return key.thumbprint
    raise TokenError(TokenFlaw.SIGNATURE, "the token's signature is not valid")


def _check_times(claims: dict[str, Any], skew: float, now: float) -> float:
    """Return when the token expires, as it says itself."""
    expires = _seconds(claims.get("exp"))
    if expires is None:
        raise TokenError(TokenFlaw.EXPIRED, "the token does not say as a number when it expires")
    if not now < expires + skew:
        raise TokenError(TokenFlaw.EXPIRED, "the token has expired")
    if "nbf" in claims:
        begins = _seconds(claims["nbf"])
        if begins is None or not begins - skew <= now:
            raise TokenError(TokenFlaw.NOT_YET_VALID, "the token is not valid yet")
    return expires


def _seconds(value: object) -> float | None:
    """Return a NumericDate (RFC 7519 2); ``None``: it is something else."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if isfinite(seconds) else None


def _check_audience(audience: object, accepted: frozenset[str]) -> None:
    audiences = audience if isinstance(audience, list) else [audience]
    if not all(isinstance(one, str) for one in audiences) or accepted.isdisjoint(audiences):
        raise TokenError(TokenFlaw.AUDIENCE, "the token is for another audience")


def _tags(claims: dict[str, Any], entry: TokenEntry) -> tuple[tuple[str, str], ...]:
    found = ((name, _tag(claim.find(claims))) for name, claim in entry.tags)
    return tuple((name, value) for name, value in found if value is not None)


def _tag(value: object) -> str | None:
    """Return the text of a tag; control characters are replaced, as those of the configuration have none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)[:MAX_TAG_CHARACTERS]
    return _CONTROL.sub("\ufffd", value[:MAX_TAG_CHARACTERS]) if isinstance(value, str) else None


def _media_type(kind: str) -> str:
    """Return a type in lower case, without ``application/`` (RFC 7515 4.1.9)."""
    return kind.lower().removeprefix("application/")


def _malformed(why: str) -> TokenError:
    return TokenError(TokenFlaw.MALFORMED, f"the token is malformed: {why}")
