"""Tokens on behalf of callers: each caller's own is exchanged for one of the provider's (RFC 8693, RFC 7523).

::

    ann's token ── for_caller ──▶ ann's source ── one exchange at a time ──▶ token endpoint
    bob's token ── for_caller ──▶ bob's source ──        "        ──▶       "
    no token    ── for_caller ──▶ a 401, since there is nothing to exchange

A caller's source is a :class:`~mgw.credentials.renewed_token.RenewedToken` that ends with the caller's token:
what was got for it is not kept beyond the ``exp`` of that.  For some seconds more, the skew of clocks that is
allowed, the token still opens the gateway: then each request has it exchanged anew, and the endpoint, which
has a clock of its own, decides.  After these it is never exchanged again.

Of the callers, the :data:`MAX_CALLERS` that came last are remembered.  A request that goes on with a source
that was forgotten keeps it, and shares its exchange with the one that is made in its place.

Every process exchanges for the callers that it serves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from mgw.credentials.provider import CallerToken, ClientKey, Credential
from mgw.credentials.recent_secrets import NOWHERE, RecentSecrets
from mgw.credentials.renewed_token import FailureWarnings, RenewedToken
from mgw.credentials.state import CredentialState, State
from mgw.credentials.static import SingleCredential
from mgw.credentials.token_request import TokenRequestError, TokenResponse
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.secret import Secret
from mgw.reactor.single_flight import SingleFlight

MAX_CALLERS: Final = 10_000
"""How many callers' tokens are remembered; with one more, the one used least recently is forgotten."""

NO_TOKEN: Final = (
    "this provider is called with a token on behalf of each caller: "  # noqa: S105 (a sentence)
    "authenticate to the gateway with a token of an identity provider, not with a gateway key"
)
_ENDED: Final = "the token that authenticated the request has expired: get a new one"

TokenExchange = Callable[[Secret], Coroutine[Deferred[Any], Any, TokenResponse]]
"""Exchanges a caller's token; raises :class:`TokenRequestError`."""

_log: Final = Logger()


class _Caller(Struct, frozen=True, eq=False):
    until: float
    """The end of the caller's token, in Unix seconds, with the skew that is allowed."""
    ends: float
    """The same on a clock that nobody sets."""
    source: RenewedToken

    def __repr__(self) -> str:
        return "_Caller(…)"


@dataclass(slots=True, eq=False, repr=False)
class OnBehalfOf(SingleCredential):
    """The sources of all callers of a provider, and itself the source of those without a token.

    :param exchange: gets a token of the provider for one of a caller's.
    :param key_hash: names the configured client in events, whoever calls (contract 3.14).
    :param refusals: the error codes with which the endpoint refuses a caller's token.
    :param monotonic: seconds on a clock that nobody sets.
    :param wall: seconds since 1970.
    :param recent: is told of each token.
    """

    exchange: TokenExchange
    key_hash: str
    refusals: frozenset[str]
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    recent: RecentSecrets = NOWHERE
    failures: int = 0
    """How many exchanges have failed."""
    _callers: dict[Secret, _Caller] = field(default_factory=dict)
    """The callers by their tokens, the one that was used least recently first."""
    _flights: SingleFlight[TokenResponse] = field(default_factory=SingleFlight)
    """The exchanges under way, by the caller's token."""
    _warnings: FailureWarnings = field(default_factory=FailureWarnings)
    """Those of all callers: an endpoint that fails fails for thousands of them."""

    def for_caller(self, token: CallerToken | None) -> OnBehalfOf | RenewedToken:
        """Return the source of a caller's credentials; without a token, one that has none."""
        if token is None:
            return self
        found = self._callers.pop(token.value, None)
        if found is None or found.until != token.until:  # a reload may change the clock skew that is allowed
            found = self._new_caller(token)
        self._callers[token.value] = found
        return found.source

    async def obtain(
        self,
        client_key: ClientKey | None,  # noqa: ARG002  the interface's
        model: str | None = None,  # noqa: ARG002  the interface's
    ) -> Credential:
        """There is none without a caller's token.

        :raises GatewayError: ``NO_PROVIDER_KEY``.
        """
        raise GatewayError(Reason.NO_PROVIDER_KEY, NO_TOKEN)

    def close(self) -> None:
        """Forget the callers; requests in progress go on with their sources."""
        self._callers.clear()

    def describe(self, wall: float) -> CredentialState:  # noqa: ARG002  others'
        """Say that there is no one token that could be described."""
        return CredentialState(State.UNKNOWN, self.key_hash)

    def __len__(self) -> int:
        return len(self._callers)

    def _new_caller(self, token: CallerToken) -> _Caller:
        """Return the source of a caller that is not known, in place of those that are no longer needed."""
        now = self.monotonic()
        while self._callers:
            oldest = next(iter(self._callers))
            if len(self._callers) < MAX_CALLERS and now < self._callers[oldest].ends:
                break
            del self._callers[oldest]
        # the clock of Unix time may have been set back since the token was checked
        ends = min(token.ends, now + token.until - self.wall())
        source = RenewedToken(
            partial(self._fetch, token.value, ends),
            self.key_hash,
            self.monotonic,
            recent=self.recent,
            ends_at=min(ends, now + token.expires - self.wall()),
            warnings=self._warnings,
        )
        return _Caller(token.until, ends, source)

    async def _fetch(self, token: Secret, ends: float) -> TokenResponse:
        """Return the result of an exchange: of one that is under way, else of a new one.

        :raises TokenRequestError: the caller's token has ended or was refused, or the endpoint failed.
        """
        if self.monotonic() >= ends:
            raise TokenRequestError(_ENDED, reason=Reason.NO_PROVIDER_KEY)
        return await self._flights.run(token, partial(self._exchange, token))

    async def _exchange(self, token: Secret) -> TokenResponse:
        try:
            return await self.exchange(token)
        except TokenRequestError as error:
            self.failures += 1
            if error.error_code not in self.refusals:
                raise
            raise self._refused(error) from None

    def _refused(self, error: TokenRequestError) -> TokenRequestError:
        """Return the refusal of a caller's token as the caller gets it."""
        message = (
            f"{error.message}. The token that authenticated the request could not be exchanged for one of "
            "the provider's: sign in again, or ask for access"
        )
        refusal = TokenRequestError(message, error.response_status, error.error_code, Reason.NO_PROVIDER_KEY)
        refusal.detail = error.detail
        if self._warnings.are_due(self.monotonic()):
            _log.warn(
                "the token of a caller could not be exchanged: {message} ({where})",
                message=error.message,
                where=error.detail,
            )
        return refusal
