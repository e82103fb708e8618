"""What follows a failed attempt before anything has reached the client: a table of retries and failover.

A refused credential comes first: its source may have another (:meth:`CredentialProvider.refused`), and a
connection used before that was closed meanwhile is replaced by a new one.  Where neither helps, this does:

===================================  =========================  =======  ===========
what came                            may the provider have      sent     next target
                                     begun to work on it?       again?   of an alias?
===================================  =========================  =======  ===========
no connection                        no                         yes      yes
429, 503, 529 [#]_                   no                         yes      yes
500, 502, 504 [#]_                   yes                        yes      yes
reset, or no HTTP, before the head   yes                        yes      yes
a break before the first words       yes                        yes      yes
no head within ``first_byte``        yes                        no       yes
no byte behind the head in ``idle``  yes                        no       yes
no credential, or no free slot       no                         no       yes
anything else                        -                          no       no
===================================  =========================  =======  ===========

.. [#] Those of them that ``retries.statuses`` has, also where an error that comes before the first words of a
   stream stands for one.

What a provider may have begun to work on is sent a second time only if that creates nothing there: texts and
embeddings, reads, and what carries an ``Idempotency-Key``.

Sources: contract 2.15 ff.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from msgspec import Struct

from mgw.canonical.reply import UpstreamError
from mgw.config.resilience import RetriesSettings
from mgw.credentials.provider import ClientKey
from mgw.exchange.exchange import Exchange
from mgw.memo.client_request import ClientRequest
from mgw.nouns.errors import Cause, GatewayError, Reason
from mgw.routing.resolve import Target
from mgw.routing.route import Route, Treatment
from mgw.upstream.client import UpstreamResponse
from mgw.upstream.failure import Phase, UpstreamFailure
from mgw.wire.headers import retry_after_of, value_of

MAX_PAUSE: Final = 30.0
"""Seconds: a provider that asks for more patience is not asked again."""
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 8.0
_NOT_BEGUN: Final = frozenset({429, 503, 529})
"""Statuses that say that nothing was done."""
_NOT_REPEATED: Final = frozenset({Reason.CREDENTIAL_SOURCE, Reason.NO_ACCOUNT, Reason.OVERLOADED})


class Trouble(Struct, frozen=True):
    """How an attempt ended that may be followed by another."""

    may_have_begun: bool
    """Whether the provider may have begun to work on the request."""
    is_worth_repeating: bool = True
    """Whether it is worth repeating at the same provider."""
    retry_after: float | None = None
    """Seconds that the provider asks for."""


class Step(Enum):
    """What follows."""

    GIVE_UP = "give up"
    """The client gets what came."""
    REPEAT = "repeat"
    FALL_BACK = "fall back"


def trouble_of_status(status: int, retry_after: float | None, rule: RetriesSettings) -> Trouble | None:
    """Return what a provider's response means, or ``None``: the client gets it."""
    if status not in rule.statuses:
        return None
    return Trouble(status not in _NOT_BEGUN, retry_after=retry_after)


def trouble_of_response(response: UpstreamResponse, attempts: Attempts | None) -> Trouble | None:
    """Return the same of a response that has come."""
    if attempts is None:
        return None
    return trouble_of_status(response.status, retry_after_of(response.headers), attempts.rule)


def trouble_of_error(error: Exception, attempts: Attempts | None) -> Trouble | None:
    """Return what a failure before the head of a response means, or ``None``: the client is told.

    That a provider has no key is the client's to know where it was to bring its own (contract 3.8), but not
    of a later target, for which its own is not meant.
    """
    if isinstance(error, UpstreamFailure):
        begun = error.phase is not Phase.CONNECT
        return Trouble(begun, error.cause is not Cause.FIRST_BYTE_TIMEOUT)
    if not isinstance(error, GatewayError):
        return None
    has_no_key = error.reason is Reason.NO_PROVIDER_KEY and attempts is not None and attempts.has_fallen_back
    if has_no_key or error.reason in _NOT_REPEATED:
        return Trouble(may_have_begun=False, is_worth_repeating=False)
    return None


def trouble_of_early_break(
    said: UpstreamError | None, error: GatewayError, rule: RetriesSettings | None
) -> Trouble | None:
    """Return what a stream means that breaks before it says anything; ``None`` where no rule tries again.

    :param said: the error that the provider sent in place of it, if it sent one.
    """
    if rule is None:
        return None
    if said is not None:
        return trouble_of_status(said.status, said.retry_after, rule)
    if error.reason is Reason.UPSTREAM_TOO_SLOW:  # as before the head
        return Trouble(may_have_begun=True, is_worth_repeating=False)
    return Trouble(may_have_begun=True) if error.reason is Reason.UPSTREAM_BROKEN else None


@dataclass(slots=True, eq=False, repr=False)
class Attempts:
    """What may still be tried for one request.

    :param creates_nothing: whether it may be sent twice though the provider may have begun to work on it.
    :param targets: where it may go next, in order.
    """

    rule: RetriesSettings
    creates_nothing: bool
    targets: Sequence[Target]
    has_fallen_back: bool = False
    """Whether the request goes to another than its first target."""
    _repeated: int = 0

    def next_step(self, trouble: Trouble | None) -> Step:
        """Return what follows."""
        if trouble is None or (trouble.may_have_begun and not self.creates_nothing):
            return Step.GIVE_UP
        in_time = trouble.retry_after is None or trouble.retry_after <= MAX_PAUSE
        if trouble.is_worth_repeating and in_time and self._repeated < self.rule.attempts:
            return Step.REPEAT
        return Step.FALL_BACK if self.targets else Step.GIVE_UP

    def begin_repetition(self, trouble: Trouble, chance: float) -> float:
        """Return how many seconds to wait before the request is sent again.

        :param chance: a random number from 0 to 1, so that clients that failed together do not come together.
        """
        longest = min(_FIRST_PAUSE * float(1 << self._repeated), _LONGEST_PAUSE)
        self._repeated += 1
        return max(longest * (0.5 + chance / 2), trouble.retry_after or 0.0)

    def begin_fallback(self) -> Target:
        """Return the next target, whose provider's rule applies from now on."""
        target, *rest = self.targets
        self.targets = tuple(rest)
        self.rule = target.provider.retries
        self._repeated = 0
        self.has_fallen_back = True
        return target


def creates_nothing(route: Route, request: ClientRequest) -> bool:
    """Whether a request may be sent twice though the provider may have begun to work on it."""
    return route.repeatable or value_of(request.headers, b"idempotency-key") is not None


def attempts_for(exchange: Exchange, target: Target, *, creates_nothing: bool) -> Attempts | None:
    """Return what may be tried for a request beyond its first attempt; ``None``: nothing.

    Counts are asked for once: they must not hold up those who wait for an answer (contract 2.18).
    """
    if exchange.route.treatment is Treatment.COUNT or not exchange.generation.tries_again:
        return None
    rule, targets = target.provider.retries, exchange.generation.resolver.fallbacks(target)
    return Attempts(rule, creates_nothing, targets) if rule.attempts or targets else None


def key_for_fallback(target: Target, key: ClientKey | None) -> ClientKey | None:
    """Return the client's credential as far as a later target may have it.

    The client means it for the first one; only ``auth: client_bearer`` says that a provider always gets it.
    """
    return None if target.provider.auth is None else key
