"""The sending half of a channel, which the handler of a request calls.

One response after another; how its end is marked and whether the connection stays open follow from the
request, which the other half (:mod:`mgw.web.channel`) has read.
"""

from __future__ import annotations

from typing import Final

from mgw.exchange.response_channel import Producer
from mgw.http.body import ChunkedRequestBody, SizedRequestBody
from mgw.http.response_writer import NO_CONTENT, ResponseHeadBuilder, ResponseWriter, render_relayed
from mgw.reactor.twisted_fast.eager_writer import EagerWriter
from mgw.web.interfaces import ChannelContext
from mgw.wire.headers import RawHeaders

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ResponseSender:
    """Sends the response to the request that is being served; while there is none, nothing happens."""

    __slots__ = (
        "_body",
        "_context",
        "_drained_count",
        "_full",
        "_keep_alive",
        "_may_continue",
        "_method",
        "_out",
        "_producer",
        "_response_writer",
        "_serving",
        "_takes_framed_body",
        "_version",
    )

    _out: EagerWriter
    _response_writer: ResponseWriter

    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        # the request
        self._serving = False
        self._method = self._version = b""
        self._takes_framed_body = False
        self._keep_alive = self._may_continue = False
        self._body: SizedRequestBody | ChunkedRequestBody | None = None
        """The part of the request's body that has not come yet; ``None`` once all has."""
        # the response
        self._producer: Producer | None = None
        self._full = False
        self._drained_count = 0
        """How often the transport's buffer was emptied."""

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Start the response.

        The end of the body is marked by a ``Content-Length`` among the headers; without one by chunks, in
        HTTP/1.0 by the end of the connection.  A head with a content length waits for the first bytes of the
        body.
        """
        if self._serving:
            self._start(ResponseHeadBuilder(status, reason, headers))

    def relay_head(self, status: int, reason: bytes, lines: bytes, content_length: int | None) -> None:
        """Start a response that is passed on; see :class:`~mgw.exchange.response_channel.ResponseChannel`."""
        if not self._serving:
            return
        if lines and self._may_relay_lines(status):
            self._response_writer.start_relayed(status, reason, lines, content_length)
        else:
            self._start(ResponseHeadBuilder.of_lines(status, reason, lines, content_length))

    def relay_whole(
        self, status: int, reason: bytes, lines: bytes, content_length: int | None, body: bytes
    ) -> None:
        """Send a response that is passed on, and is all there: in one write, if nothing is unusual."""
        fits = content_length is None or content_length == len(body)
        if self._serving and fits and lines and self._may_relay_lines(status):
            self._out.write(render_relayed(status, reason, lines, content_length, body))
            self._on_response_end()
        else:
            self.relay_head(status, reason, lines, content_length)
            self.write(body)
            self.finish()

    def _may_relay_lines(self, status: int) -> bool:
        """Whether a provider's header lines may be sent as they are: HTTP/1.1's framing, nothing to close."""
        stays_open = self._keep_alive and self._body is None and not self._context.draining
        return stays_open and self._takes_framed_body and status not in NO_CONTENT

    def _start(self, head: ResponseHeadBuilder) -> None:
        head.choose_framing(self._method, self._version)
        if self._body is not None or not self._keep_alive or self._context.draining:
            head.close = True
        self._keep_alive = not head.close
        self._response_writer.start(head)

    def write(self, data: bytes) -> None:
        """Send a piece of the body.  More than the head announced breaks the connection."""
        if data and self._serving and not self._response_writer.write(data):
            self.abort()

    def finish(self, last_piece: bytes = b"") -> None:
        """End the response behind a last piece of the body, if there is one, in one write where that is
        possible.  Less than the head announced breaks the connection, and so does more.
        """
        if not self._serving:
            return
        if not self._response_writer.finish(last_piece):
            self.abort()
            return
        self._on_response_end()

    def flush(self) -> None:
        """Send a head that waits for the first bytes of its body."""
        if self._serving:
            self._response_writer.flush()

    def send_continue(self) -> None:
        """Let a client that waits for it send its body (RFC 9110 10.1.1)."""
        if self._serving and self._may_continue and not self._response_writer.started:
            self._may_continue = False
            self._out.write(_CONTINUE)

    def register(self, producer: Producer) -> None:
        """Name what is paused while the client receives less than is written."""
        self._producer = producer
        if self._full:
            producer.pause()

    def unregister(self) -> None:
        """There is nothing to pause any more."""
        self._producer = None

    def pauseProducing(self) -> None:
        """The transport's buffer is full."""
        self._full = True
        if self._producer is not None:
            self._producer.pause()

    def resumeProducing(self) -> None:
        """The transport's buffer is empty."""
        self._full = False
        self._drained_count += 1
        self._out.on_drained()
        if self._producer is not None:
            self._producer.resume()
        self._on_drained()

    def stopProducing(self) -> None:
        """The connection is lost, which the other half hears too."""

    def truncate(self) -> None:
        """End a response that will stay incomplete, where the client sees that the rest is missing."""
        if not self._serving:  # truncated already: what was written is on its way
            return
        if self._response_writer.truncate():
            self._on_truncated()
        else:
            self.abort()

    def abort(self) -> None:
        """Break the connection."""
        raise NotImplementedError

    def _on_drained(self) -> None:
        """The client has received everything."""
        raise NotImplementedError

    def _on_response_end(self) -> None:
        """The response is complete."""
        raise NotImplementedError

    def _on_truncated(self) -> None:
        """The response has ended too early, and an orderly close shows it."""
        raise NotImplementedError
