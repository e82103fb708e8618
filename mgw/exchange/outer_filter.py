"""What a filter has that stands around another, and says what that one says."""

from __future__ import annotations

from dataclasses import dataclass

from mgw.canonical.reply import TokenUsage
from mgw.exchange.chunk_lane import EventLookers
from mgw.exchange.received import Fault
from mgw.exchange.relay import BodyFilter
from mgw.nouns.errors import GatewayError


@dataclass(slots=True, eq=False, repr=False)
class OuterFilter:
    """All of a filter around another but what it is there for: :meth:`feed` and :meth:`finish`."""

    inner: BodyFilter

    @property
    def ended(self) -> bool:
        """Whether the provider has sent its last event."""
        return self.inner.ended

    @property
    def finished(self) -> bool:
        """Whether the last word has been said."""
        return self.inner.finished

    @property
    def complete(self) -> bool:
        """Whether nothing is missing if the provider's body breaks now."""
        return self.inner.complete

    @property
    def sent_last_event(self) -> bool:
        """Whether what was returned ends with the last event."""
        return self.inner.sent_last_event

    def fail(self, error: GatewayError) -> bytes | None:
        """Let the inner filter have the last word."""
        return self.inner.fail(error)

    def fault(self) -> Fault | None:
        """Return what the stream says went wrong."""
        return self.inner.fault()

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self.inner.usage()

    def keepalive(self) -> bytes:
        """Return what may stand between two events."""
        return self.inner.keepalive()

    def event_lookers(self) -> EventLookers | None:
        """Nobody: this filter does more than look."""
        return None
