"""One stream on its way to the client: first its head, which may be held back, then its body.

::

    held back ── it says something, or a keep-alive is due ── head sent ── body ── end
        └── it breaks, or the provider's error comes first: another attempt, or a refusal in its place
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mgw.exchange.early_head import EarlyHead, silence_for
from mgw.exchange.exchange import Exchange
from mgw.exchange.received import Fault
from mgw.exchange.relay import HeldHead, Relay
from mgw.exchange.response import EarlyFailure, FullResponse, StreamingResponse, send_head
from mgw.exchange.response_channel import ResponseChannel
from mgw.nouns.errors import GatewayError
from mgw.upstream.client import UpstreamResponse

_BAD_REQUEST = 400


@dataclass(slots=True, eq=False, repr=False)
class StreamDelivery:
    """Hands one stream on.

    :param on_open: called before a head that was held back goes out: from then on nothing else can be sent.
    """

    exchange: Exchange
    channel: ResponseChannel
    streaming: StreamingResponse
    early_head: EarlyHead | None
    on_open: Callable[[], None]
    early_failure: EarlyFailure | None = field(init=False)
    """What becomes of a failure while the client has nothing of the stream; ``None`` once it has the head."""

    def __post_init__(self) -> None:
        self.early_failure = self.streaming.early_failure

    def relay(self, response: UpstreamResponse, on_end: Callable[[Exception | None], None]) -> Relay:
        """Send the head unless it is held back, and return what relays the body once it is started."""
        held_head, early_failure = None, self.early_failure
        if early_failure is None:
            self._send_head()
        else:
            if self.exchange.upstream_time is not None:
                self.exchange.upstream_time.begin()  # for the first event
            held_head = HeldHead(
                self._send_held_head,
                _ignore if self.early_head is None else self.early_head.send,
                early_failure.awaits_words,
                early_failure.let_go,
                early_failure.body_filter,
            )
        silence = silence_for(self.early_head, self.exchange, self.streaming)
        return Relay(
            self.exchange, response, self.streaming.body_filter, self.channel, on_end, silence, held_head
        )

    def refuse(self, early_failure: EarlyFailure, error: GatewayError) -> FullResponse:
        """Return the refusal that takes the place of a stream of which the client has nothing.

        :raises GatewayError: the gateway's own error, where that is what it was.
        """
        refusal = early_failure.refuse(error)
        status = error.status if refusal.status < _BAD_REQUEST else refusal.status
        self.exchange.received.fault = Fault(error, status)
        return refusal

    def _send_held_head(self) -> None:
        self.early_failure = None
        self.on_open()
        self._send_head()

    def _send_head(self) -> None:
        if self.early_head is None:
            send_head(self.exchange, self.streaming, self.channel)
        else:
            self.early_head.open(self.streaming)


def _ignore() -> None:
    """No head goes out early."""
