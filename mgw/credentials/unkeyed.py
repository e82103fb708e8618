"""A request whose address is its credential, such as a chunk of a resumable upload."""

from __future__ import annotations

from mgw.credentials.provider import NOBODY, ClientKey, Credential, CredentialProvider
from mgw.errors import GatewayError, Reason


class Unkeyed:
    """The provider's own source, and nobody where it has nothing to send."""

    def __init__(self, source: CredentialProvider) -> None:
        self._source = source

    async def obtain(self, client_key: ClientKey | None) -> Credential:
        """Return the provider's credential, or :data:`NOBODY`.

        :raises GatewayError: ``CREDENTIAL_SOURCE``.
        """
        try:
            return await self._source.obtain(client_key)
        except GatewayError as error:
            if error.reason is not Reason.NO_PROVIDER_KEY:
                raise
            return NOBODY

    async def refused(
        self, credential: Credential, status: int, retry_after: float | None
    ) -> Credential | None:
        """Return another credential where there was one."""
        if credential is NOBODY:
            return None
        return await self._source.refused(credential, status, retry_after)

    def refusable(self, status: int) -> bool:
        """Whether a status is worth asking :meth:`refused` about."""
        return self._source.refusable(status)

    def close(self) -> None:
        """The source is its owner's to close."""
