"""Signed assertions (RFC 7515, RFC 7519): the simulator's service account, and whether it signed one."""

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

EMAIL: Final = "robot@simulator.example"
KEY_ID: Final = "simulator-1"
_MOST_SECONDS: Final = 3600
_SKEW_SECONDS: Final = 300


@dataclass(slots=True)
class SigningKey:
    """The key of the simulator's service account, made when it is first asked for."""

    _key: RSAPrivateKey | None = None

    def file(self, token_uri: str) -> dict[str, str]:
        """The key file, as Google's console writes it."""
        if self._key is None:
            self._key = generate_private_key(65537, 2048)
        pem = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return {
            "type": "service_account",
            "project_id": "simulator",
            "private_key_id": KEY_ID,
            "private_key": pem.decode("ascii"),
            "client_email": EMAIL,
            "token_uri": token_uri,
        }

    def accepts(self, assertion: str, audience: str, now: float) -> bool:
        """Whether an assertion is the account's own and good now; an opaque text is anybody's."""
        if assertion.count(".") != 2:
            return True
        claims = read_assertion(assertion)
        signed, _, signature = assertion.rpartition(".")
        if self._key is None or claims.get("iss") != EMAIL or claims.get("aud") != audience:
            return False
        try:
            self._key.public_key().verify(_decoded(signature), signed.encode("ascii"), PKCS1v15(), SHA256())
            issued, expires = float(claims["iat"]), float(claims["exp"])
        except (InvalidSignature, KeyError, TypeError, ValueError):
            return False
        return issued - _SKEW_SECONDS <= now < expires <= issued + _MOST_SECONDS


def read_assertion(assertion: str) -> dict[str, Any]:
    """The claims of an assertion, signed by whomever; none where it is something else."""
    parts = assertion.split(".")
    if len(parts) != 3:
        return {}
    try:
        claims = json.loads(_decoded(parts[1]))
    except ValueError:
        return {}
    return claims if isinstance(claims, dict) else {}


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        raise ValueError("no base64url") from None
