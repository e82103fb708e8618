"""Connect to a provider for a session, within a time limit, and ask it to switch protocols.

TCP and TLS are made as for HTTP (:mod:`mgw.upstream.dial`), with the same checks, limits and words for what
goes wrong.  A session has a connection of its own, outside of the pool.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, IProtocol
from twisted.internet.protocol import Factory

from mgw.nouns.errors import GatewayError
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.realtime.handshake import ClientHandshake
from mgw.realtime.upstream_socket import Answer, UpstreamSocket
from mgw.upstream.client import Upstream
from mgw.upstream.dial import Attempt


def connect_socket(upstream: Upstream, handshake: ClientHandshake, wheel: TimerWheel) -> Deferred[Answer]:
    """Connect to a provider and ask it to switch protocols; cancel to stop.

    The Deferred fails with :class:`~mgw.upstream.failure.UpstreamFailure`.
    """
    attempt = _DialAttempt(upstream, handshake, wheel)
    attempt.start()
    return attempt.done


class _DialAttempt(Factory):
    """One attempt, and the limit on TCP and TLS together; the factory of the protocols of its connections."""

    noisy = False

    def __init__(self, upstream: Upstream, handshake: ClientHandshake, wheel: TimerWheel) -> None:
        self.done: Deferred[Answer] = Deferred(lambda _: self._stop())
        self._upstream = upstream
        self._handshake = handshake
        self._wheel = wheel
        self._deadline = Deadline(wheel, self._on_deadline)
        self._attempt: Attempt | None = None
        self._socket: UpstreamSocket | None = None
        self._is_over = False

    def start(self) -> None:
        self._deadline.start(self._upstream.limits.connect)
        attempt = self._upstream.dialler.dial(self, self._on_connected, self._on_failed)
        if self._socket is None and not self._is_over:
            self._attempt = attempt

    def buildProtocol(self, _: IAddress | None) -> UpstreamSocket:
        return UpstreamSocket(self._upstream, self._handshake, self._wheel)

    def _on_connected(self, protocol: IProtocol) -> None:
        self._attempt = None
        socket: Any = protocol  # Any: it is an UpstreamSocket, as the factory makes nothing else
        self._socket = socket
        socket.ask_when_ready(self._deadline.close, self._on_failed, self._on_answer)

    def _on_answer(self, answer: Answer | GatewayError) -> None:
        self._socket = None
        if isinstance(answer, GatewayError):
            self._fail(answer)
        elif not self._is_over:
            self._stop()
            self.done.callback(answer)

    def _on_failed(self, error: Exception) -> None:
        self._fail(self._upstream.describe_error(error))

    def _on_deadline(self) -> None:
        self._on_failed(TimeoutError())

    def _fail(self, error: GatewayError) -> None:
        if not self._is_over:
            self._stop()
            self.done.errback(error)

    def _stop(self) -> None:
        self._is_over = True  # before it is cancelled: an attempt may call that its failure
        self._deadline.close()
        attempt, self._attempt = self._attempt, None
        socket, self._socket = self._socket, None
        if attempt is not None:
            attempt.cancel()
        if socket is not None:
            socket.abort()
