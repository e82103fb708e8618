"""Tokens of an issuer, valid and not, with keys that are made once for each process."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

from mgw.clients.tokens.key_set import KeySet, parse_key_set
from mgw.clients.tokens.token import UnverifiedToken, parse_token
from mgw.clients.tokens.verify import TokenEntry, TokenError, VerifiedToken, verify_token
from mgw.config.jwt import JwtSettings
from mgw.nouns.token_flaw import TokenFlaw

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | Ed25519PrivateKey
Json = dict[str, Any]

ISSUER: Final = "https://login.example.com/realms/main"
NOW: Final = 1_800_000_000.0
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
CURVES: Final[Mapping[str, tuple[ec.EllipticCurve, str]]] = {
    "ES256": (ec.SECP256R1(), "P-256"),
    "ES384": (ec.SECP384R1(), "P-384"),
    "ES512": (ec.SECP521R1(), "P-521"),
}
HASHES: Final[Mapping[str, HashAlgorithm]] = {"256": SHA256(), "384": SHA384(), "512": SHA512()}


def b64(data: bytes) -> str:
    """Encode in base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int, size: int | None = None) -> str:
    """Encode a number as keys have it."""
    return b64(value.to_bytes(size or (value.bit_length() + 7) // 8))


@cache
def key_for(algorithm: str, serial: int = 1) -> PrivateKey:
    """A key that suits an algorithm; with another serial number, another one."""
    assert serial
    if algorithm[:2] in ("RS", "PS"):
        return _rsa_key(serial)
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm][0])
    return _ed25519_key(serial)


@cache
def _rsa_key(serial: int) -> rsa.RSAPrivateKey:
    assert serial
    return rsa.generate_private_key(65537, 2048)


@cache
def _ed25519_key(serial: int) -> Ed25519PrivateKey:
    assert serial
    return Ed25519PrivateKey.generate()


def jwk_of(key: PrivateKey, **members: object) -> Json:
    """Return the public key as a set of keys has it, with further members."""
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e), **members}
    if isinstance(key, Ed25519PrivateKey):
        return {"kty": "OKP", "crv": "Ed25519", "x": b64(key.public_key().public_bytes_raw()), **members}
    point = key.public_key().public_numbers()
    size = (key.key_size + 7) // 8
    [curve] = [name for curve, name in CURVES.values() if curve.name == key.curve.name]
    return {"kty": "EC", "crv": curve, "x": number(point.x, size), "y": number(point.y, size), **members}


def keys_of(*jwks: Json) -> KeySet:
    """Return the keys of an issuer."""
    return parse_key_set(json.dumps({"keys": list(jwks)}).encode())


def raw_signature(der: bytes, size: int) -> bytes:
    """Return an ECDSA signature as tokens have it."""
    r, s = decode_dss_signature(der)
    return r.to_bytes(size) + s.to_bytes(size)


def signature(algorithm: str, key: PrivateKey, signed: bytes) -> bytes:
    """Sign with a key that suits the algorithm."""
    if isinstance(key, Ed25519PrivateKey):
        return key.sign(signed)
    digest = HASHES[algorithm[2:]]
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return raw_signature(key.sign(signed, ec.ECDSA(digest)), (key.key_size + 7) // 8)
    if algorithm.startswith("RS"):
        return key.sign(signed, padding.PKCS1v15(), digest)
    return key.sign(signed, padding.PSS(padding.MGF1(digest), digest.digest_size), digest)


def claims_with(**changes: object) -> Json:
    """Return claims that are valid but for the changes; ``None`` takes one away."""
    claims = {"iss": ISSUER, "aud": "mgw", "sub": "ann", "exp": NOW + 300} | changes
    return {name: value for name, value in claims.items() if value is not None}


def part(value: object) -> bytes:
    """Encode a part of a token: bytes as they are, all else as JSON."""
    return b64(value if isinstance(value, bytes) else json.dumps(value).encode()).encode()


def make_token(
    claims: Json | bytes | None = None,
    header: Json | bytes | None = None,
    *,
    algorithm: str = "RS256",
    key: PrivateKey | None = None,
) -> bytes:
    """Make a token.

    :param header: ``None``: one that says the algorithm, and ``k1`` as the id of the key.
    :param algorithm: with which it is signed, whatever the header says.
    """
    head = {"alg": algorithm, "kid": "k1"} if header is None else header
    signed = part(head) + b"." + part(claims_with() if claims is None else claims)
    return join(signed, signature(algorithm, key or key_for(algorithm), signed))


def join(signed: bytes, signed_by: bytes) -> bytes:
    """Put a token together."""
    return signed + b"." + b64(signed_by).encode()


def entry_with(**changes: object) -> TokenEntry:
    """Return the entry of the issuer, with other settings; all algorithms are accepted."""
    settings: Json = {
        "name": "corp",
        "issuer": ISSUER,
        "audience": "mgw",
        "algorithms": [name for name in ALGORITHMS if name != "Ed25519"],
        "rules": [{}],
    }
    return TokenEntry.of(JwtSettings.model_validate(settings | changes))


ENTRY: Final = entry_with()


def keys_for(algorithm: str = "RS256", **members: object) -> KeySet:
    """Return the issuer's keys: the one with which :func:`make_token` signs."""
    return keys_of(jwk_of(key_for(algorithm), **({"kid": "k1"} | members)))


def parsed(value: bytes) -> UnverifiedToken:
    """Take a token apart that is one."""
    token = parse_token(value)
    assert token is not None
    return token


def verified(
    value: bytes, entry: TokenEntry = ENTRY, keys: KeySet | None = None, now: float = NOW
) -> VerifiedToken:
    """Verify a token; without other keys, with those of RS256."""
    return verify_token(parsed(value), entry, keys_for() if keys is None else keys, now)


def flaw_of(
    value: bytes, entry: TokenEntry = ENTRY, keys: KeySet | None = None, now: float = NOW
) -> TokenFlaw | None:
    """Return what is wrong with a token; ``None``: it is valid."""
    try:
        verified(value, entry, keys, now)
    except TokenError as error:
        return error.flaw
    return None


def json_bytes(value: object) -> bytes:
    """Return JSON without white space."""
    return msgspec.json.encode(value)
