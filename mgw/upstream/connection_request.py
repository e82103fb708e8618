"""A request for a connection: through the pool's queue, if there is one, then TCP and TLS.

::

    NEW --no slot--> WAITING
     |                  |
     +------slot--------+--> DIALLING --TCP, then TLS--> ENDED
     |                  |       |
     +---idle, full-----+-------+--> ENDED: served by an idle connection, failed or cancelled

Each request is one object with one deadline, and ends by one call or, where it is cancelled, by none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, Protocol, cast

from twisted.internet.interfaces import IProtocol, IProtocolFactory
from twisted.python.failure import Failure

from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.deadline import Deadline, TimerWheel
from mgw.upstream.connection import Connection
from mgw.upstream.dial import Attempt, Dialler
from mgw.upstream.failure import UpstreamFailure
from mgw.upstream.request import UpstreamLimits

RETRY_AFTER_SECONDS: Final = 1.0


class _State(Enum):
    """How far a request has come."""

    NEW = auto()
    WAITING = auto()
    DIALLING = auto()
    ENDED = auto()


class RequestOwner(Protocol):
    """Whom a request belongs to: the pool."""

    provider: str
    limits: UpstreamLimits
    wheel: TimerWheel

    @property
    def describe_error(self) -> Callable[[Exception], UpstreamFailure]:
        """Return what says in our words why a connection could not be made."""

    def on_wait_ended(self, request: ConnectionRequest) -> None:
        """The request has left the queue."""

    def on_dialled(self, connection: Connection) -> None:
        """The request's slot has a connection."""

    def on_dial_failed(self) -> None:
        """The request's slot is free again."""


@dataclass(slots=True, eq=False, repr=False)
class ConnectionRequest:
    """One request for a connection.  ``on_ready`` or ``on_error`` is called once."""

    owner: RequestOwner
    on_ready: Callable[[Connection], Any] | None  # Any: what it returns is of no interest
    on_error: Callable[[Exception], Any] | None  # Any: as above
    fresh: bool
    """Whether the request insists on a new connection."""
    _deadline: Deadline | None = None
    _state: _State = _State.NEW
    _attempt: Attempt | None = None
    """The attempt in progress, at TCP and then at TLS."""

    def cancel(self) -> None:
        """Call nobody any more; abort what is under way.  Does nothing where the request has ended."""
        self.on_ready = self.on_error = None
        self._abandon()
        self._end()

    # What the pool calls

    def wait(self) -> None:
        """Wait in the queue, but not for too long."""
        self._state = _State.WAITING
        self._start_deadline()

    def dial(self, dialler: Dialler, factory: IProtocolFactory) -> None:
        """Make a new connection."""
        self._state = _State.DIALLING
        attempt = dialler.dial(factory, self._on_connected, self._on_failed)
        if self._is_dialling():  # a connection to the same host may be ready by now
            self._start_deadline()
            if self._attempt is None:
                self._attempt = attempt

    def succeed(self, connection: Connection) -> None:
        """Pass ``connection`` on."""
        on_ready = self.on_ready
        self._end()
        if on_ready is not None:
            on_ready(connection)

    def fail(self, error: Exception) -> None:
        """Pass ``error`` on."""
        on_error = self.on_error
        self._end()
        if on_error is not None:
            on_error(error)

    def _is_dialling(self) -> bool:
        return self._state is _State.DIALLING

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = Deadline(self.owner.wheel, self._on_deadline)
        self._deadline.start(self.owner.limits.connect)

    def _on_connected(self, protocol: IProtocol) -> None:
        connection = cast(Connection, protocol)  # the factory makes nothing else
        if connection.is_ready:
            self._on_ready(None, connection)
            return
        ready = connection.when_ready()
        self._attempt = ready
        _ = ready.addCallbacks(self._on_ready, self._on_handshake_failed, callbackArgs=(connection,))

    def _on_ready(self, _: None, connection: Connection) -> None:
        self._state = _State.ENDED
        self.owner.on_dialled(connection)
        self.succeed(connection)

    def _on_handshake_failed(self, failure: Failure) -> None:
        self._on_failed(cast(Exception, failure.value))

    def _on_failed(self, error: Exception) -> None:
        if not self._is_dialling():  # abandoned
            return
        self._state = _State.ENDED
        self.owner.on_dial_failed()
        # From a resolver, a socket or OpenSSL: described in our words.  Nor has whoever waits cancelled it.
        self.fail(self.owner.describe_error(error))

    def _on_deadline(self) -> None:
        seconds = self.owner.limits.connect
        if self._state is _State.WAITING:
            error: Exception = overloaded(
                self.owner.provider, f"none of its connections became free within {seconds:g} s"
            )
        else:
            error = self.owner.describe_error(TimeoutError())
        self._abandon()
        self.fail(error)

    def _abandon(self) -> None:
        """Leave the queue, or stop dialling and give up the slot."""
        attempt, self._attempt = self._attempt, None
        state, self._state = self._state, _State.ENDED
        if state is _State.WAITING:
            self.owner.on_wait_ended(self)
        elif state is _State.DIALLING:
            if attempt is not None:
                attempt.cancel()
            self.owner.on_dial_failed()

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.close()
        self._state = _State.ENDED
        self.on_ready = self.on_error = self._attempt = None


def overloaded(provider: str, why: str) -> GatewayError:
    """Return the error of a provider of which no connection can be had."""
    message = f"provider {provider} is busy: {why}"
    return GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_AFTER_SECONDS)
