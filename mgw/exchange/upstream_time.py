"""How long a request has waited for its provider, and how long for the gateway."""

from __future__ import annotations

from msgspec import Struct
from twisted.internet.interfaces import IReactorTime


class UpstreamTime(Struct, eq=False):
    """The time up to the head of the client's response; kept where the operator has responses say it."""

    clock: IReactorTime
    started: float
    """The clock's time at which the head of the request was complete."""
    seconds: float = 0.0
    """How long the provider was waited for."""
    _waits_since: float | None = None

    def begin(self) -> None:
        """Count the time from now on as the provider's."""
        self.end()
        self._waits_since = self.clock.seconds()

    def end(self) -> None:
        """The provider has answered, or failed."""
        if self._waits_since is not None:
            self.seconds += self.clock.seconds() - self._waits_since
            self._waits_since = None

    def server_timing(self) -> bytes:
        """Return how long the provider and the gateway took until now (W3C Server Timing, section 3)."""
        self.end()
        upstream = self.seconds * 1000.0
        gateway = max((self.clock.seconds() - self.started) * 1000.0 - upstream, 0.0)
        return b"upstream;dur=%.1f, gateway;dur=%.1f" % (upstream, gateway)
