"""A token with a lifetime: kept while it is valid, and renewed once for everyone who needs it.

::

    asked for ──────────────── renew_at ───────────── expires_at
       │  given at once            │  given at once,       │  everybody waits
       │                           │  and renewed          │  for a new one
                                   └─ 30 s before, or half of a life of less than a minute

Only the first request needs to wait, and none does whose token is still good: where the endpoint fails in the
last seconds of a token, requests go on with it until it has truly expired.  Time is the machine's monotonic
clock, so that a clock that is set does not make a token older or younger.

A token that is younger than 10 s and came because the one before was refused is not renewed for a further
refusal: another would not help, and a provider that answers 401 to everything would cost a renewal for each
request.

A renewal that has begun is finished even when nobody waits for it: it may bring a new refresh token, and the
old one is spent.  All who wait share its result; a failure is told to them and not kept.

Where a service has several processes, one of them has the token and the others ask that one
(:attr:`RenewedToken.shared`); it answers with :meth:`RenewedToken.lend`.

What goes for tokens goes for other credentials with a lifetime; :class:`Renewal` has what differs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.credentials.provider import ClientKey, Credential, CredentialRefusal
from mgw.credentials.recent_secrets import NOWHERE, RecentSecrets
from mgw.credentials.state import CredentialState, State
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.errors import Reason
from mgw.nouns.secret import Secret
from mgw.reactor.rate_limited_log import REPORT_SECONDS
from mgw.reactor.single_flight import SingleFlight

RENEW_SECONDS: Final = 30.0
"""How long before its end a token is renewed (contract 3.15)."""
RETRY_SECONDS: Final = 5.0
"""How long a renewal that failed is not tried again while the old token is good."""
NEW_SECONDS: Final = 10.0
"""How long a token counts as new that was got because the one before was refused."""

_UNAUTHORIZED: Final = 401
_log: Final = Logger()

TokenFetch = Callable[[], Coroutine[Deferred[Any], Any, TokenResponse]]
"""Gets a new token; raises :class:`TokenRequestError`."""
SharedFetch = Callable[[Secret | None, bool], Coroutine[Deferred[Any], Any, TokenResponse]]
"""Asks another process for its token, of which the provider has refused one; raises as :data:`TokenFetch`.

The second says whether requests wait, so that one which is still good will do, though it is being renewed."""


def token_digest(token: Secret) -> str:
    """Return what tells a token from others and is not the token."""
    return sha256(token.reveal().encode()).hexdigest()


def bearer_credential(token: TokenResponse, key_hash: str) -> Credential:
    """Return what sends a token as ``Authorization: Bearer``."""
    return Credential(b"Authorization", Secret(f"Bearer {token.access_token.reveal()}"), key_hash)


def _is_unauthorized(refusal: CredentialRefusal) -> bool:
    return refusal.status == _UNAUTHORIZED


class Renewal(Struct, frozen=True):
    """What makes a credential of what was obtained, and when another one is needed."""

    credential_of: Callable[[TokenResponse, str], Credential] = bearer_credential
    """Makes a credential of a response and the ``key_hash``; its ``key`` tells one from the next."""
    signs: bool = False
    """Whether these credentials sign requests."""
    seconds: float = RENEW_SECONDS
    """How long before its end a credential is renewed, if it lives for twice as long or longer."""
    statuses: frozenset[int] = frozenset({_UNAUTHORIZED})
    """The statuses of a response that may refuse a credential."""
    refuses: Callable[[CredentialRefusal], bool] = _is_unauthorized
    """Tells whether a response with one of these statuses does."""


BEARER: Final = Renewal()
"""An access token that is renewed 30 seconds before its end, or after a 401."""


def _hold_nothing() -> None:
    """There is nothing to let go of."""


@dataclass(slots=True, eq=False, repr=False)
class FailureWarnings:
    """Lets through one warning a minute of renewals that fail, which no request tells of."""

    _next: float = float("-inf")

    def are_due(self, now: float) -> bool:
        """Tell whether to warn now.

        :param now: seconds on a clock that nobody sets.
        """
        if now < self._next:
            return False
        self._next = now + REPORT_SECONDS
        return True


@dataclass(slots=True, eq=False, repr=False)
class RenewedToken:
    """Gives out a credential that is good, such as ``Authorization: Bearer`` with a token.

    :param fetch: gets a new one.
    :param key_hash: names the configured identity in events, so that it outlives each token (contract 3.14).
    :param monotonic: seconds on a clock that nobody sets.
    :param identity: digest of all that was configured, by which processes mean the same token.
    :param shared: asks the process that has the token; ``None``: this one has it.
    :param recent: is told of each token.
    :param renewal: when it is renewed, and what it becomes.
    :param on_close: is called when nobody needs this any longer.
    :param ends_at: when that in exchange for which tokens are got is no longer valid, on the clock of
        ``monotonic``: no token is kept for longer.
    :param warnings: says when a failure is logged; others may have the same.
    """

    fetch: TokenFetch
    key_hash: str
    monotonic: Callable[[], float] = time.monotonic
    identity: str = ""
    shared: SharedFetch | None = None
    recent: RecentSecrets = NOWHERE
    renewal: Renewal = BEARER
    on_close: Callable[[], None] = _hold_nothing
    ends_at: float = float("inf")
    warnings: FailureWarnings = field(default_factory=FailureWarnings)
    failures: int = 0
    """How many requests for a new token have failed."""
    _credential: Credential | None = None
    _further: tuple[Secret, ...] = ()
    """What came with the token and belongs to the credential."""
    _renew_at: float = float("-inf")
    _expires_at: float = float("-inf")
    _retry_at: float = float("-inf")
    _new_until: float = float("-inf")
    """The time until which a refusal of the token is passed on to the client."""
    _is_refused: bool = False
    """Whether the provider has refused the token that is being renewed."""
    _flight: SingleFlight[Credential | TokenRequestError] = field(default_factory=SingleFlight)

    @property
    def signs(self) -> bool:
        """Whether its credentials sign requests."""
        return self.renewal.signs

    def ready(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential | None:
        """Return the token while it need not be renewed."""
        return self._credential if self.monotonic() < self._renew_at else None

    async def obtain(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """Return a token that is good.

        :raises TokenRequestError: there is none.
        """
        credential, now = self._credential, self.monotonic()
        if credential is None or now >= self._expires_at:
            renewed = await self._renewed()
            if isinstance(renewed, TokenRequestError):
                raise renewed.copy()  # many raise it, and an error keeps a traceback for each of them
            return renewed
        if now >= self._renew_at and now >= self._retry_at:
            _ = self._renewed().addCallback(self._note_failure)
        return credential

    async def refused(self, credential: Credential, refusal: CredentialRefusal) -> Credential | None:
        """Return a newer token than the one refused; asks for one if there is none.

        ``None`` where none is to be had, so that the client gets the upstream's own 401.
        """
        return await self.another(credential) if self.renewal.refuses(refusal) else None

    async def another(self, credential: Credential) -> Credential | None:
        """Return a newer token than one that was refused, as :meth:`refused` does."""
        current, now = self._credential, self.monotonic()
        if current is not None and not _is_same(current, credential) and now < self._expires_at:
            return current
        if self.shared is None and now < self._new_until:
            return None  # else a provider that answers 401 to everything would cost a renewal per request
        self._is_refused = True
        renewed = await self._renewed(credential.key)
        if isinstance(renewed, TokenRequestError):
            self._note_failure(renewed)
            return None
        return None if _is_same(renewed, credential) else renewed

    async def lend(self, refused: str | None, *, at_once: bool = False) -> TokenResponse:
        """Return a token that is good for another process, and for how long, so that both renew it at a time.

        :param refused: digest of one that the provider has refused: not that one.
        :param at_once: a good one is not to be renewed first, since requests wait there.
        :raises TokenRequestError: there is none.
        """
        credential, now = self._credential, self.monotonic()
        is_refused = credential is not None and refused == token_digest(credential.key)
        if is_refused and now < min(self._new_until, self._expires_at):
            is_refused = False  # it gets that one again, and passes the refusal on
        must = is_refused or now >= self._expires_at
        if must or (now >= self._renew_at and now >= self._retry_at):
            self._is_refused |= is_refused
            renewing = self._renewed()
            if at_once and not must:
                _ = renewing.addCallback(self._note_failure)
                return self._lent()
            renewed = await renewing
            if isinstance(renewed, TokenRequestError):
                if must:
                    raise renewed.copy()
                self._note_failure(renewed)
        return self._lent()

    def _lent(self) -> TokenResponse:
        assert self._credential is not None, "else it must have been renewed"
        seconds = self._expires_at - self.monotonic()
        return TokenResponse(self._credential.key, seconds, further=self._further)

    def refusable(self, status: int) -> bool:
        """A 401 may mean that the token was revoked."""
        return status in self.renewal.statuses

    def close(self) -> None:
        """Let go of what it is obtained with."""
        self.on_close()

    def describe(self, wall: float) -> CredentialState:
        """Say whether there is a token.

        :param wall: unix seconds, now.
        """
        if self._credential is None:
            return CredentialState(State.MISSING if self.failures else State.UNKNOWN, self.key_hash)
        left = self._expires_at - self.monotonic()
        return CredentialState(State.READY if left > 0 else State.EXPIRED, self.key_hash, wall + left)

    @property
    def renew_at(self) -> float:
        """Until when the token is at hand, in seconds of the monotonic clock."""
        return self._renew_at

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The token that was got last, and what came with it, for whoever hides them in logs."""
        return () if self._credential is None else (self._credential.key, *self._further)

    def _renewed(self, refused: Secret | None = None) -> Deferred[Credential | TokenRequestError]:
        """Fire with the result of a renewal: of one that is under way, else of a new one.

        :param refused: which another process must not answer with; what this one gets is new in any case.
        """
        # by a flight, which goes on when every waiter has left: the old refresh token may be spent already
        if self.shared is None:
            return self._flight.run(None, self._renew)
        return self._flight.run(refused, partial(self._renew, refused))

    async def _renew(self, refused: Secret | None = None) -> Credential | TokenRequestError:
        """Return a new token, or why there is none: an error that many raise would grow with each of them."""
        asked_at = self.monotonic()
        has_none = self._credential is None or asked_at >= self._expires_at
        try:
            token = await (self.fetch() if self.shared is None else self.shared(refused, has_none))
        except TokenRequestError as error:
            self.failures += 1
            self._is_refused = False
            self._retry_at = self.monotonic() + RETRY_SECONDS
            return error.copy()
        if self._credential is not None:
            # requests that were sent with it may still be answered
            self.recent.note(self._credential.key, self._further)
        self.recent.note(token)
        self._new_until = self.monotonic() + NEW_SECONDS if self._is_refused else float("-inf")
        self._is_refused = False
        credential = self.renewal.credential_of(token, self.key_hash)
        self._credential, self._further = credential, token.further
        expires_at = asked_at + token.expires_in
        renew_at = expires_at - min(self.renewal.seconds, token.expires_in / 2)
        # one that outlives what it was got for is not renewed before that ends: another would end then, too
        self._expires_at, self._renew_at = min(expires_at, self.ends_at), min(renew_at, self.ends_at)
        return credential

    def _note_failure(self, result: Credential | TokenRequestError) -> None:
        """Log what no request tells of, once a minute; what is for the client to mend is not said here."""
        if not isinstance(result, TokenRequestError) or result.reason is not Reason.CREDENTIAL_SOURCE:
            return
        now = self.monotonic()
        if self.warnings.are_due(now):
            _log.warn(
                "a token could not be renewed: {message} ({where}); the old one is valid for {seconds:.0f} s",
                message=result.message,
                where=result.detail,
                seconds=max(0.0, self._expires_at - now),
            )


def _is_same(one: Credential, other: Credential) -> bool:
    return one is other or one.value.matches(other.value)
