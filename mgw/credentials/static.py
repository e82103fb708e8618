"""Credentials that do not change: a configured key or token, the client's own, or none (contract 3.7 ff.)."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.config.auths import AuthMode
from mgw.config.provider import Provider
from mgw.credentials.provider import (
    NO_CREDENTIAL,
    ClientKey,
    Credential,
    CredentialProvider,
    CredentialRefusal,
)
from mgw.credentials.sources import CredentialSources
from mgw.credentials.state import CredentialState, State
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.kinds import KindRow
from mgw.nouns.secret import Secret, key_hash

_EMPTY_CREDENTIAL: Final = Credential(b"", Secret(""), "")


class SingleCredential:
    """Shared by sources that know no second credential, and at best one that depends on the client."""

    signs: bool = False

    async def refused(
        self,
        credential: Credential,  # noqa: ARG002  the interface's
        refusal: CredentialRefusal,  # noqa: ARG002  the interface's
    ) -> Credential | None:
        """There is no other credential."""
        return None

    def refusable(self, status: int) -> bool:  # noqa: ARG002  the interface's
        """Never: there is no other credential."""
        return False

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential | None:
        """It depends on the client."""
        return None

    def close(self) -> None:
        """Nothing is held open."""


class StaticCredential(SingleCredential):
    """A configured key or token."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    def describe(self, wall: float) -> CredentialState:  # noqa: ARG002  others'
        """Say that it is there."""
        return CredentialState(State.READY, self._credential.key_hash)

    @classmethod
    def of_kind(cls, key: Secret, row: KindRow) -> StaticCredential:
        """Carry a key in the header of the provider's kind."""
        return cls(_in_kinds_header(key, row))

    @classmethod
    def bearer(cls, token: Secret) -> StaticCredential:
        """Carry a token as ``Authorization: Bearer``, whatever the kind."""
        return cls(_as_authorization(token, b"Bearer"))

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return the configured credential."""
        return self._credential

    async def obtain(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return the configured credential."""
        return self._credential


class NoCredential(SingleCredential):
    """Nothing is sent, whoever asks: the provider wants no credential (``auth: none``)."""

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return a credential without a header."""
        return _EMPTY_CREDENTIAL

    async def obtain(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return a credential without a header."""
        return _EMPTY_CREDENTIAL


class ClientBearer(SingleCredential):
    """The client's own ``Authorization: Bearer``, whatever its family."""

    def __init__(self, provider: str) -> None:
        self._provider = provider

    async def obtain(
        self,
        client_key: ClientKey | None,
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return the client's bearer token.

        :raises GatewayError: ``NO_PROVIDER_KEY`` where the client sent none.
        """
        if client_key is None or client_key.scheme is None or client_key.scheme.lower() != b"bearer":
            message = (
                f"provider {self._provider!r} requires the client's own bearer token: "
                "send Authorization: Bearer with the provider's access token"
            )
            raise GatewayError(Reason.NO_PROVIDER_KEY, message)
        return replace(_as_authorization(client_key.value, client_key.scheme), of_client=True)


class ClientCredential(SingleCredential):
    """The client's own key, for a provider without one; only from a client of the provider's family."""

    def __init__(self, provider: str, row: KindRow) -> None:
        self._provider = provider
        self._row = row

    async def obtain(
        self,
        client_key: ClientKey | None,
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return the client's credential: ``Authorization`` as it came, others in the header of the kind.

        :raises GatewayError: ``NO_PROVIDER_KEY`` where there is none to send.
        """
        if client_key is None or not self._takes(client_key):
            message = (
                f"provider {self._provider!r} has no key configured, and the request has none "
                f"that may be sent to it: configure providers.{self._provider}.api_key or api_key_env, or "
                "auth: none if the provider needs no credential"
            )
            raise GatewayError(Reason.NO_PROVIDER_KEY, message)
        if client_key.scheme is not None:
            found = _as_authorization(client_key.value, client_key.scheme)
        else:
            found = _in_kinds_header(client_key.value, self._row)
        return replace(found, of_client=True)

    def _takes(self, key: ClientKey) -> bool:
        of_kind = key.kind_header is None or key.kind_header == self._row.key_header
        return of_kind and key.family is self._row.family


def _as_authorization(token: Secret, scheme: bytes) -> Credential:
    return Credential(b"Authorization", Secret(f"{scheme.decode('ascii')} {token.reveal()}"), key_hash(token))


def _in_kinds_header(key: Secret, row: KindRow) -> Credential:
    return Credential(row.key_header, Secret(row.key_prefix.decode("ascii") + key.reveal()), key_hash(key))


def make_credentials(provider: Provider, sources: CredentialSources) -> CredentialProvider:  # noqa: ARG001
    """Return what sends a provider's key or token, the client's own, or nothing."""
    match provider.auth:
        case AuthMode.NONE:
            return NoCredential()
        case AuthMode.CLIENT_BEARER:
            return ClientBearer(provider.name)
    if provider.api_key is None:
        return ClientCredential(provider.name, provider.row)
    if provider.auth is AuthMode.BEARER:
        return StaticCredential.bearer(provider.api_key)
    return StaticCredential.of_kind(provider.api_key, provider.row)


class OptionalCredential:
    """The provider's own credential, or none: for a request whose URL is its credential, as of an upload."""

    def __init__(self, provider: CredentialProvider) -> None:
        self._provider = provider

    @property
    def signs(self) -> bool:
        """Whether the provider's credential signs requests."""
        return self._provider.signs

    def ready(
        self,
        client_key: ClientKey | None,
        model: str | None = None,
    ) -> Credential | None:
        """Return the provider's credential, if it is at hand."""
        return self._provider.ready(client_key, model)

    async def obtain(
        self,
        client_key: ClientKey | None,
        model: str | None = None,
    ) -> Credential:
        """Return the provider's credential, or :data:`NO_CREDENTIAL`.

        :raises GatewayError: ``CREDENTIAL_SOURCE``.
        """
        try:
            return await self._provider.obtain(client_key, model)
        except GatewayError as error:
            if error.reason is not Reason.NO_PROVIDER_KEY:
                raise
            return NO_CREDENTIAL

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        """Return another credential where there was one."""
        if credential is NO_CREDENTIAL:
            return None
        return await self._provider.refused(credential, refusal)

    def refusable(self, status: int) -> bool:
        """Whether a status is worth asking :meth:`refused` about."""
        return self._provider.refusable(status)

    def close(self) -> None:
        """The provider is its owner's to close."""
