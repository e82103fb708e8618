"""A request that waits for the keys of its token's issuer before anybody knows who sends it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.http.head_key import HeadKey
from mgw.http.request_head import RequestHead
from mgw.nouns.errors import GatewayError
from mgw.web.channel import GatewayChannel


@dataclass(slots=True, eq=False, repr=False)
class WaitingRequest:
    """Waits, and then has its head looked at once more.  Nothing of its body is taken meanwhile."""

    channel: GatewayChannel
    head: RequestHead
    key: HeadKey | None
    on_end: Callable[[WaitingRequest], None]
    """Called when it waits no more."""
    _has_ended: bool = field(init=False, default=False)
    _ready: Deferred[None] | None = field(init=False, default=None)

    def wait(self, ready: Deferred[None]) -> None:
        """Wait, however that ends: whoever makes ``ready`` bounds the time, and makes it for this alone."""
        self._ready = ready
        self.channel.pause_body()
        _ = ready.addBoth(self._on_ready)

    def go_on(self) -> None:
        """Wait no more."""
        if not self._has_ended:
            self._end()
            self.channel.resume_request(self.head, self.key)

    def on_body_data(self, data: bytes) -> None:
        """The body is paused."""

    def on_whole_body(self, content: bytes) -> None:
        """The body is paused."""

    def on_body_end(self) -> None:
        """The receiver to come is told again."""

    def on_body_timeout(self) -> None:
        """The body is paused."""

    def on_malformed_body(self, error: GatewayError) -> None:
        """The body is paused."""

    def on_disconnect(self) -> None:
        """The client has left."""
        if not self._has_ended:
            self._end()

    def _end(self) -> None:
        self._has_ended = True
        ready, self._ready = self._ready, None
        if ready is not None:
            ready.cancel()  # else it keeps the head and the connection of a client that has left
        self.on_end(self)

    def _on_ready(self, _: Failure | None) -> None:
        self.go_on()
