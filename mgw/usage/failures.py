"""Say in the process log that a provider fails, once a minute for each cause, and why.

The sentence is the one that the client got.  Of a provider's own words nothing is written: they may repeat
what a client had sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from mgw.reactor.rate_limited_log import RateLimitedLog

_log: Final = Logger()


class ProviderFailure(Struct, frozen=True):
    """One request that a provider failed."""

    provider: str
    cause: str
    sentence: str
    """Ours, and complete."""
    detail: str
    """What the client was not told, as an address; may be empty."""
    request_id: str


@dataclass(slots=True)
class FailureLog:
    """Writes the warnings; there are as many clocks in it as providers and causes."""

    _logs: dict[tuple[str, str], RateLimitedLog] = field(default_factory=dict)

    def note(self, failure: ProviderFailure, clock: IReactorTime) -> None:
        """Warn, unless the same was said within the last minute."""
        key = (failure.provider, failure.cause)
        limited = self._logs.get(key)
        if limited is None:
            limited = self._logs[key] = RateLimitedLog(clock)
        if not limited.is_due():
            return
        suppressed = limited.take_suppressed()
        _log.warn(
            "{sentence}{detail} (provider={provider} error={cause} request_id={request_id}){more}",
            sentence=failure.sentence,
            detail=f", {failure.detail}" if failure.detail else "",
            provider=failure.provider,
            cause=failure.cause,
            request_id=failure.request_id,
            more=f"; {suppressed} more of these since the last warning" if suppressed else "",
        )
