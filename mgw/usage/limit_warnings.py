"""The warnings that the end of a request causes, where a limit of its client has reached a share.

Where another process counts, they come a little later, and the usage event waits for them: at most
:data:`WARNING_SECONDS`.  The log says each as well; one of a limit without periods, which may be given again
and again, once a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from mgw.clients.limits import LIMITS_BY_NAME, Warnings
from mgw.reactor.rate_limited_log import RateLimitedLog

WARNING_SECONDS: Final = 2.0
"""How long the event of a request waits for them."""
MAX_WARNINGS: Final = 256
"""How many warnings of limits without periods are remembered, so that they are logged once a minute."""
_log: Final = Logger()


@dataclass(slots=True, eq=False, repr=False)
class WarningLog:
    """Logs warnings of limits."""

    _logs: dict[str, RateLimitedLog] = field(default_factory=dict)

    def report(self, warnings: Warnings, request_id: str, clock: IReactorTime) -> None:
        """Log what a request has caused."""
        for warning in warnings:
            holder, name, share = warning.rsplit(" ", 2)
            limit = LIMITS_BY_NAME.get(name)
            if limit is None or limit.window.is_calendar or self._is_due(warning, clock):
                _log.warn(
                    "limit warning: {holder} has reached {percent}% of {name} (request_id={request_id})",
                    holder=holder,
                    percent=f"{(Decimal(share) * 100).normalize():f}",
                    name=name,
                    request_id=request_id,
                )

    def _is_due(self, warning: str, clock: IReactorTime) -> bool:
        if warning not in self._logs and len(self._logs) >= MAX_WARNINGS:
            self._logs.clear()
        return self._logs.setdefault(warning, RateLimitedLog(clock)).is_due()


def wait_for_warnings(
    found: Deferred[Warnings],
    clock: IReactorTime,
    then: Callable[[Warnings], None],
    late: Callable[[Warnings], None],
) -> None:
    """Call ``then`` with the warnings, without any when it takes too long; ``late`` gets them after that."""
    limit = clock.callLater(WARNING_SECONDS, then, ())

    def on_warnings(warnings: Warnings) -> None:
        if limit.active():
            limit.cancel()
            then(warnings)
        else:
            late(warnings)

    _ = found.addCallback(on_warnings)
