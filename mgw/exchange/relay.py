"""From the upstream's body through a filter to the client, at the client's pace.

Per chunk: one call of the filter, one write.  The client's pause goes straight to the upstream's socket.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mgw.canonical.reply import TokenUsage
from mgw.errors import GatewayError
from mgw.exchange.client import Client
from mgw.exchange.exchange import Exchange
from mgw.upstream.client import Answer


class BodyFilter(Protocol):
    """What a body walks through; bytes in, bytes out."""

    def feed(self, data: bytes) -> bytes:
        """Return what the client gets for a piece."""
        ...

    def finish(self) -> bytes:
        """Return what the client gets at the end."""
        ...

    def fail(self, error: GatewayError) -> bytes | None:
        """Return what tells the client that the body broke, or ``None`` to abort the connection."""
        ...

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        ...


@dataclass(slots=True)
class Relay:
    """One body on its way; ``done`` fires when the last byte was handed on, or fails with what broke it."""

    exchange: Exchange
    answer: Answer
    body_filter: BodyFilter
    client: Client
    done: Deferred[None] = field(init=False)

    def __post_init__(self) -> None:
        self.done = Deferred(lambda _: self.answer.abandon())

    def body_arrived(self, data: bytes) -> None:
        """Hand a piece on."""
        if self.exchange.first_byte_at is None:
            self.exchange.first_byte_at = self.exchange.clock.seconds()
        out = self.body_filter.feed(data)
        if out:
            self.client.write(out)

    def body_ended(self) -> None:
        """End the client's answer."""
        try:
            rest = self.body_filter.finish()
            if rest:
                self.client.write(rest)
            self.client.unregister()
            self.client.finish()
        except Exception:  # a bug: whoever waits must hear of it, not the upstream's connection
            self.done.errback(Failure())
        else:
            self.done.callback(None)

    def body_broke(self, error: GatewayError) -> None:
        """End the client's answer visibly broken."""
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


def relay(exchange: Exchange, answer: Answer, body_filter: BodyFilter, client: Client) -> Deferred[None]:
    """Relay the body of an answer whose head the client has; cancel to stop both sides.

    The Deferred fails with the :class:`GatewayError` that broke the body, after the client was shown that
    it broke.
    """
    exchange.usage = body_filter.usage
    run = Relay(exchange, answer, body_filter, client)
    answer.deliver_to(run)
    if not run.done.called:
        client.register(run)  # not before: a pause of a body that does not flow yet would be forgotten
        if exchange.first_byte_at is None:
            client.flush()
    return run.done
