"""A connection above ``max_clients``: it is told so, in as little work as that takes.

Nothing of its request is parsed: the first bytes are answered with a 503 in a shape that the clients of all
families can read, and what follows is read and discarded for a moment, since a reset would take the answer
along.  Only ``/healthz`` is answered as ever: the process lives, and whoever watches it must not restart it.
A client that sends nothing is closed soon; how many may wait at a time is the factory's to say.
"""

from __future__ import annotations

import re
from time import time
from typing import TYPE_CHECKING, Final, cast

from twisted.internet.interfaces import ISSLTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure

from mgw.http.response_writer import date_header
from mgw.reactor.deadline import Deadline
from mgw.reactor.transport import RelayTransport

if TYPE_CHECKING:
    from mgw.web.channel import ChannelFactory

SECONDS: Final = 5.0
"""How long such a client may take to send something, and then to go."""
MAX_DISCARDED: Final = 64 * 1024 * 1024

_HEALTH: Final = re.compile(rb"(?:GET|HEAD) /healthz[ ?]")
_HEALTHY: Final = b'{"status":"ok"}'
_FULL: Final = (
    b'{"type":"error","error":{"message":"the gateway has reached its limit of clients; try again",'
    b'"type":"overloaded_error","param":null,"code":"overloaded"}}'
)
_HEAD: Final = (
    b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nDate: %b\r\n"
    b"Cache-Control: no-store\r\n%bConnection: close\r\n\r\n"
)


class TurnedAway(Protocol):
    """One such connection."""

    def __init__(self, factory: ChannelFactory) -> None:
        self._factory = factory
        self._deadline = Deadline(factory.clock, self.abort)
        self._answered = False
        self._discarded = 0

    def connectionMade(self) -> None:
        """Wait for the first bytes: what comes before them would be no answer to anything."""
        self._transport = cast(RelayTransport, self.transport)
        self._factory.turn_away(self)
        self._deadline.start(SECONDS)

    def dataReceived(self, data: bytes) -> None:
        """Answer once, and discard the rest."""
        if not self._answered:
            self._answered = True
            self._transport.write(_answer_to(data))
            whole = ISSLTransport.providedBy(self.transport) or not hasattr(
                self.transport, "loseWriteConnection"
            )
            (self._transport.loseConnection if whole else self._transport.loseWriteConnection)()
            self._deadline.start(SECONDS)
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED:
            self._transport.pauseProducing()

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: ARG002  Twisted's signature
        """Make room for another."""
        self._deadline.close()
        self._factory.went_away(self)

    def abort(self) -> None:
        """Break the connection: its time is over."""
        self._transport.abortConnection()


def _answer_to(data: bytes) -> bytes:
    if _HEALTH.match(data):
        body = b"" if data.startswith(b"HEAD") else _HEALTHY
        return _HEAD % (b"200 OK", len(_HEALTHY), date_header(time())[1], b"") + body
    body = b"" if data.startswith(b"HEAD ") else _FULL
    now = date_header(time())[1]
    return _HEAD % (b"503 Service Unavailable", len(_FULL), now, b"Retry-After: 1\r\n") + body
