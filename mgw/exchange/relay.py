"""From the upstream's body through a filter to the client, at the client's pace.

Per chunk: one call of the filter, one write.  The client's pause goes straight to the upstream's socket.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.canonical.reply import TokenUsage
from mgw.errors import Cause, GatewayError
from mgw.exchange.client import Client
from mgw.exchange.exchange import Exchange
from mgw.reactor.deadline import Deadline
from mgw.upstream.client import Answer


class BodyFilter(Protocol):
    """What a body walks through; bytes in, bytes out."""

    @property
    def done(self) -> bool:
        """Whether the provider has said its last word, though its body may not have ended."""
        ...

    @property
    def whole(self) -> bool:
        """Whether a break of the provider's body would take nothing of it away."""
        ...

    @property
    def handed_all(self) -> bool:
        """Whether what was returned so far ends with the last event of a stream."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Return what the client gets for a piece.

        :raises GatewayError: the provider says that its answer broke, or sends what it must not;
            :meth:`fail` then has the last words.
        """
        ...

    def finish(self) -> bytes:
        """Return what the client gets at the end.

        :raises GatewayError: the answer is not complete.
        """
        ...

    def fail(self, error: GatewayError) -> bytes | None:
        """Return what tells the client that the body broke, or ``None`` to abort the connection."""
        ...

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        ...

    def keepalive(self) -> bytes:
        """Return bytes that mean nothing to the client, where some may stand now."""
        ...


class HeldHead(Struct, frozen=True):
    """The head of an answer, which waits until the provider has said the first of it."""

    begin: Callable[[], None]
    """Sends it."""
    unsaid: Callable[[], bool]
    """Whether nothing has been said yet, so that an error can still be the answer."""


@dataclass(slots=True)
class Relay:
    """One body on its way; ``done`` fires when the last byte was handed on, or fails with what broke it."""

    exchange: Exchange
    answer: Answer
    body_filter: BodyFilter
    client: Client
    keepalive_seconds: float | None = None
    """The provider's silence after which the client gets a sign of life; ``None``: never."""
    held: HeldHead | None = None
    """``None``: the client has the head."""
    done: Deferred[None] = field(init=False)
    _silence: Deadline | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.done = Deferred(self._cancelled)
        if self.keepalive_seconds is not None:
            self._silence = Deadline(self.exchange.clock, self._silent)
            self._silence.start(self.keepalive_seconds)

    def body_arrived(self, data: bytes) -> None:
        """Hand a piece on."""
        if self.exchange.first_byte_at is None:
            self.exchange.first_byte_at = self.exchange.clock.seconds()
        try:
            out = self.body_filter.feed(data)
        except GatewayError as error:
            self.answer.abandon()  # what may follow means nothing
            self._break(error)
            return
        if self.held is not None and not self.held.unsaid():
            self._begin()
        if out:
            self.client.write(out)
            if self._silence is not None and self.keepalive_seconds is not None:
                self._silence.start(self.keepalive_seconds)
        if self.body_filter.done:
            self.answer.release()  # the client need not wait for a provider that forgets to hang up
            self.body_ended()

    def body_ended(self) -> None:
        """End the client's answer."""
        try:
            rest = self.body_filter.finish()
        except GatewayError as error:
            self._break(error if error.cause else error.because(Cause.TRUNCATED))
            return
        except Exception:  # a bug: whoever waits must hear of it, not the upstream's connection
            self._over()
            self.done.errback(Failure())
            return
        self._over()
        try:
            if self.held is not None:
                self._begin()
            if rest:
                self.client.write(rest)
            self.client.unregister()
            self.client.finish()
        except Exception:  # as above
            self.done.errback(Failure())
        else:
            self.done.callback(None)

    def body_broke(self, error: GatewayError) -> None:
        """End the client's answer visibly broken, unless it has all of it."""
        if self.body_filter.whole:
            self.body_ended()
        else:
            self._break(error)

    def _break(self, error: GatewayError) -> None:
        self._over()
        if self.held is not None:
            if self.held.unsaid():
                self.client.unregister()
                self.done.errback(Failure(error))
                return
            self._begin()
        try:
            last_words = self.body_filter.fail(error)
            self.client.unregister()
            if last_words is None:
                self.client.abort()
            else:
                self.client.write(last_words)
                self.client.finish()
        except Exception:  # as above
            self.done.errback(Failure())
        else:
            self.done.errback(Failure(error))

    def pause(self) -> None:
        """The client reads more slowly than the upstream writes."""
        self.answer.pause()

    def resume(self) -> None:
        """The client has caught up."""
        self.answer.resume()

    def _silent(self) -> None:
        if not self.answer.paused:  # a client that does not read needs no sign of life
            sign = self.body_filter.keepalive()
            if sign:
                if self.held is not None:
                    self._begin()
                self.client.write(sign)
                self.client.flush()
        if self._silence is not None and self.keepalive_seconds is not None:
            self._silence.start(self.keepalive_seconds)

    def _begin(self) -> None:
        held, self.held = self.held, None
        assert held is not None, "whoever calls has looked"
        held.begin()

    def _cancelled(self, _: Deferred[None]) -> None:
        self._over()
        self.answer.abandon()

    def _over(self) -> None:
        if self._silence is not None:
            self._silence.close()
            self._silence = None


def relay(
    exchange: Exchange,
    answer: Answer,
    body_filter: BodyFilter,
    client: Client,
    keepalive_seconds: float | None = None,
    held: HeldHead | None = None,
) -> Deferred[None]:
    """Relay the body of an answer; cancel to stop both sides.

    The Deferred fails with the :class:`GatewayError` that broke the body, after the client was shown that
    it broke; where the head was still held, the client was shown nothing.
    """
    exchange.usage = body_filter.usage
    exchange.handed_all = lambda: body_filter.handed_all
    run = Relay(exchange, answer, body_filter, client, keepalive_seconds, held)
    answer.deliver_to(run)
    if not run.done.called:
        client.register(run)  # not before: a pause of a body that does not flow yet would be forgotten
        if exchange.first_byte_at is None and run.held is None:
            client.flush()
    return run.done
