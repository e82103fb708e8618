"""The same connections as an ``IAgent``, for our own calls: tokens, probes, live lists, webhooks.

``treq.client.HTTPClient(agent)`` is what they use.  There is one :class:`Upstream` per origin, and of those
a bounded number: the least recently used goes.  Request bodies are read into memory first, as our own calls
are small.

A request that may be repeated uses an idle connection, and is sent again if that turns out closed.  Any other
gets a new connection, so that nobody has to guess whether it arrived: a refresh token must not be spent
twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IConsumer, IProtocol, IPushProducer, ITransport
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone, ResponseFailed
from twisted.web.http_headers import Headers
from twisted.web.iweb import UNKNOWN_LENGTH, IAgent, IBodyProducer, IClientRequest, IResponse
from zope.interface import implementer

from mgw.config.proxy import ProxyAddress
from mgw.nouns.errors import GatewayError, Reason
from mgw.upstream.address import address_of
from mgw.upstream.client import (
    Upstream,
    UpstreamFailure,
    UpstreamLimits,
    UpstreamRequest,
    UpstreamResponse,
    build_upstream,
)
from mgw.upstream.response import NullReceiver

MAX_ORIGINS: Final = 64
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_REPEATABLE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"})  # RFC 9110 9.2.2
_CONNECTION_HEADERS: Final = frozenset({b"host", b"content-length", b"connection", b"transfer-encoding"})


@implementer(IAgent)
class UpstreamAgent:
    """Twisted's agent over our own HTTP/1.1; redirects, cookies and content codings are left to its user."""

    def __init__(self, upstream_at: Callable[[str], Upstream], max_origins: int = MAX_ORIGINS) -> None:
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
        """Send a request; fires with the response when its head is there."""
        request = _AgentRequest(method, uri, headers or Headers())
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
        repeatable = request.method in _REPEATABLE or request.headers.hasHeader(b"idempotency-key")
        response = await _open(upstream, upstream_request, repeatable=repeatable)
        return _Response(response, request)

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
    ca_file: str | None = None,
    proxy: ProxyAddress | None = None,
) -> UpstreamAgent:
    """Return an agent that reaches any origin over the network; errors name the origin."""
    return UpstreamAgent(lambda origin: build_upstream(origin, origin, limits, reactor, ca_file, proxy))


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


@implementer(IResponse)
class _Response:
    """A provider's response as Twisted's protocols take it."""

    version = (b"HTTP", 1, 1)

    def __init__(self, response: UpstreamResponse, request: _AgentRequest) -> None:
        self._response = response
        self.request = request
        self.code = response.status
        self.phrase = response.reason
        self.headers = Headers()
        for name, value in response.headers:
            self.headers.addRawHeader(name, value)
        self.length: int | object = self._length()
        self._empty = self.length == 0
        if self._empty:  # whoever sees that there is no body does not ask for it
            response.deliver_body(NullReceiver())
        self.previousResponse: IResponse | None = None

    def deliverBody(self, protocol: IProtocol) -> None:
        """Hand the body to ``protocol``; its ``connectionLost`` tells how it ended."""
        receiver = _ProtocolReceiver(protocol, self._response)
        if self._empty:
            receiver.on_body_end()
        else:
            self._response.deliver_body(receiver)

    def setPreviousResponse(self, response: IResponse) -> None:
        """Remember the response that redirected here."""
        self.previousResponse = response

    def _length(self) -> int | object:
        if self.request.method == b"HEAD" or self.code in {204, 304}:
            return 0
        found = self.headers.getRawHeaders(b"content-length")
        return int(found[0]) if found else UNKNOWN_LENGTH


@implementer(IPushProducer)
class _ProtocolReceiver:
    """Passes a body to a Twisted protocol, and is the transport that the protocol sees.

    A protocol that closes its transport hears no more.
    """

    def __init__(self, protocol: IProtocol, response: UpstreamResponse) -> None:
        self._protocol = protocol
        self._response = response
        protocol.makeConnection(cast(ITransport, self))  # IResponse promises no more than a push producer

    def on_body_data(self, data: bytes) -> None:
        self._protocol.dataReceived(data)

    def on_body_end(self) -> None:
        self._protocol.connectionLost(Failure(ResponseDone("all of the body arrived")))

    def on_body_error(self, error: GatewayError) -> None:
        self._protocol.connectionLost(Failure(ResponseFailed([Failure(error)])))

    def pauseProducing(self) -> None:
        self._response.pause()

    def resumeProducing(self) -> None:
        self._response.resume()

    def stopProducing(self) -> None:
        self._response.cancel()

    def loseConnection(self) -> None:
        self._response.cancel()

    def abortConnection(self) -> None:
        self._response.cancel()
