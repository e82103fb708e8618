"""The signatures of tokens: RSA, ECDSA and Ed25519 (RFC 7518 3, RFC 8037 3.1, RFC 9864)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS, AsymmetricPadding, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512, HashAlgorithm

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey
_Verify = Callable[[PublicKey, bytes, bytes], None]


def is_signature(algorithm: str, key: PublicKey, signed: bytes, signature: bytes) -> bool:
    """Whether a signature of a key that suits the algorithm is valid."""
    try:
        _VERIFY[algorithm](key, signed, signature)
    except InvalidSignature:
        return False
    return True


def _rsa(padding: AsymmetricPadding, digest: HashAlgorithm) -> _Verify:
    def verify(key: PublicKey, signed: bytes, signature: bytes) -> None:
        if not isinstance(key, RSAPublicKey) or len(signature) != (key.key_size + 7) // 8:
            raise InvalidSignature
        key.verify(signature, signed, padding, digest)

    return verify


def _pss(digest: HashAlgorithm) -> _Verify:
    # RFC 7518 3.5: the salt is as long as the hash, and MGF1 uses the same hash.
    return _rsa(PSS(MGF1(digest), PSS.DIGEST_LENGTH), digest)


def _ecdsa(curve: str, digest: HashAlgorithm) -> _Verify:
    algorithm = ECDSA(digest)

    def verify(key: PublicKey, signed: bytes, signature: bytes) -> None:
        if not isinstance(key, EllipticCurvePublicKey) or key.curve.name != curve:
            raise InvalidSignature
        size = (key.key_size + 7) // 8
        if len(signature) != 2 * size:  # RFC 7518 3.4: two numbers of fixed length, not DER
            raise InvalidSignature
        r, s = int.from_bytes(signature[:size]), int.from_bytes(signature[size:])
        key.verify(encode_dss_signature(r, s), signed, algorithm)

    return verify


def _ed25519(key: PublicKey, signed: bytes, signature: bytes) -> None:
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidSignature
    key.verify(signature, signed)


_VERIFY: Final[Mapping[str, _Verify]] = MappingProxyType(
    {
        "RS256": _rsa(PKCS1v15(), SHA256()),
        "RS384": _rsa(PKCS1v15(), SHA384()),
        "RS512": _rsa(PKCS1v15(), SHA512()),
        "PS256": _pss(SHA256()),
        "PS384": _pss(SHA384()),
        "PS512": _pss(SHA512()),
        "ES256": _ecdsa("secp256r1", SHA256()),
        "ES384": _ecdsa("secp384r1", SHA384()),
        "ES512": _ecdsa("secp521r1", SHA512()),
        "EdDSA": _ed25519,
        "Ed25519": _ed25519,
    }
)
