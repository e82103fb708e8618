"""Whether providers answer, for ``GET /v1/health/providers`` (contract 4.5, 9.4).

All are asked at once for a small page of their models.  The result serves for five seconds, and whoever asks
while it is being made waits for the same, so that a poller costs providers next to nothing.  It holds no
word of a provider's, no key and no address.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.json import Encoder
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as TimedOut

from mgw.credentials.provider import NO_CREDENTIAL
from mgw.credentials.static import OptionalCredential
from mgw.dialects import lister_of
from mgw.errors import GatewayError, Reason
from mgw.generation import Generation
from mgw.kinds import KINDS
from mgw.ops.probes import UNHEARD, Prober
from mgw.reactor.single_flight import SingleFlight, gather
from mgw.vocabulary import Kind

KEPT_SECONDS: Final = 5.0
_MISSING: Final = 404
"""Some hosts have no list; they are there."""
_REFUSED: Final = frozenset({401, 403})


class Trouble(StrEnum):
    """What is wrong with a provider: all that is said of it."""

    UNREACHABLE = "unreachable"
    """No connection, or no whole answer."""
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    """It refused the configured credential."""
    BAD_STATUS = "bad_status"
    NO_CREDENTIAL = "no_credential"
    """None of its accounts may be used now."""
    CREDENTIAL_SOURCE = "credential_source"
    """No credential could be had from where the configuration has it come from."""


class Condition(StrEnum):
    """How the providers are, all in all."""

    OK = "ok"
    DEGRADED = "degraded"
    """Some of them."""
    FAILING = "failing"
    """None of them."""


class ProviderCondition(Struct, frozen=True):
    """How one provider is."""

    name: str
    kind: Kind
    status: str
    """``ok`` or ``error``."""
    http_status: int | None
    latency_ms: float | None
    """From the request to the end of the answer; ``None`` where there was none."""
    error: Trouble | None


class HealthReport(Struct, frozen=True):
    """How the providers are, in the configuration's order."""

    status: Condition
    providers: list[ProviderCondition]


class _Kept(Struct, frozen=True):
    generation: int
    since: float
    body: bytes


class _Heard(Struct, frozen=True):
    http_status: int | None = None
    latency_ms: float | None = None
    trouble: Trouble | None = None


_NOTHING: Final = _Heard()
_ENCODER: Final = Encoder()


@dataclass(slots=True)
class ProviderHealth:
    """Asks the providers how they are, and remembers it for a moment."""

    prober: Prober
    _flights: SingleFlight[bytes] = field(default_factory=SingleFlight, repr=False)
    _kept: _Kept | None = field(default=None, repr=False)

    async def report(self, generation: Generation) -> bytes:
        """Return a :class:`HealthReport` as JSON."""
        kept = self._kept
        fresh = kept is not None and self._now() - kept.since < KEPT_SECONDS
        if kept is not None and fresh and kept.generation == generation.number:
            return kept.body
        return await self._flights.run(generation.number, partial(self._probe_all, generation))

    async def _probe_all(self, generation: Generation) -> bytes:
        generation.enter()
        try:
            found = await gather(self._probe(generation, name) for name in generation.config.providers)
        finally:
            generation.leave()
        body = _ENCODER.encode(HealthReport(_all_in_all(found), found))
        self._kept = _Kept(generation.number, self._now(), body)
        return body

    async def _probe(self, generation: Generation, name: str) -> ProviderCondition:
        probing = Deferred.fromCoroutine(self._ask(generation, name))
        heard = _NOTHING
        try:
            limit = generation.config.health_checks.timeout
            heard = await probing.addTimeout(limit, self.prober.clock)
            trouble = heard.trouble
        except TimedOut:
            trouble = Trouble.TIMEOUT
        except UNHEARD as error:
            trouble = _trouble_of(error)
        return ProviderCondition(
            name=name,
            kind=generation.config.providers[name].kind,
            status="ok" if trouble is None else "error",
            http_status=heard.http_status,
            latency_ms=heard.latency_ms,
            error=trouble,
        )

    async def _ask(self, generation: Generation, name: str) -> _Heard:
        credential = await OptionalCredential(generation.credentials[name]).obtain(None)
        question = self.prober.question(generation, name, credential)
        lister = lister_of(KINDS[question.provider.kind].family)
        began = self._now()
        heard = await question.ask(lister.query(1, None))
        latency_ms = round((self._now() - began) * 1000, 1)
        return _Heard(heard.status, latency_ms, _verdict(heard.status, own=credential is not NO_CREDENTIAL))

    def _now(self) -> float:
        return self.prober.clock.seconds()


def _verdict(status: int, *, own: bool) -> Trouble | None:
    """Return what an HTTP status says of a provider that was asked with its own credential, or without."""
    if not own:
        return None if status < 500 else Trouble.BAD_STATUS
    if status in _REFUSED:
        return Trouble.UNAUTHORIZED
    return None if 200 <= status < 300 or status == _MISSING else Trouble.BAD_STATUS


def _trouble_of(error: Exception) -> Trouble:
    reason = error.reason if isinstance(error, GatewayError) else None
    match reason:
        case Reason.CREDENTIAL_SOURCE:
            return Trouble.CREDENTIAL_SOURCE
        case Reason.NO_ACCOUNT:
            return Trouble.NO_CREDENTIAL
        case Reason.UPSTREAM_TOO_SLOW:
            return Trouble.TIMEOUT
    return Trouble.UNREACHABLE


def _all_in_all(providers: list[ProviderCondition]) -> Condition:
    failing = sum(provider.error is not None for provider in providers)
    if not failing:
        return Condition.OK
    return Condition.DEGRADED if failing < len(providers) else Condition.FAILING
