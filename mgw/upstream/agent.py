"""The same connections as an ``IAgent``, for our own calls: token endpoints, probes, live lists, webhooks.

``treq.client.HTTPClient(agent)`` is what they use.  There is one :class:`Upstream` per origin, and of those
a bounded number: the one that was not asked for longest goes.  Request bodies are gathered first, as our own
calls are small.

A request that may be sent twice uses a resting connection, and is sent again if that turns out closed.  Any
other gets a new connection, so that it is never in doubt: a refresh token must not be spent twice.
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

from mgw.errors import GatewayError, Reason
from mgw.upstream.address import address_of
from mgw.upstream.client import (
    Answer,
    Upstream,
    UpstreamFailure,
    UpstreamLimits,
    UpstreamRequest,
    build_upstream,
)

MAX_ORIGINS: Final = 64
MAX_BODY_BYTES: Final = 32 * 1024 * 1024
_SENDABLE_TWICE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS", b"PUT", b"DELETE"})  # RFC 9110 9.2.2
_OURS: Final = frozenset({b"host", b"content-length", b"connection", b"transfer-encoding"})


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
        asked = _Asked(method, uri, headers or Headers())
        return Deferred.fromCoroutine(self._request(asked, bodyProducer))

    def close(self) -> None:
        """Close what rests, and forget every origin."""
        for upstream in self._upstreams.values():
            upstream.close()
        self._upstreams.clear()

    async def _request(self, asked: _Asked, producer: IBodyProducer | None) -> IResponse:
        origin, target = _split(asked.absoluteURI)
        upstream = self._upstream_for(origin)
        body = b"" if producer is None else await _body_of(producer)
        pairs = [
            (name, value)
            for name, values in asked.headers.getAllRawHeaders()
            if name.lower() not in _OURS
            for value in values
        ]
        request = UpstreamRequest(asked.method, target, pairs, body)
        twice = asked.method in _SENDABLE_TWICE or asked.headers.hasHeader(b"idempotency-key")
        answer = await _open(upstream, request, twice=twice)
        return _Response(answer, asked)

    def _upstream_for(self, origin: str) -> Upstream:
        upstream = self._upstreams.get(origin)
        if upstream is None:
            upstream = self._upstreams[origin] = self._upstream_at(origin)
            if len(self._upstreams) > self._max_origins:
                self._upstreams.popitem(last=False)[1].close()
        self._upstreams.move_to_end(origin)
        return upstream


def build_agent(
    reactor: Any, limits: UpstreamLimits, ca_file: str | None = None
) -> UpstreamAgent:  # Any: as in mgw.upstream.connect
    """Return an agent that reaches any origin over the network; errors name the origin."""
    return UpstreamAgent(lambda origin: build_upstream(origin, origin, limits, reactor, ca_file))


async def _open(upstream: Upstream, request: UpstreamRequest, *, twice: bool) -> Answer:
    try:
        return await upstream.open(request, fresh=not twice)
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
class _Gathered:
    """Where a producer's bytes end up."""

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

    def whole(self) -> bytes:
        """Return all that was written."""
        return b"".join(self._pieces)


async def _body_of(producer: IBodyProducer) -> bytes:
    gathered = _Gathered()
    await producer.startProducing(gathered)
    return gathered.whole()


@implementer(IClientRequest)
class _Asked:
    """The request that a response answers."""

    def __init__(self, method: bytes, uri: bytes, headers: Headers) -> None:
        self.method = method
        self.absoluteURI = uri
        self.headers = headers


@implementer(IResponse)
class _Response:
    """An answer as Twisted's protocols take it."""

    version = (b"HTTP", 1, 1)

    def __init__(self, answer: Answer, request: _Asked) -> None:
        self._answer = answer
        self.request = request
        self.code = answer.status
        self.phrase = answer.reason
        self.headers = Headers()
        for name, value in answer.headers:
            self.headers.addRawHeader(name, value)
        self.length: int | object = self._length()
        self._empty = self.length == 0
        if self._empty:  # whoever sees that there is no body does not ask for it
            answer.deliver_to(_Nobody())
        self.previousResponse: IResponse | None = None

    def deliverBody(self, protocol: IProtocol) -> None:
        """Hand the body to ``protocol``; its ``connectionLost`` tells how it ended."""
        sink = _ToProtocol(protocol, self._answer)
        if self._empty:
            sink.body_ended()
        else:
            self._answer.deliver_to(sink)

    def setPreviousResponse(self, response: IResponse) -> None:
        """Remember the response that redirected here."""
        self.previousResponse = response

    def _length(self) -> int | object:
        if self.request.method == b"HEAD" or self.code in {204, 304}:
            return 0
        found = self.headers.getRawHeaders(b"content-length")
        return int(found[0]) if found else UNKNOWN_LENGTH


class _Nobody:
    """The sink of a body that is empty."""

    def body_arrived(self, data: bytes) -> None:
        """Drop it."""

    def body_ended(self) -> None:
        """Nothing is left to do."""

    def body_broke(self, error: GatewayError) -> None:
        """Nothing was lost."""


@implementer(IPushProducer)
class _ToProtocol:
    """The sink that feeds a Twisted protocol, and the transport that the protocol sees.

    A protocol that closes its transport hears no more.
    """

    def __init__(self, protocol: IProtocol, answer: Answer) -> None:
        self._protocol = protocol
        self._answer = answer
        protocol.makeConnection(cast(ITransport, self))  # IResponse promises no more than a push producer

    def body_arrived(self, data: bytes) -> None:
        self._protocol.dataReceived(data)

    def body_ended(self) -> None:
        self._protocol.connectionLost(Failure(ResponseDone("all of the body arrived")))

    def body_broke(self, error: GatewayError) -> None:
        self._protocol.connectionLost(Failure(ResponseFailed([Failure(error)])))

    def pauseProducing(self) -> None:
        self._answer.pause()

    def resumeProducing(self) -> None:
        self._answer.resume()

    def stopProducing(self) -> None:
        self._answer.abandon()

    def loseConnection(self) -> None:
        self._answer.abandon()

    def abortConnection(self) -> None:
        self._answer.abandon()
