"""The same connections as an ``IAgent``, for our own requests: tokens, probes, live lists, webhooks, OTLP.

They are made by ``HTTPClient(agent).request(method, url, ...)`` of treq, with the client that
:func:`client_over` returns.  What treq would do otherwise than we need is settled here, once for all:

- A response comes when its body is there, up to ``max_bytes``.  So treq's ``timeout``, which runs until the
  agent has a response, bounds the whole of it, however slowly a server drips, and ``content`` never waits.
  The content of a body that is larger fails with ``MessageLengthError``, and of one that breaks off with
  ``ResponseFailed``; status and headers are there.
- treq asks for gzip, and unpacks it without a limit.  The agent asks for no coding, and shows none.
- treq keeps cookies for everybody who uses a client.  The agent shows it none.
- treq has the global reactor write bodies.  The client writes them at once.

Three features of treq cannot be used so.  Its reader of URLs refuses ``[::1]`` and ``my_host`` and encodes
others anew, hence :class:`~mgw.reactor.treq_arguments.ExactURL`, also in place of ``params``.  It follows
redirects above the agent, so each request says ``allow_redirects=False``.  Its ``json`` adds a charset to
``application/json``, which has none (RFC 8259 11), so JSON is sent as ``data``.

There is one :class:`Upstream` per origin, and of those a bounded number: the least recently used goes.
Request bodies are read into memory first, as our own requests are small.

A request that may be repeated uses an idle connection, and is sent again if that turns out closed.  Any other
gets a new connection, so that nobody has to guess whether it arrived: a refresh token must not be spent
twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from ssl import SSLContext
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import MessageLengthError
from twisted.internet.interfaces import IConsumer, IProtocol
from twisted.python.failure import Failure
from twisted.web.http_headers import Headers
from twisted.web.iweb import UNKNOWN_LENGTH, IAgent, IBodyProducer, IClientRequest, IResponse
from zope.interface import implementer

from mgw.bodies.buffer import BodyBuffer
from mgw.config.proxy import ProxyAddress
from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.treq_client import HTTPClient, ResponseDone, ResponseFailed
from mgw.upstream.address import address_of
from mgw.upstream.client import (
    Upstream,
    UpstreamFailure,
    UpstreamLimits,
    UpstreamRequest,
    UpstreamResponse,
    build_upstream,
)

MAX_ORIGINS: Final = 64
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_REPEATABLE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"})  # RFC 9110 9.2.2
_CONNECTION_HEADERS: Final = frozenset({b"host", b"content-length", b"connection", b"transfer-encoding"})
_HIDDEN_HEADERS: Final = frozenset({b"content-encoding", b"set-cookie"})
"""The headers of a response by which treq would unpack it without a limit, or keep cookies for others."""


@implementer(IAgent)
class UpstreamAgent:
    """Twisted's agent over our own HTTP/1.1, which answers with whole responses.

    :param upstream_at: returns what reaches an origin.
    :param max_bytes: how large the body of a response may be.
    """

    def __init__(
        self, upstream_at: Callable[[str], Upstream], max_bytes: int, max_origins: int = MAX_ORIGINS
    ) -> None:
        self._max_bytes = max_bytes
        self._max_origins = max_origins
        self._upstream_at = upstream_at
        self._upstreams: OrderedDict[str, Upstream] = OrderedDict()

    def request(
        self,
        method: bytes,
        uri: bytes,
        headers: Headers | None = None,
        bodyProducer: IBodyProducer | None = None,  # noqa: N803  # IAgent's name, given by keyword
    ) -> Deferred[IResponse]:
        """Send a request; fires with the response when it is there as a whole.

        Cancelling closes the connection.
        """
        own = Headers() if headers is None else headers.copy()
        own.setRawHeaders(b"accept-encoding", [b"identity"])  # treq says gzip, which it unpacks unbounded
        request = _AgentRequest(method, uri, own)
        return Deferred.fromCoroutine(self._request(request, bodyProducer))

    def close(self) -> None:
        """Close every idle connection, and forget every origin."""
        for upstream in self._upstreams.values():
            upstream.close()
        self._upstreams.clear()

    async def _request(self, request: _AgentRequest, producer: IBodyProducer | None) -> IResponse:
        origin, target = _split(request.absoluteURI)
        upstream = self._upstream_for(origin)
        body = b"" if producer is None else await _read_body(producer)
        pairs = [
            (name, value)
            for name, values in request.headers.getAllRawHeaders()
            if name.lower() not in _CONNECTION_HEADERS
            for value in values
        ]
        upstream_request = UpstreamRequest(request.method, target, pairs, body)
        # anything else might arrive twice, and a refresh token that is spent twice is lost
        repeatable = request.method in _REPEATABLE or request.headers.hasHeader(b"idempotency-key")
        response = await _open(upstream, upstream_request, repeatable=repeatable)
        received = _ReceivedBody(response, self._max_bytes)
        response.deliver_body(received)
        await received.ended  # treq's timeout, and whoever cancels, must find the body still under way
        return _Response(response, request, received)

    def _upstream_for(self, origin: str) -> Upstream:
        upstream = self._upstreams.get(origin)
        if upstream is None:
            upstream = self._upstreams[origin] = self._upstream_at(origin)
            if len(self._upstreams) > self._max_origins:
                self._upstreams.popitem(last=False)[1].close()
        self._upstreams.move_to_end(origin)
        return upstream


def build_agent(
    reactor: Any,  # Any: as in mgw.upstream.connect
    limits: UpstreamLimits,
    max_bytes: int,
    trusted: str | SSLContext | None = None,
    proxy: ProxyAddress | None = None,
) -> UpstreamAgent:
    """Return an agent that reaches any origin over the network; errors name the origin."""
    return UpstreamAgent(
        lambda origin: build_upstream(origin, origin, limits, reactor, trusted, proxy), max_bytes
    )


def client_over(agent: IAgent) -> HTTPClient:
    """Return treq's client for our own requests."""
    return HTTPClient(agent, data_to_body_producer=BytesProducer)


@implementer(IBodyProducer)
class BytesProducer:
    """Writes a body that is there already."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.length: int | object = len(body)

    def startProducing(self, consumer: IConsumer) -> Deferred[None]:
        """Write all of it."""
        consumer.write(self._body)
        return succeed(None)

    def pauseProducing(self) -> None:
        """It has been written already."""

    def resumeProducing(self) -> None:
        """See :meth:`pauseProducing`."""

    def stopProducing(self) -> None:
        """See :meth:`pauseProducing`."""


async def _open(upstream: Upstream, request: UpstreamRequest, *, repeatable: bool) -> UpstreamResponse:
    try:
        return await upstream.open(request, fresh=not repeatable)
    except UpstreamFailure as failure:
        if not failure.stale:
            raise
    return await upstream.open(request, fresh=True)


def _split(uri: bytes) -> tuple[str, bytes]:
    """Return the origin of ``uri`` and its target; what may be secret in it is in no error."""
    whole = uri.decode("ascii").partition("#")[0]
    address = address_of(whole)
    after_authority = whole.partition("://")[2]
    cut = min((at for at in map(after_authority.find, "/?") if at >= 0), default=len(after_authority))
    target = after_authority[cut:].encode()
    return address.origin, target if target.startswith(b"/") else b"/" + target


@implementer(IConsumer)
class _BufferConsumer:
    """Keeps what a producer writes."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def registerProducer(self, producer: object, streaming: bool) -> None:  # noqa: FBT001  # Twisted's signature
        """Producers of bodies write without being registered."""

    def unregisterProducer(self) -> None:
        """See :meth:`registerProducer`."""

    def write(self, data: bytes) -> None:
        """Keep ``data``."""
        self._size += len(data)
        if self._size > MAX_BODY_BYTES:
            raise GatewayError(Reason.BODY_TOO_LARGE, f"a request of our own exceeds {MAX_BODY_BYTES} bytes")
        self._pieces.append(data)

    def content(self) -> bytes:
        """Return all that was written."""
        return b"".join(self._pieces)


async def _read_body(producer: IBodyProducer) -> bytes:
    consumer = _BufferConsumer()
    await producer.startProducing(consumer)
    return consumer.content()


@implementer(IClientRequest)
class _AgentRequest:
    """The request that a response answers."""

    def __init__(self, method: bytes, uri: bytes, headers: Headers) -> None:
        self.method = method
        self.absoluteURI = uri
        self.headers = headers


class _ReceivedBody:
    """Gathers the body of a response up to a limit."""

    def __init__(self, response: UpstreamResponse, max_bytes: int) -> None:
        self.ended: Deferred[None] = Deferred(lambda _: response.cancel())
        """Fires when no more of the body will come, whether or not it is whole."""
        self.content = b""
        self.error: Exception | None = None
        """Why the body is not whole; ``None``: it is."""
        self._response = response
        self._max_bytes = max_bytes
        self._body = BodyBuffer()
        self._size = 0

    def on_body_data(self, data: bytes) -> None:
        """Keep it, or close the connection if that is too much."""
        self._size += len(data)
        if self._size > self._max_bytes:
            self._response.cancel()
            self._end(MessageLengthError(f"the body exceeds {self._max_bytes} bytes"))
        else:
            self._body.append(data)

    def on_body_end(self) -> None:
        """It is whole."""
        self.content = self._body.take()
        self._end(None)

    def on_body_error(self, error: GatewayError) -> None:
        """It broke off."""
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.error = error
        self._body.clear()
        self.ended.callback(None)


@implementer(IResponse)
class _Response:
    """A provider's response as Twisted's protocols take it, with its body."""

    version = (b"HTTP", 1, 1)

    def __init__(self, response: UpstreamResponse, request: _AgentRequest, body: _ReceivedBody) -> None:
        self.request = request
        self.code = response.status
        self.phrase = response.reason
        self.headers = Headers()
        for name, value in response.headers:
            if name.lower() not in _HIDDEN_HEADERS:
                self.headers.addRawHeader(name, value)
        self.length: int | object = len(body.content) if body.error is None else UNKNOWN_LENGTH
        self.previousResponse: IResponse | None = None
        self._content = body.content
        self._error = body.error

    def deliverBody(self, protocol: IProtocol) -> None:
        """Hand the body to ``protocol``; its ``connectionLost`` tells whether that is all."""
        if self._content:
            protocol.dataReceived(self._content)
        protocol.connectionLost(self._ending())

    def setPreviousResponse(self, response: IResponse) -> None:
        """Remember the response that redirected here."""
        self.previousResponse = response

    def _ending(self) -> Failure:
        # made anew each time: what is raised keeps the frames that it passes, and they keep this response
        match self._error:
            case None:
                return Failure(ResponseDone("all of the body arrived"))
            case GatewayError():
                return Failure(ResponseFailed([Failure(self._error)]))
            case _:
                return Failure(MessageLengthError(*self._error.args))
