"""Relay the upstream's body through a filter to the client, at the client's pace.

Per chunk: one call of the filter, one write.  The client's pause goes straight to the upstream's socket.
Where the end of the body came with its last piece, both go out in one write.

A stream whose head is held goes out from its first words on; some three seconds after their first byte at the
latest.  One that has had its last word has ended well, whatever follows: its end, a break, nothing, or
heartbeats alone.  For ten seconds it may still send what belongs to it, such as its counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import Struct

from mgw.canonical.reply import TokenUsage
from mgw.exchange.chunk_lane import ChunkLane, EventLookers
from mgw.exchange.exchange import Exchange
from mgw.exchange.received import Fault
from mgw.exchange.response_channel import ResponseChannel
from mgw.exchange.silence import Silence
from mgw.nouns.errors import Cause, GatewayError
from mgw.reactor.deadline import Deadline
from mgw.upstream.client import UpstreamResponse

HELD_SECONDS: Final = 3.0
"""How long a stream is held that says nothing, from its first byte on (contract 2.19)."""


LAST_SECONDS: Final = 10.0
"""How long a stream may last behind its last word (contract 7.4)."""


class BodyFilter(Protocol):
    """Filters the body of a response; bytes in, bytes out."""

    @property
    def ended(self) -> bool:
        """Whether the provider has sent its last event, though its body may not have ended."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the last word has been said: of the answer nothing follows, and silence ends it well."""
        ...

    @property
    def complete(self) -> bool:
        """Whether nothing is missing if the provider's body breaks now."""
        ...

    @property
    def sent_last_event(self) -> bool:
        """Whether what was returned so far ends with the last event of a stream."""
        ...

    def feed(self, data: bytes) -> bytes:
        """Return what the client gets for a piece.

        :raises GatewayError: the provider says that its response broke, or sends what it must not;
            :meth:`fail` then has the last word.
        """
        ...

    def finish(self) -> bytes:
        """Return what the client gets at the end.

        :raises GatewayError: the response is not complete.
        """
        ...

    def fail(self, error: GatewayError) -> bytes | None:
        """Return what shows the client that the body broke, or ``None`` to abort the connection."""
        ...

    def fault(self) -> Fault | None:
        """Return what the bytes that passed say went wrong, though they ended in order; ``None``: nothing."""
        ...

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        ...

    def keepalive(self) -> bytes:
        """Return bytes that mean nothing to the client, where some may stand now."""
        ...

    def event_lookers(self) -> EventLookers | None:
        """Return who looks at the events, if :meth:`feed` does nothing else; ``None``: it does more."""
        ...


class HeldHead(Struct, frozen=True):
    """The head of a response, which waits until the provider says something."""

    send: Callable[[], None]
    """Sends it, for good."""
    send_early: Callable[[], None]
    """Sends it for a keep-alive, if it is not out, and goes on waiting."""
    awaits_words: Callable[[], bool]
    """Whether nothing was said, so that an error can still be the response."""
    let_go: Callable[[], bytes] | None = None
    """Ends the waiting, and returns what was held of the body; ``None``: it may last."""
    body_filter: BodyFilter | None = None
    """The filter from then on, if another."""


@dataclass(slots=True, eq=False, repr=False)
class Relay:
    """One body on its way; ``on_end`` is called when the last byte was handed on, or with what broke it."""

    exchange: Exchange
    response: UpstreamResponse
    body_filter: BodyFilter
    channel: ResponseChannel
    on_end: Callable[[Exception | None], None]
    """Gets the :class:`GatewayError` that broke the body, after the client was shown that it broke; where the
    head was still held, the client was shown nothing."""
    silence: Silence | None = None
    """The silence towards the client, which keep-alives break; ``None``: they do not."""
    held_head: HeldHead | None = None
    """``None``: the client has the head."""
    ended: bool = False
    _waiting: Deadline | None = field(init=False, default=None)
    """The deadline that ends the waiting for words."""
    _last_word: Deadline | None = field(init=False, default=None)
    """The deadline that ends a stream behind its last word."""
    _is_finished: bool = field(init=False, default=False)
    _last_piece: bytes = field(init=False, default=b"")
    """What goes out with the end, which follows at once."""

    def start(self) -> None:
        """Take the body from the response."""
        self._use_filter(self.body_filter)
        if self.silence is not None:
            self.silence.take(self._on_silence)
        self.response.deliver_body(self)
        if not self.ended:
            self.channel.register(self)  # not before: a pause of a body that does not flow yet would be lost
            if self.exchange.received.first_byte_at is None and self.held_head is None:
                self.channel.flush()

    def cancel(self) -> None:
        """Stop both sides; ``on_end`` is not called."""
        self.ended = True
        self._stop_timers()
        self.response.cancel()

    def cut(self, error: GatewayError) -> None:
        """Stop both sides, and show the client that the body broke; ``on_end`` is called with the error."""
        self.response.cancel()
        self._fail(error)

    def on_body_data(self, data: bytes) -> None:
        """Hand a piece on."""
        if self.exchange.received.first_byte_at is None:
            self.exchange.received.first_byte_at = self.exchange.clock.seconds()
        try:
            out = self.body_filter.feed(data)
        except GatewayError as error:
            self.response.cancel()  # what may follow means nothing
            self._fail(error)
            return
        if self.held_head is not None:
            self._look_for_words(self.held_head)
        response = self.response
        if out and (self.body_filter.ended or (response.all_delivered and not response.paused)):
            self._last_piece = out
        elif out:
            self.channel.write(out)
            if self.silence is not None:
                self.silence.deadline.start(self.silence.seconds)
        if self.body_filter.ended:
            response.discard_rest()  # the client need not wait for a provider that forgets to hang up
            self.on_body_end()
        elif self.body_filter.finished is not self._is_finished:
            self._on_last_word()

    def on_body_end(self) -> None:
        """End the client's response."""
        try:
            rest = self.body_filter.finish()
        except GatewayError as error:
            self._fail(error if error.cause else error.because(Cause.TRUNCATED))
            return
        except Exception as error:  # a bug: whoever waits must hear of it, not the upstream's connection
            self._stop_timers()
            self._send_last_piece()
            self._end(error)
            return
        if self.silence is not None or self._waiting is not None or self._last_word is not None:
            self._stop_timers()
        try:
            if self.held_head is not None:
                self._send_held_head()
            if rest:
                self._send_last_piece()
            self.channel.unregister()
            self.channel.finish(rest or self._last_piece)
            self.exchange.received.fault = self.body_filter.fault()
        except Exception as error:  # as above
            self._end(error)
        else:
            self._end(None)

    def on_body_error(self, error: GatewayError) -> None:
        """End the client's response visibly broken, unless it has all of it."""
        if self.body_filter.complete:
            self.on_body_end()
        else:
            self._fail(error)

    def _fail(self, error: GatewayError) -> None:
        self._stop_timers()
        if self.held_head is not None:
            if self.held_head.awaits_words():
                self.channel.unregister()
                self._end(error)
                return
            self._send_held_head()
        try:
            self._send_last_piece()
            last_words = self.body_filter.fail(error)
            self.channel.unregister()
            if last_words is None:
                self.channel.abort()
            else:
                self.channel.finish(last_words)
        except Exception as bug:  # as above
            self._end(bug)
        else:
            self._end(error)

    def pause(self) -> None:
        """The client reads more slowly than the upstream writes."""
        self.response.pause()

    def resume(self) -> None:
        """The client has caught up."""
        self.response.resume()

    def _on_silence(self) -> None:
        if not self.response.paused:  # a client that does not read needs no keep-alive
            keepalive = self.body_filter.keepalive()
            if keepalive:
                if self.held_head is not None:
                    self.held_head.send_early()
                self.channel.write(keepalive)
                self.channel.flush()

    def _use_filter(self, body_filter: BodyFilter) -> None:
        self.body_filter = body_filter
        self.exchange.received.handed_on = body_filter
        lookers = None if self.held_head is not None else body_filter.event_lookers()
        if lookers is not None:
            writer = self.channel.chunk_writer()
            self.response.chunk_receiver = ChunkLane(writer, body_filter, *lookers, self.silence)

    def _look_for_words(self, held_head: HeldHead) -> None:
        """Send the head where something was said; else wait for it, though not for long."""
        if not held_head.awaits_words():
            self._send_held_head()
        elif held_head.let_go is not None and self._waiting is None:
            self._waiting = Deadline(self.exchange.wheel, self._on_long_waiting)
            self._waiting.start(HELD_SECONDS)

    def _on_long_waiting(self) -> None:
        """Wait for words no longer."""
        held_head = self.held_head
        if held_head is None or held_head.let_go is None:
            return
        try:
            out = held_head.let_go()
        except GatewayError as error:
            self.response.cancel()
            self._fail(error)
            return
        self._send_held_head()
        if out:
            self.channel.write(out)
        self.channel.flush()

    def _on_last_word(self) -> None:
        """Wait for the end of a stream that has said all, or wait no longer: it says more."""
        self._is_finished = is_finished = self.body_filter.finished
        if self._last_word is not None:
            self._last_word.close()
            self._last_word = None
        if is_finished and not self.response.all_delivered:
            self._last_word = Deadline(self.exchange.wheel, self._on_last_silence)
            self._last_word.start(LAST_SECONDS)

    def _on_last_silence(self) -> None:
        """End the client's response, and leave the provider, who has said all."""
        if self.response.paused and self._last_word is not None:  # it may be the client who holds it up
            self._last_word.start(LAST_SECONDS)
            return
        self.response.cancel()
        self.on_body_end()

    def _send_held_head(self) -> None:
        held_head, self.held_head = self.held_head, None
        assert held_head is not None, "the caller has checked"
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None
        held_head.send()
        if held_head.body_filter is not None:
            self._use_filter(held_head.body_filter)

    def _send_last_piece(self) -> None:
        """Send it by itself: more comes behind it, or nothing."""
        last_piece, self._last_piece = self._last_piece, b""
        if last_piece:
            self.channel.write(last_piece)

    def _end(self, error: Exception | None) -> None:
        self.ended = True
        on_end, self.on_end = self.on_end, _ignore  # who began this is referred to no longer
        on_end(error)

    def _stop_timers(self) -> None:
        silence, self.silence = self.silence, None
        if silence is not None:
            silence.leave()
        for timer in (self._waiting, self._last_word):
            if timer is not None:
                timer.close()
        self._waiting = self._last_word = None


def _ignore(_: Exception | None) -> None:
    """The end was told already."""
