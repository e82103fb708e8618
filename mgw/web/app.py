"""Klein's application, and Twisted's request object over our channel.

There is an endpoint for each thing that the gateway answers itself.  The row of a request is known from its
head, before there is a body to wait for, so the endpoint is run by its name.

The request object serves Klein and every ``twisted.web`` resource, and is cheap to make: the headers become
Twisted's when somebody first looks, and forms are never read (``args`` stays empty).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from io import BytesIO
from traceback import clear_frames
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

from klein import Klein
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IAddress, IDelayedCall, IPullProducer, IPushProducer, IReactorTime
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.server import Request

from mgw.http.request_head import RequestHead
from mgw.http.response_writer import date_header, reason_phrase
from mgw.nouns.errors import GatewayError, forget_frames
from mgw.web.channel import GatewayChannel
from mgw.web.server_request import ServerRequest
from mgw.wire.headers import RawHeaders

_log: Final = Logger()
_FAILED: Final = b"internal gateway error; see the gateway's log\n"


class GatewayRequest(Request):
    """A request whose head has arrived, and its body as far as it is wanted here.

    It is responded to as Twisted's requests are (``setResponseCode``, ``setHeader``, ``write``, ``finish``),
    with
    :meth:`start` for raw headers, or past it through the channel that it came from.  Whoever serves it calls
    :meth:`connectionLost` when the client has disconnected.
    """

    server_request: ServerRequest
    """The request as the server sees it, which sets it for its endpoints."""

    def __init__(self, channel: GatewayChannel, head: RequestHead, body: bytes) -> None:
        self.head = head
        self.body = body
        self.response_channel = RequestChannel(channel)
        self._headers: Headers | None = None
        self._postpath: list[bytes] | None = None
        super().__init__(self.response_channel, parsePOSTFormSubmission=False)  # type: ignore[no-untyped-call]  # Twisted's
        self.method = head.method
        self.uri = head.target
        self.path = head.target.partition(b"?")[0]
        self.clientproto = b"HTTP/" + head.version
        self.args: dict[bytes, list[bytes]] = {}
        self.content = BytesIO(body)
        self.prepath: list[bytes] = []

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
    def postpath(self) -> list[bytes]:
        """The decoded segments of the path that no resource has consumed yet."""
        if self._postpath is None:
            self._postpath = [unquote_to_bytes(segment) for segment in self.path[1:].split(b"/")]
        return self._postpath

    @postpath.setter
    def postpath(self, segments: list[bytes]) -> None:
        self._postpath = segments

    @property
    def chunked(self) -> int:
        """Never set: the channel marks the end of the body."""
        return 0

    @chunked.setter
    def chunked(self, chunked: int) -> None:
        pass

    def start(self, status: int, reason: bytes, headers: RawHeaders) -> None:
        """Start the response with headers as they are, in place of ``responseHeaders``."""
        self.startedWriting = 1
        self.code = status
        self.code_message = reason
        self.response_channel.start(status, reason, headers)

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

    def processingFailed(self, reason: Failure) -> Failure:
        """Log a bug, and respond with 500 or break a response that has started."""
        _log.failure("internal error: request {path} failed", reason, path=self.path)
        if self._disconnected or self.finished:
            return reason
        if self.startedWriting:
            self.response_channel.abortConnection()
        else:
            self.setResponseCode(500)
            self.responseHeaders = Headers(
                {b"Content-Type": [b"text/plain"], b"Cache-Control": [b"no-store"]}
            )
            self.write(_FAILED)  # type: ignore[no-untyped-call]  # Twisted's
            self.finish()  # type: ignore[no-untyped-call]  # Twisted's
        return reason


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
        self._producer: _PushProducer | _PullProducer | None = None

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
        self._producer = _PushProducer(producer) if streaming else _PullProducer(producer, self.channel.clock)
        self.channel.register(self._producer)

    def unregisterProducer(self) -> None:
        """There is no producer any more."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stop()
            if self._is_current():
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

    def stop(self) -> None:
        """It stops by itself."""


class _PullProducer:
    """A producer that writes one piece whenever it is asked: asked once in every turn of the reactor."""

    def __init__(self, producer: IPullProducer, clock: IReactorTime) -> None:
        self._producer = producer
        self._clock = clock
        self._next: IDelayedCall | None = None
        self.resume()

    def pause(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def resume(self) -> None:
        if self._next is None:
            self._next = self._clock.callLater(0, self._pull)

    def stop(self) -> None:
        self.pause()

    def _pull(self) -> None:
        self._next = self._clock.callLater(0, self._pull)
        self._producer.resumeProducing()


Endpoint = Callable[[GatewayRequest], Awaitable[None]]


@dataclass(slots=True)
class GatewayApp:
    """Answers what the gateway serves itself."""

    _klein: Klein

    def serve(self, request: ServerRequest) -> Awaitable[None]:
        """Run the endpoint of a request's row.

        :raises GatewayError: a refusal, which the caller says in the client's dialect.
        """
        klein_request = GatewayRequest(request.channel, request.head, b"")
        klein_request.server_request = request
        served = self._klein.execute_endpoint(request.matched.route.name, klein_request)
        if isinstance(served, Deferred):  # as Klein makes of the endpoints
            return served.addErrback(_without_frames)
        return cast(Awaitable[None], served)  # Klein's type is wider


def _without_frames(failure: Failure) -> Failure:
    """Release the frames behind a refusal: among them is one that refers to the Deferred of the failure."""
    error = failure.value
    if isinstance(error, GatewayError | CancelledError):
        clear_frames(failure.tb)
        forget_frames(error)
        failure.tb = None
    return failure


def build_app(own: Mapping[str, Endpoint]) -> GatewayApp:
    """Return the application.

    :param own: the endpoints of the rows that the gateway answers itself, by the row's name.
    """
    klein = Klein()
    for name, endpoint in own.items():
        klein.route(f"/{name}", endpoint=name)(endpoint)
    return GatewayApp(klein)


def endpoint_of(serve: Callable[[Request], Awaitable[None]]) -> Endpoint:
    """Return the endpoint of what knows Twisted's requests alone.

    The request has its body in ``content``, and headers of its response that say its id and the date.

    :param serve: responds to it, or raises what the client is refused with.
    """

    async def endpoint(request: GatewayRequest) -> None:
        server_request = request.server_request
        body = server_request.take_body()
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
