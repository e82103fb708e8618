"""Operators' requests that arrive at a worker and are forwarded to the supervisor.

::

    client -- HTTP --> worker -- UNIX socket: one line about the client, then HTTP --> supervisor

The line comes first on every connection, each of which carries one request.  It is the worker's alone: what a
client sends follows behind it, as a head that was read strictly and is rendered anew.  The supervisor decides
who may see what by the client's address and headers, so all of these go on but what frames the message; so
does the version, since the dashboard takes HTTP/1.0 for a proxy's.  A ``Connection`` header removes no other
one: a client must not be able to hide what a proxy says of it.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import UNIXClientEndpoint
from twisted.internet.interfaces import IReactorTime, IStreamClientEndpoint

from mgw.http.request_head import RequestHead
from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream.client import Upstream, UpstreamLimits, UpstreamResponse
from mgw.upstream.connection import ResponseWaiter
from mgw.web.server_request import ServerRequest
from mgw.web.server_response import ServerResponse
from mgw.wire.headers import HOP_BY_HOP, RawHeaders
from mgw.wire.media_types import is_event_stream

if TYPE_CHECKING:
    from mgw.web.gateway_request import GatewayRequest  # no more than its type: see mgw.app.late_app

LIMITS: Final = UpstreamLimits(connect=5.0, first_byte=30.0, idle=60.0)
"""Seconds; events have a comment every 15."""
RETRY_SECONDS: Final = 1.0

_FRAMING: Final = HOP_BY_HOP | {b"content-length", b"expect", b"http2-settings"}
_REQUEST_ID: Final = b"x-gateway-request-id"


class ForwardedClient(Struct, frozen=True):
    """The client of a request that a worker forwards."""

    host: str
    """The client's address; empty for a UNIX socket."""
    port: int
    is_secure: bool
    """Whether it speaks TLS with the worker."""
    request_id: str
    """The one that it is told."""

    def line(self) -> bytes:
        """Return the line that stands before a request."""
        return msgspec.json.encode(self) + b"\n"


@dataclass(slots=True)
class Forwarding:
    """The worker's side.

    :param endpoint: connects to the supervisor.
    """

    clock: IReactorTime
    endpoint: IStreamClientEndpoint
    limits: UpstreamLimits = LIMITS
    _supervisor: Upstream = field(init=False, repr=False)
    _streams: dict[_Relay, None] = field(default_factory=dict, repr=False)
    """The responses that go on until somebody ends them."""
    _draining: bool = False

    def __post_init__(self) -> None:
        self._supervisor = Upstream("supervisor", "http://supervisor", self.limits, self.endpoint, self.clock)

    async def serve(self, request: ServerRequest) -> None:
        """Respond to a request as the supervisor does.

        :raises GatewayError: ``OVERLOADED`` where the supervisor does not respond, or breaks off;
            ``DRAINING`` for a stream of events while this worker stops.
        """
        response = await self._open(request)
        relay = _Relay(request.response, response)
        is_stream = is_event_stream(response.head.content_type)
        if is_stream and self._draining:
            response.cancel()
            message = "the gateway is shutting down; try another instance"
            raise GatewayError(Reason.DRAINING, message, retry_after=RETRY_SECONDS)
        if is_stream:
            self._streams[relay] = None
        relay.start(request.request_id.encode())
        try:
            await relay.done
        except GatewayError as error:
            raise _broken(error) from None
        finally:
            self._streams.pop(relay, None)

    def serve_page(self, request: GatewayRequest) -> Awaitable[None]:
        """Respond so to a request of Twisted's kind."""
        return self.serve(request.server_request)

    def drain(self) -> None:
        """End what would go on for ever: whoever reads events connects again, to another worker."""
        self._draining = True
        for relay in list(self._streams):
            relay.end()

    async def _open(self, request: ServerRequest) -> UpstreamResponse:
        """Send a request, and wait for the head of the response."""
        head, body = request.head, request.take_body()
        client = _client_of(request)
        waiter = ResponseWaiter()
        rendered = client.line() + render_forwarded(head, len(body))
        waiter.cancel = self._supervisor.send(head.method, rendered, body, waiter, fresh=True)
        try:
            return await waiter.deferred
        except GatewayError as error:
            raise _broken(error) from None


def forwarding_to(reactor: Any, path: str) -> Forwarding:  # Any: a reactor has no one type
    """Return what forwards to the supervisor that listens at ``path``."""
    return Forwarding(reactor, UNIXClientEndpoint(reactor, path))


def render_forwarded(head: RequestHead, size: int) -> bytes:
    """Return the head of a request as it goes on.

    :param size: of its body, which is complete.
    """
    lines = [b"%b %b HTTP/%b" % (head.method, head.target, head.version)]
    lines += [b"%b: %b" % (name, value) for name, value in head.headers if name.lower() not in _FRAMING]
    if head.has_body:
        lines.append(b"Content-Length: %d" % size)
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


class _Relay:
    """One response of the supervisor, on its way to the client."""

    def __init__(self, client: ServerResponse, response: UpstreamResponse) -> None:
        self._client = client
        self._response = response
        self.done: Deferred[None] = Deferred(lambda _: response.cancel())
        """Fires at the end; cancelled when the client has left."""

    def start(self, request_id: bytes) -> None:
        """Begin to send."""
        response, client = self._response, self._client
        headers = _headers_of(response)
        headers.append((b"X-Gateway-Request-Id", request_id))
        client.start(response.status, response.reason, headers)
        client.register(response)
        response.head.forget_lines()
        response.deliver_body(self)

    def on_body_data(self, data: bytes) -> None:
        """Pass on a piece."""
        self._client.write(data)

    def on_body_end(self) -> None:
        """The response is complete."""
        self._client.finish()
        self._settle(None)

    def on_body_error(self, error: GatewayError) -> None:
        """The rest will not come."""
        self._settle(error)

    def end(self) -> None:
        """End a response here that the supervisor would go on with."""
        self._response.cancel()
        self.on_body_end()

    def _settle(self, error: GatewayError | None) -> None:
        if self.done.called:
            return
        if error is None:
            self.done.callback(None)
        else:
            self.done.errback(error)


def _headers_of(response: UpstreamResponse) -> RawHeaders:
    dropped = HOP_BY_HOP | {_REQUEST_ID}
    return [pair for pair in response.headers if pair[0].lower() not in dropped]


def _client_of(request: ServerRequest) -> ForwardedClient:
    transport = request.channel.transport
    assert transport is not None, "the request came by it"
    address = transport.getPeer()
    host, port = str(getattr(address, "host", "")), int(getattr(address, "port", 0))
    return ForwardedClient(host, port, request.channel.is_secure, request.request_id)


def _broken(error: GatewayError) -> GatewayError:
    """Return the refusal of a request that the supervisor has not answered."""
    message = "the gateway process that handles this request is not responding; try again"
    refusal = GatewayError(Reason.OVERLOADED, message, retry_after=RETRY_SECONDS)
    return refusal if error.cause is None else refusal.because(error.cause)
