"""Write a large body, and know when the transport has passed on the last of it.

Twisted tells only registered producers about its buffer; a producer that has written everything at once, and
waits to be asked for more, learns so that all of it is gone.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

from mgw.upstream.transport import Wire


@implementer(IPushProducer)
class Upload:
    """One body on its way out; ``done`` is called once, when the transport's buffer is empty."""

    def __init__(self, transport: Wire, done: Callable[[], None]) -> None:
        self._transport = transport
        self._done = done
        self._buffered = False
        self.over = False

    def start(self, body: bytes) -> None:
        """Write ``body`` and begin to watch."""
        self._transport.registerProducer(self, streaming=True)
        self._transport.write(body)
        if not self._buffered:
            self._finish()

    def pauseProducing(self) -> None:
        """The transport holds more than it wants to."""
        self._buffered = True

    def resumeProducing(self) -> None:
        """The transport holds nothing any more."""
        self._finish()

    def stopProducing(self) -> None:
        """The connection is gone; its end is told elsewhere."""
        self.over = True

    def _finish(self) -> None:
        if not self.over:
            self.over = True
            self._transport.unregisterProducer()
            self._done()
