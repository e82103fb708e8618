"""Keys of AWS as a source gives them, and the credentials that they sign for one service in one region.

Keys know nothing of whom they are used for: providers in several regions may share them.  Each makes
credentials of its own of them, once for each keys.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, ClassVar, Final, Protocol

from twisted.internet.defer import Deferred

from mgw.credentials.aws.errors import EXPIRED, STATUSES
from mgw.credentials.aws.found_keys import NoKeys
from mgw.credentials.aws.keys import (
    AssumedRole,
    AwsKeys,
    ContainerEndpoint,
    FixedKeys,
    InstanceMetadata,
    KeySource,
    WebIdentity,
)
from mgw.credentials.aws.obtained import keys_of
from mgw.credentials.aws.signer import SigV4
from mgw.credentials.provider import ClientKey, Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.renewed_token import Renewal
from mgw.credentials.state import CredentialState, State
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.secret import Secret, key_hash
from mgw.wire.amazon_errors import error_type

RENEW_SECONDS: Final = 300.0
"""How long before their end keys are renewed."""


class KeyCredential(Credential, frozen=True):
    """Keys that sign nothing yet; the value is the secret one."""

    keys: AwsKeys = AwsKeys("", Secret(""))


def key_credential(keys: AwsKeys, hashed: str) -> KeyCredential:
    """Return keys as a credential.

    :param hashed: how events name them.
    """
    return KeyCredential(b"", keys.secret_access_key, hashed, added=_sent_of(keys), keys=keys)


def refuses_keys(refusal: CredentialRefusal) -> bool:
    """Whether a response says that its request was signed with keys that are not, or no longer, good."""
    return refusal.status in STATUSES and error_type(refusal.headers, refusal.body) in EXPIRED


def _credential_of(response: TokenResponse, hashed: str) -> Credential:
    return key_credential(keys_of(response), hashed)


KEY_RENEWAL: Final = Renewal(
    _credential_of, signs=True, seconds=RENEW_SECONDS, statuses=STATUSES, refuses=refuses_keys
)
"""Keys that are renewed 5 minutes before their end, or in the middle of a life of less than ten."""


def name_of(source: KeySource) -> str:
    """Return what ``key_hash`` is made of, which outlives the keys."""
    match source:
        case AssumedRole(role_arn=role_arn) | WebIdentity(role_arn=role_arn):
            return role_arn
        case FixedKeys(keys=keys):
            return keys.access_key_id
        case ContainerEndpoint():
            return "container"
        case InstanceMetadata():
            return "imds"


class KeyGiver(CredentialProvider, Protocol):
    """A source of keys: :class:`~mgw.credentials.renewed_token.RenewedToken`, or :class:`FixedKeyGiver`."""

    @property
    def failures(self) -> int:
        """How often no keys could be obtained."""
        ...

    @property
    def renew_at(self) -> float:
        """Until when its keys are at hand, in seconds of the monotonic clock."""
        ...

    def another(self, credential: Credential) -> Coroutine[Deferred[Any], Any, Credential | None]:
        """Return other keys than some that were refused; ``None``: there are none."""
        ...

    def describe(self, wall: float) -> CredentialState:
        """Say whether there are keys."""
        ...


class FixedKeyGiver:
    """Gives keys that stand somewhere."""

    signs: ClassVar[bool] = True
    failures: ClassVar[int] = 0
    renew_at: ClassVar[float] = inf

    def __init__(self, keys: AwsKeys) -> None:
        self._credential = key_credential(keys, key_hash(keys.access_key_id))

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return the keys."""
        return self._credential

    async def obtain(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return the keys."""
        return self._credential

    async def another(self, credential: Credential) -> Credential | None:
        """Return the keys where these are other ones: they may have been read anew."""
        return None if credential.value.matches(self._credential.value) else self._credential

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        """Return the keys where others were refused."""
        return await self.another(credential) if refuses_keys(refusal) else None

    def refusable(self, status: int) -> bool:
        """Whether a response may say that keys are not good."""
        return status in STATUSES

    def close(self) -> None:
        """Nothing is held open."""

    def describe(self, wall: float) -> CredentialState:  # noqa: ARG002  others'
        """Say that they are there."""
        return CredentialState(State.READY, self._credential.key_hash)


class NoKeyGiver:
    """Has no keys to give."""

    signs: ClassVar[bool] = True
    renew_at: ClassVar[float] = -inf

    def __init__(self, found: NoKeys) -> None:
        self._found = found
        self.failures = 0

    def ready(
        self,
        client_key: ClientKey | None,
        model: str | None = None,
    ) -> None:
        """Nothing is at hand."""

    async def obtain(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Say why.

        :raises TokenRequestError: always.
        """
        self.failures += 1
        raise TokenRequestError(self._found.message)

    async def another(self, credential: Credential) -> None:
        """There are no others."""

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> None:
        """There are no others."""

    def refusable(self, status: int) -> bool:
        """Whether a response may say that keys are not good."""
        return status in STATUSES

    def close(self) -> None:
        """Nothing is held open."""

    def describe(self, wall: float) -> CredentialState:  # noqa: ARG002  others'
        """Say that there are none."""
        return CredentialState(State.MISSING)


class SignedKeys:
    """Makes credentials that sign, of keys.

    :param signer_of: makes a signer for one service in one region.
    """

    def __init__(self, signer_of: Callable[[AwsKeys], SigV4]) -> None:
        self._signer_of = signer_of
        self._signer: SigV4 | None = None
        self._base: Credential | None = None
        self._signed: Credential | None = None

    def of(self, base: Credential) -> Credential:
        """Return the credential of some keys: for the same keys the same, which has its signer prepared."""
        signed = self._signed
        if signed is None or base is not self._base:
            assert isinstance(base, KeyCredential), "a source of keys gives keys"
            signer = self._signer_of(base.keys)
            if self._signer is not None:
                self._signer.forget()
            signed = Credential(b"", base.value, base.key_hash, signer=signer, added=base.added)
            self._base, self._signer, self._signed = base, signer, signed
        return signed


def _sent_of(keys: AwsKeys) -> tuple[Secret, ...]:
    """Return what is sent of keys; the id names an account's user, so that it is not shown either."""
    key_id = Secret(keys.access_key_id)
    return (key_id,) if keys.session_token is None else (key_id, keys.session_token)
