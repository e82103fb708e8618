"""Keys of an identity provider: made, shown as JSON Web Keys, used to sign and to verify.

Sources: RFC 7517 (keys), RFC 7518 (RSA and EC keys, RS, PS and ES signatures), RFC 8037 (Ed25519), RFC 9864
(the name ``Ed25519`` for what RFC 8037 calls ``EdDSA``).  Imported late: it takes ``cryptography``.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    SECP384R1,
    SECP521R1,
    EllipticCurvePrivateKey,
)
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as make_ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as make_rsa_key
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec import Struct

_PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey
_Hash = SHA256 | SHA384 | SHA512

KINDS: Final = ("rsa", "p-256", "p-384", "p-521", "ed25519")
_CURVES: Final[Mapping[str, SECP256R1 | SECP384R1 | SECP521R1]] = {
    "p-256": SECP256R1(),
    "p-384": SECP384R1(),
    "p-521": SECP521R1(),
}
_HASHES: Final[Mapping[str, _Hash]] = {"256": SHA256(), "384": SHA384(), "512": SHA512()}
KIND_OF_ALGORITHM: Final[Mapping[str, str]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "rsa"),
    "ES256": "p-256",
    "ES384": "p-384",
    "ES512": "p-521",
    **dict.fromkeys(("EdDSA", "Ed25519"), "ed25519"),
}
"""The algorithms of tokens, each with the kind of its key."""


class IdentityKey(Struct, frozen=True):
    """One private key and its ``kid``."""

    key_id: str
    private: _PrivateKey

    def sign(self, algorithm: str, data: bytes, *, is_der: bool = False) -> bytes:
        """Sign as a token's ``alg`` says; ``is_der`` leaves an ECDSA signature as X.509 has it."""
        if isinstance(self.private, RSAPrivateKey):
            return self.private.sign(data, _padding(algorithm), _HASHES[algorithm[2:]])
        if isinstance(self.private, Ed25519PrivateKey):
            return self.private.sign(data)
        signature = self.private.sign(data, ECDSA(_HASHES[algorithm[2:]]))
        if is_der:
            return signature
        size = _coordinate_size(self.private)
        return b"".join(number.to_bytes(size, "big") for number in decode_dss_signature(signature))

    def verifies(self, algorithm: str, data: bytes, signature: bytes) -> bool:
        """Whether this key has signed the data."""
        try:
            if isinstance(self.private, RSAPrivateKey):
                hashing = _HASHES[algorithm[2:]]
                self.private.public_key().verify(signature, data, _padding(algorithm), hashing)
            elif isinstance(self.private, Ed25519PrivateKey):
                self.private.public_key().verify(signature, data)
            else:
                size = _coordinate_size(self.private)
                if len(signature) != 2 * size:
                    return False
                numbers = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
                hashing = _HASHES[algorithm[2:]]
                self.private.public_key().verify(encode_dss_signature(*numbers), data, ECDSA(hashing))
        except InvalidSignature:
            return False
        return True

    def public_pem(self) -> bytes:
        """The public key as PEM."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def public_jwk(self) -> dict[str, str]:
        """The public key as a JSON Web Key, which binds it to no algorithm."""
        said = {"kid": self.key_id, "use": "sig"}
        if isinstance(self.private, RSAPrivateKey):
            rsa = self.private.public_key().public_numbers()
            size = self.private.key_size // 8
            return {**said, "kty": "RSA", "n": _number(rsa.n, size), "e": _number(rsa.e, 3)}
        if isinstance(self.private, Ed25519PrivateKey):
            raw = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
            return {**said, "kty": "OKP", "crv": "Ed25519", "x": base64url(raw)}
        point, size = self.private.public_key().public_numbers(), _coordinate_size(self.private)
        curve = f"P-{self.private.key_size}"
        return {**said, "kty": "EC", "crv": curve, "x": _number(point.x, size), "y": _number(point.y, size)}


KeyRing = Mapping[str, IdentityKey]
"""A key of each kind."""


def make_ring(name: str) -> KeyRing:
    """Make a key of each kind, with ids such as ``rsa-NAME``.  Takes up to a second: call it in a thread."""
    return {kind: IdentityKey(f"{kind}-{name}", _make_private_key(kind)) for kind in KINDS}


def base64url(data: bytes) -> str:
    """Base64url without padding (RFC 7515 2)."""
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def decode_base64url(text: str) -> bytes:
    """What was encoded so.  Raises ValueError."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _make_private_key(kind: str) -> _PrivateKey:
    if kind == "rsa":
        return make_rsa_key(65537, 2048)
    return Ed25519PrivateKey.generate() if kind == "ed25519" else make_ec_key(_CURVES[kind])


def _padding(algorithm: str) -> PKCS1v15 | PSS:
    if algorithm.startswith("RS"):
        return PKCS1v15()
    hashing = _HASHES[algorithm[2:]]
    return PSS(MGF1(hashing), hashing.digest_size)  # RFC 7518 3.5: the salt is as long as the hash


def _coordinate_size(key: EllipticCurvePrivateKey) -> int:
    return (key.key_size + 7) // 8


def _number(number: int, size: int) -> str:
    return base64url(number.to_bytes(size, "big"))
