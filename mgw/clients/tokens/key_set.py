"""The public keys of an issuer: a JSON Web Key Set (RFC 7517), and which key suits a token.

A set is read leniently and believed strictly: a key that cannot verify a signature is left out, the others
stay.  Private members, where an issuer publishes them by mistake, are not even decoded.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurve,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from msgspec import Struct

from mgw.clients.tokens.signatures import PublicKey, is_signature

MAX_SET_BYTES: Final = 1_048_576
MAX_KEYS: Final = 100
MAX_KEYS_OF_ID: Final = 4
"""So many keys with one id are tried with a token: an issuer may replace a key and keep its id."""
MIN_RSA_BITS: Final = 2048
"""RFC 7518 3.3."""
MAX_RSA_BITS: Final = 8192
_MAX_EXPONENT_BITS: Final = 64
"""OpenSSL refuses larger ones with large moduli, since they make a verification slow."""
_MAX_SHOWN_ID: Final = 64
_MAX_SHOWN_KEYS: Final = 5
_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]+").fullmatch

_RSA: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_ED25519: Final = frozenset({"EdDSA", "Ed25519"})
_CURVES: Final[Mapping[str, tuple[EllipticCurve, str]]] = MappingProxyType(
    {"P-256": (SECP256R1(), "ES256"), "P-384": (SECP384R1(), "ES384"), "P-521": (SECP521R1(), "ES512")}
)


class IssuerKey(Struct, frozen=True, eq=False):
    """A public key of an issuer."""

    key_id: str | None
    algorithms: frozenset[str]
    """Those that it suits, as tokens name them."""
    public: PublicKey
    thumbprint: bytes
    """The SHA-256 of its required members (RFC 7638), which no other key has."""

    def __repr__(self) -> str:
        return f"IssuerKey({shown_id(self.key_id)})"

    def has_signed(self, algorithm: str, signed: bytes, signature: bytes) -> bool:
        """Whether it has made a signature."""
        return algorithm in self.algorithms and is_signature(algorithm, self.public, signed, signature)


class KeySet:
    """The keys of an issuer at some time; it does not change."""

    __slots__ = ("_by_algorithm", "_by_id", "keys", "left_out")

    def __init__(self, keys: Iterable[IssuerKey], left_out: Iterable[str] = ()) -> None:
        self.keys = tuple(keys)
        self.left_out = tuple(left_out)
        """Why each key that cannot be used is left out; nothing of the key itself."""
        self._by_id: dict[tuple[str | None, str], tuple[IssuerKey, ...]] = {}
        self._by_algorithm: dict[str, dict[bytes, IssuerKey]] = {}
        for key in self.keys:
            for algorithm in key.algorithms:
                place = key.key_id, algorithm
                self._by_id[place] = (*self._by_id.get(place, ()), key)
                self._by_algorithm.setdefault(algorithm, {})[key.thumbprint] = key

    def suiting(self, algorithm: str, key_id: str | None) -> tuple[IssuerKey, ...]:
        """Return the keys that may have signed a token: few, and mostly one.

        :param key_id: the token's; without one only a key that alone suits the algorithm is returned.
        """
        if key_id is not None:
            return self._by_id.get((key_id, algorithm), ())
        keys = self._by_algorithm.get(algorithm, {})
        return tuple(keys.values()) if len(keys) == 1 else ()


class _Document(Struct, gc=False):
    keys: list[msgspec.Raw]


class _Jwk(Struct, gc=False):
    """The members of a key that matter here (RFC 7517 4, RFC 7518 6, RFC 8037 2)."""

    kty: Any = None  # Any: here and below, as somebody else has written them
    use: Any = None
    key_ops: Any = None
    alg: Any = None
    kid: Any = None
    crv: Any = None
    n: Any = None
    e: Any = None
    x: Any = None
    y: Any = None


class _Material(Struct, frozen=True, eq=False):
    """A public key, and what it can be used for."""

    public: PublicKey
    algorithms: frozenset[str]
    members: str
    """Its required members in the form that is hashed (RFC 7638 3.2)."""


class _UnusableKeyError(Exception):
    """Says why a key is left out."""


def parse_key_set(document: bytes) -> KeySet:
    """Read the keys of an issuer; 100 large ones take some milliseconds.

    :raises ValueError: if it is not a set of keys, or none of them can verify a signature.
    """
    if len(document) > MAX_SET_BYTES:
        raise ValueError(f"it is larger than {MAX_SET_BYTES} bytes")
    try:
        raws = msgspec.json.decode(document, type=_Document).keys
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise ValueError("it is not a JSON object with a list of keys") from None
    if len(raws) > MAX_KEYS:
        raise ValueError(f"it has {len(raws)} keys, more than {MAX_KEYS}")
    left_out: list[str] = []
    keys = list(_without_repeats(_read_keys(raws, left_out), left_out))
    if not keys:
        raise ValueError("; ".join(["none of its keys can verify a signature", *left_out[:_MAX_SHOWN_KEYS]]))
    return KeySet(keys, left_out)


def shown_id(key_id: str | None) -> str:
    """Return the id of a key for a message: short, and in printable characters of ASCII."""
    if key_id is None:
        return "without an id"
    return ascii(key_id if len(key_id) <= _MAX_SHOWN_ID else f"{key_id[:_MAX_SHOWN_ID]}...")


def _read_keys(raws: Iterable[msgspec.Raw], left_out: list[str]) -> Iterator[IssuerKey]:
    for position, raw in enumerate(raws, 1):
        try:
            jwk = msgspec.json.decode(raw, type=_Jwk)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            left_out.append(f"key {position}: it is not a JSON object that can be read")
            continue
        try:
            key = _read_key(jwk)
        except _UnusableKeyError as error:
            shown = shown_id(jwk.kid) if isinstance(jwk.kid, str) else str(position)
            left_out.append(f"key {shown}: {error}")
            continue
        if key is not None:
            yield key


def _without_repeats(keys: Iterable[IssuerKey], left_out: list[str]) -> Iterator[IssuerKey]:
    """Yield each key once, and few with one id and algorithm: each is tried with a token that names them."""
    seen: set[tuple[str | None, bytes, frozenset[str]]] = set()
    counts: Counter[tuple[str, str]] = Counter()
    for key in keys:
        this = key.key_id, key.thumbprint, key.algorithms
        if this in seen:
            continue
        seen.add(this)
        if key.key_id is not None:
            places = [(key.key_id, algorithm) for algorithm in key.algorithms]
            if any(counts[place] >= MAX_KEYS_OF_ID for place in places):
                left_out.append(f"key {shown_id(key.key_id)}: {MAX_KEYS_OF_ID} other keys have this id")
                continue
            counts.update(places)
        yield key


def _read_key(jwk: _Jwk) -> IssuerKey | None:
    """Read a key; ``None``: it is not for signatures, or not for those of tokens."""
    if jwk.kty == "oct":
        raise _UnusableKeyError("it is a shared secret (oct)")
    if jwk.use not in (None, "sig"):
        return None
    if jwk.key_ops is not None and not (isinstance(jwk.key_ops, list) and "verify" in jwk.key_ops):
        return None
    for name, value in (("kid", jwk.kid), ("alg", jwk.alg), ("kty", jwk.kty)):
        if not isinstance(value, str | None):
            raise _UnusableKeyError(f"{name} is not a string")
    read = _READ.get(jwk.kty)
    if read is None:
        raise _UnusableKeyError("its type (kty) is not supported")
    material = read(jwk)
    algorithms = material.algorithms
    if jwk.alg is not None and algorithms != _ED25519:
        algorithms &= {jwk.alg}
    elif jwk.alg is not None and jwk.alg not in _ED25519:  # RFC 9864: two names of one algorithm
        return None
    if not algorithms:
        return None
    return IssuerKey(jwk.kid, algorithms, material.public, sha256(material.members.encode()).digest())


def _read_rsa(jwk: _Jwk) -> _Material:
    modulus = int.from_bytes(_decode(jwk.n, "n"))
    exponent = int.from_bytes(_decode(jwk.e, "e"))
    bits = modulus.bit_length()
    if not MIN_RSA_BITS <= bits <= MAX_RSA_BITS:
        raise _UnusableKeyError(f"RSA with {bits} bits; from {MIN_RSA_BITS} to {MAX_RSA_BITS} are supported")
    if modulus % 2 == 0:
        raise _UnusableKeyError("its modulus (n) is even")
    if exponent < 3 or exponent % 2 == 0 or exponent.bit_length() > _MAX_EXPONENT_BITS:
        raise _UnusableKeyError("its exponent (e) is not an odd number from 3 up to 64 bits")
    try:
        public = RSAPublicNumbers(exponent, modulus).public_key()
    except ValueError:
        raise _UnusableKeyError("it is not a valid RSA key") from None
    return _Material(public, _RSA, f'{{"e":"{jwk.e}","kty":"RSA","n":"{jwk.n}"}}')


def _read_ec(jwk: _Jwk) -> _Material:
    found = _CURVES.get(jwk.crv) if isinstance(jwk.crv, str) else None
    if found is None:
        raise _UnusableKeyError("its curve (crv) is not supported")
    curve, algorithm = found
    x, y = _decode(jwk.x, "x"), _decode(jwk.y, "y")
    if not len(x) == len(y) == (curve.key_size + 7) // 8:  # RFC 7518 6.2.1.2
        raise _UnusableKeyError("a coordinate does not have the length of its curve")
    try:
        public = EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), curve).public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise _UnusableKeyError("its point is not on its curve") from None
    members = f'{{"crv":"{jwk.crv}","kty":"EC","x":"{jwk.x}","y":"{jwk.y}"}}'
    return _Material(public, frozenset({algorithm}), members)


def _read_okp(jwk: _Jwk) -> _Material:
    if jwk.crv != "Ed25519":
        raise _UnusableKeyError("its curve (crv) is not supported")
    x = _decode(jwk.x, "x")
    if len(x) != 32 or not _is_ed25519_point(int.from_bytes(x, "little")):
        raise _UnusableKeyError("its point is not a public key of Ed25519")
    members = f'{{"crv":"Ed25519","kty":"OKP","x":"{jwk.x}"}}'
    return _Material(Ed25519PublicKey.from_public_bytes(x), _ED25519, members)


_READ: Final[Mapping[str | None, Callable[[_Jwk], _Material]]] = MappingProxyType(
    {"RSA": _read_rsa, "EC": _read_ec, "OKP": _read_okp}
)


def _decode(value: object, name: str) -> bytes:
    """Decode base64url without padding."""
    if not isinstance(value, str) or _BASE64URL(value) is None or len(value) % 4 == 1:
        raise _UnusableKeyError(f"{name} is not base64url without padding")
    return a2b_base64(value.translate(_STANDARD_DIGITS) + "=" * (-len(value) % 4))


_STANDARD_DIGITS: Final = str.maketrans("-_", "+/")
_P: Final = 2**255 - 19
_D: Final = -121665 * pow(121666, -1, _P)


def _is_ed25519_point(encoded: int) -> bool:
    """Whether a number encodes a point (RFC 8032 5.1.3) that is not of small order.

    With a point of small order anyone could sign; the library does not check it.
    """
    y = encoded & (2**255 - 1)
    if y >= _P:
        return False
    square_of_x = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    # Doubling a point of order 8 gives y = 0, that is, x * x = -y * y.
    is_small = y == 0 or square_of_x == 0 or (square_of_x + y * y) % _P == 0
    return not is_small and pow(square_of_x, (_P - 1) // 2, _P) == 1
