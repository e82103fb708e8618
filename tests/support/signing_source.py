"""A source of AWS's keys that asks nobody: those that it was given, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.errors import EXPIRED
from mgw.credentials.aws.keys import AwsKeys
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.nouns.secret import Secret, key_hash
from mgw.wire.amazon_errors import error_type

REGION = "eu-central-1"
SERVICE = "bedrock"


class SigningSource:
    """Signs with the first of the keys until a host says that it has expired.

    :param is_expired: says which refusals lead to the next key.
    """

    signs = True

    def __init__(
        self,
        *keys: AwsKeys,
        provider: str = "main",
        is_expired: Callable[[str | None], bool] = EXPIRED.__contains__,
    ) -> None:
        self.clock = HostClock(provider)
        self.refusals: list[str | None] = []
        """What :meth:`refused` was told, by AWS's names."""
        self.statuses = frozenset({400, 403})
        """Those that :meth:`refused` is worth asking about."""
        self._is_expired = is_expired
        self._credentials = [self._credential(one) for one in keys]

    def _credential(self, keys: AwsKeys) -> Credential:
        added = keys.secret_access_key, keys.session_token
        return Credential(
            b"",
            Secret(""),
            key_hash(keys.access_key_id),
            signer=SigV4(keys, REGION, SERVICE, self.clock),
            added=tuple(secret for secret in added if secret is not None),
        )

    def ready(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
        """Return the key in use."""
        return self._credentials[0]

    async def obtain(self, client_key: ClientKey | None, model: str | None = None) -> Credential:
        """Return the key in use."""
        return self._credentials[0]

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        """Go over to the next key."""
        self.refusals.append(error_type(refusal.headers, refusal.body))
        if not self._is_expired(self.refusals[-1]):
            return None
        if credential is self._credentials[0] and len(self._credentials) > 1:
            self._credentials.pop(0)
        return None if credential is self._credentials[0] else self._credentials[0]

    def refusable(self, status: int) -> bool:
        """Whether another key may help."""
        return status in self.statuses

    def close(self) -> None:
        """Nothing is held."""
