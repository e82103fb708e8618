"""Twisted's request object over our channel, for what the gateway itself answers.

It is cheap to make: the headers become Twisted's when somebody first looks, and forms are never read
(``args`` stays empty).  Relayed requests have none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from io import BytesIO
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IAddress, IPushProducer
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.server import Request

from mgw.http.request_head import RequestHead
from mgw.http.response_writer import date_header, reason_phrase
from mgw.web.channel import GatewayChannel
from mgw.web.server_request import ServerRequest


class GatewayRequest(Request):
    """A request whose head has arrived, and its body as far as it is wanted here.

    It is responded to as Twisted's requests are (``setResponseCode``, ``setHeader``, ``write``, ``finish``),
    or past it through :attr:`server_request`.  Whoever serves it calls :meth:`connectionLost` when the client
    has disconnected.
    """

    server_request: ServerRequest
    """The request as the server sees it."""

    def __init__(self, channel: GatewayChannel, head: RequestHead, body: bytes) -> None:
        self.head = head
        self.body = body
        self.response_channel = RequestChannel(channel)
        self._headers: Headers | None = None
        super().__init__(self.response_channel, parsePOSTFormSubmission=False)  # type: ignore[no-untyped-call]  # Twisted's
        self.method = head.method
        self.uri = head.target
        self.path = head.target.partition(b"?")[0]
        self.clientproto = b"HTTP/" + head.version
        self.args: dict[bytes, list[bytes]] = {}
        self.content = BytesIO(body)

    @classmethod
    def of(cls, server_request: ServerRequest) -> GatewayRequest:
        """Return a request of the server as Twisted's; its body stays where it is."""
        request = cls(server_request.channel, server_request.head, b"")
        request.server_request = server_request
        return request

    @property
    def requestHeaders(self) -> Headers:
        """The headers of the request, as Twisted holds them."""
        headers = self._headers
        if headers is None:
            headers = self._headers = Headers()
            for name, value in self.head.headers:
                headers.addRawHeader(name, value)
        return headers

    @requestHeaders.setter
    def requestHeaders(self, headers: Headers) -> None:
        pass  # Twisted makes itself an empty one

    @property
    def chunked(self) -> int:
        """Never set: the channel marks the end of the body."""
        return 0

    @chunked.setter
    def chunked(self, chunked: int) -> None:
        pass

    def setResponseCode(self, code: int, message: bytes | None = None) -> None:
        """Set the status; Twisted knows fewer phrases."""
        super().setResponseCode(code, reason_phrase(code) if message is None else message)

    def connectionLost(self, reason: Failure) -> None:
        """Tell whoever waits for the end, or produces the response, that the client has disconnected."""
        producer, self.producer = self.producer, None
        if producer is not None:
            self.response_channel.unregisterProducer()
            producer.stopProducing()
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # Twisted's


class RequestChannel:
    """Our channel as Twisted's request expects it, for the length of one request.

    A request that is used after its end reaches no other request's response.
    """

    def __init__(self, channel: GatewayChannel) -> None:
        self.channel = channel
        self.start = channel.start
        """Sends the head of the response."""
        self.transport = transport = channel.transport
        assert transport is not None, "the request came by it"
        self._addresses = transport.getPeer(), transport.getHost()
        self._number = channel.requests
        self._producer: _PushProducer | None = None

    def writeHeaders(self, version: bytes, code: bytes, reason: bytes, headers: Headers) -> None:  # noqa: ARG002
        """Start the response; the version is the channel's business."""
        if self._is_current():
            pairs = [(name, value) for name, values in headers.getAllRawHeaders() for value in values]
            self.start(int(code), reason, pairs)

    def write(self, data: bytes) -> None:
        """Send a piece of the body."""
        if self._is_current():
            self.channel.write(data)

    def writeSequence(self, pieces: Iterable[bytes]) -> None:
        """Send some pieces of the body."""
        self.write(b"".join(pieces))

    def requestDone(self, request: Request) -> None:  # noqa: ARG002  there is one
        """End the response."""
        if self._is_current():
            self.channel.finish()

    def loseConnection(self) -> None:
        """Break the connection: the response is not finished."""
        self.abortConnection()

    def abortConnection(self) -> None:
        """Break the connection."""
        if self._is_current():
            self.channel.abort()

    def registerProducer(self, producer: Any, streaming: bool) -> None:  # noqa: FBT001  Any: two interfaces of Twisted
        """Let a producer write at the client's pace."""
        assert streaming, "what pulls has no caller"
        self._producer = _PushProducer(producer)
        self.channel.register(self._producer)

    def unregisterProducer(self) -> None:
        """There is no producer any more."""
        producer, self._producer = self._producer, None
        if producer is not None and self._is_current():
            self.channel.unregister()

    def getPeer(self) -> IAddress:
        """Return the client's address."""
        return self._addresses[0]

    def getHost(self) -> IAddress:
        """Return our address."""
        return self._addresses[1]

    def isSecure(self) -> bool:
        """Say whether the connection is encrypted."""
        return self.channel.is_secure

    def _is_current(self) -> bool:
        return self.channel.requests == self._number


class _PushProducer:
    """A producer that writes until it is told to pause."""

    def __init__(self, producer: IPushProducer) -> None:
        self._producer = producer

    def pause(self) -> None:
        self._producer.pauseProducing()

    def resume(self) -> None:
        self._producer.resumeProducing()


DashboardEndpoint = Callable[[GatewayRequest], Awaitable[None]]


def endpoint_of(serve: Callable[[Request], Awaitable[None]]) -> DashboardEndpoint:
    """Return the endpoint of what knows Twisted's requests alone.

    The request has its body in ``content``, and headers of its response that say its id and the date.

    :param serve: responds to it, or raises what the client is refused with.
    """

    async def endpoint(request: GatewayRequest) -> None:
        server_request = request.server_request
        body = server_request.take_body()
        # In memory: a request of Twisted's would put 100,000 bytes and more into a temporary file.
        request.body, request.content = body, BytesIO(body)
        request.response_channel.start = server_request.response.start
        headers = request.responseHeaders
        headers.addRawHeader(b"X-Gateway-Request-Id", server_request.request_id.encode())
        headers.addRawHeader(*date_header(server_request.server.wall()))
        try:
            await serve(request)
        except CancelledError:
            request.connectionLost(connectionDone)
            raise

    return endpoint
