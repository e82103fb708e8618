"""Files of Google's credentials, with a key that is made once for each process."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

EMAIL = "robot@my-project.iam.gserviceaccount.com"
GOOGLE_TOKEN_URL = "http://oauth2.example/token"


@cache
def private_key() -> RSAPrivateKey:
    """The account's key."""
    return generate_private_key(65537, 2048)


@cache
def private_pem() -> str:
    """The account's key as its file has it."""
    return private_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


@cache
def public_pem() -> str:
    """What verifies its signatures."""
    return (
        private_key()
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        .decode("ascii")
    )


def service_account(**changes: object) -> dict[str, object]:
    """The key of a service account."""
    return {
        "type": "service_account",
        "project_id": "my-project",
        "private_key_id": "key-1",
        "private_key": private_pem(),
        "client_email": EMAIL,
        "token_uri": GOOGLE_TOKEN_URL,
        **changes,
    }


def authorized_user(**changes: object) -> dict[str, object]:
    """A person's own credentials."""
    return {
        "type": "authorized_user",
        "client_id": "user-client",
        "client_secret": "canary-user-secret",
        "refresh_token": "canary-user-refresh",
        "token_uri": GOOGLE_TOKEN_URL,
        **changes,
    }


def external_account(subject_file: str, **changes: object) -> dict[str, object]:
    """An identity of another cloud, whose token stands in a file."""
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "http://sts.example/v1/token",
        "credential_source": {"file": subject_file},
        **changes,
    }


def write_json(path: Path, fields: dict[str, object]) -> str:
    """Write a file of credentials; return its path."""
    path.write_text(json.dumps(fields))
    return str(path)
