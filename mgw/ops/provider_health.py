"""Whether providers respond, for ``GET /v1/health/providers`` (contract 4.5, 9.4).

All are asked at once, for a small page of their models unless their wire knows a better question.  The result
serves for five seconds, and whoever asks while it is being made waits for the same, so that a poller costs
providers next to nothing.  It holds no word of a provider's, no key and no address.
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
from mgw.generation import Generation
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Kind
from mgw.ops.probes import ProbeResult, ProviderProbe, probe_errors
from mgw.reactor.single_flight import SingleFlight, gather

CACHE_SECONDS: Final = 5.0
_MISSING: Final = 404
"""The status of a host that is reachable and has no list of models."""
_REFUSED: Final = frozenset({401, 403})


class HealthError(StrEnum):
    """What is wrong with a provider: all that is said of it."""

    UNREACHABLE = "unreachable"
    """The provider could not be connected to, or sent no whole response."""
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    """The provider refused the configured credential."""
    BAD_STATUS = "bad_status"
    NO_CREDENTIAL = "no_credential"
    """None of the provider's accounts may be used now."""
    CREDENTIAL_SOURCE = "credential_source"
    """The configured source of the credential gave none."""


class HealthStatus(StrEnum):
    """How the providers are, all in all."""

    OK = "ok"
    DEGRADED = "degraded"
    """Some providers have an error."""
    FAILING = "failing"
    """All providers have an error."""


class ProviderStatus(Struct, frozen=True):
    """How one provider is."""

    name: str
    kind: Kind
    status: str
    """The word ``ok`` or ``error``."""
    http_status: int | None
    latency_ms: float | None
    """Milliseconds from the request to the end of the response; ``None`` where there was no response."""
    error: HealthError | None


class HealthReport(Struct, frozen=True):
    """How the providers are, in the configuration's order."""

    status: HealthStatus
    providers: list[ProviderStatus]


class _CachedReport(Struct, frozen=True):
    generation: int
    since: float
    body: bytes


class _Measurement(Struct, frozen=True):
    http_status: int | None = None
    latency_ms: float | None = None
    error: HealthError | None = None


_NO_MEASUREMENT: Final = _Measurement()
_ENCODER: Final = Encoder()


@dataclass(slots=True)
class ProviderHealth:
    """Asks the providers how they are, and remembers it for a moment."""

    probe: ProviderProbe
    _flights: SingleFlight[bytes] = field(default_factory=SingleFlight, repr=False)
    _cached: _CachedReport | None = field(default=None, repr=False)

    async def report(self, generation: Generation) -> bytes:
        """Return a :class:`HealthReport` as JSON."""
        cached = self._cached
        fresh = cached is not None and self._now() - cached.since < CACHE_SECONDS
        if cached is not None and fresh and cached.generation == generation.number:
            return cached.body
        return await self._flights.run(generation.number, partial(self._probe_all, generation))

    async def _probe_all(self, generation: Generation) -> bytes:
        generation.enter()
        try:
            found = await gather(self._probe(generation, name) for name in generation.config.providers)
        finally:
            generation.leave()
        body = _ENCODER.encode(HealthReport(_overall_status(found), found))
        self._cached = _CachedReport(generation.number, self._now(), body)
        return body

    async def _probe(self, generation: Generation, name: str) -> ProviderStatus:
        probing = Deferred.fromCoroutine(self._ask(generation, name))
        result = _NO_MEASUREMENT
        try:
            limit = generation.config.health_checks.timeout
            result = await probing.addTimeout(limit, self.probe.clock)
            error = result.error
        except TimedOut:
            error = HealthError.TIMEOUT
        except probe_errors() as failure:
            error = _error_of_exception(failure)
        return ProviderStatus(
            name=name,
            kind=generation.config.providers[name].kind,
            status="ok" if error is None else "error",
            http_status=result.http_status,
            latency_ms=result.latency_ms,
            error=error,
        )

    async def _ask(self, generation: Generation, name: str) -> _Measurement:
        credential = await OptionalCredential(generation.credentials[name]).obtain(None)
        request = self.probe.request(generation, name, credential)
        began = self._now()
        result = await request.probe_provider()
        latency_ms = round((self._now() - began) * 1000, 1)
        own = credential is not NO_CREDENTIAL
        error = None if result.is_well else _error_of_status(result, own=own)
        return _Measurement(result.status, latency_ms, error)

    def _now(self) -> float:
        return self.probe.clock.seconds()


def _error_of_status(result: ProbeResult, *, own: bool) -> HealthError | None:
    """Return what an HTTP status says of a provider that was asked with its own credential, or without."""
    status = result.status
    if not own:
        return None if status < 500 else HealthError.BAD_STATUS
    if status in _REFUSED:
        return HealthError.UNAUTHORIZED
    is_well = 200 <= status < 300 or (status == _MISSING and result.may_be_missing)
    return None if is_well else HealthError.BAD_STATUS


def _error_of_exception(error: Exception) -> HealthError:
    reason = error.reason if isinstance(error, GatewayError) else None
    match reason:
        case Reason.CREDENTIAL_SOURCE:
            return HealthError.CREDENTIAL_SOURCE
        case Reason.NO_ACCOUNT:
            return HealthError.NO_CREDENTIAL
        case Reason.UPSTREAM_TOO_SLOW:
            return HealthError.TIMEOUT
    return HealthError.UNREACHABLE


def _overall_status(providers: list[ProviderStatus]) -> HealthStatus:
    failing = sum(provider.error is not None for provider in providers)
    if not failing:
        return HealthStatus.OK
    return HealthStatus.DEGRADED if failing < len(providers) else HealthStatus.FAILING
