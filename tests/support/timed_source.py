"""A made-up way to authenticate, second of two files: the source of its credentials."""

from __future__ import annotations

from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.nouns.secret import Secret
from tests.support.timed_auth import TimedSigner


class TimedKeys:
    """One key after the other: a refused one is replaced by the next."""

    signs = True

    def __init__(self, *keys: str) -> None:
        self.credentials = [
            Credential(b"", Secret(key), f"hash-{number}", signer=TimedSigner(key.encode()))
            for number, key in enumerate(keys)
        ]

    def ready(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
        """Return the first key."""
        return self.credentials[0]

    async def obtain(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
        """Return the first key."""
        return self.credentials[0]

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        """Return the next key."""
        index = self.credentials.index(credential) + 1
        return self.credentials[index] if index < len(self.credentials) else None

    def refusable(self, status: int) -> bool:
        """Whether another key may help."""
        return status == 401

    def close(self) -> None:
        """Nothing is held."""
