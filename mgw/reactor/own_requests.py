"""What the gateway's own HTTP requests need in addition to treq: tokens, probes and live lists.

treq's client asks for gzip and unpacks it without a limit, wants a host that is a name (``[::1]`` and
``my_host`` are none), and writes bodies by the global reactor.  Here a request goes to exactly the URL that
it names, asks for no content coding, follows no redirect, and reads a body up to a limit.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct
from treq.client import HTTPClient
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IConsumer, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from zope.interface import implementer

_PLACEHOLDER: Final = "http://origin/"
"""What treq is told; the agent below it knows better."""


class OwnRequest(Struct, frozen=True):
    """A request of the gateway itself; header names as they are to be sent."""

    method: str
    url: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes | None = None

    def __repr__(self) -> str:
        return f"OwnRequest({self.method})"


class OwnResponse(Struct, frozen=True):
    """A response with all of its body."""

    status: int
    headers: Headers
    body: bytes | None
    """``None``: larger than was allowed."""

    def __repr__(self) -> str:
        return f"OwnResponse({self.status})"


async def send_request(
    agent: IAgent, request: OwnRequest, max_bytes: int, clock: IReactorTime
) -> OwnResponse:
    """Return the response to a request.  Cancelling closes the connection.

    :raises GatewayError: as the agent does.
    :raises twisted.web.client.ResponseFailed: the response breaks off.
    """
    client = HTTPClient(_PlainAgent(agent, request.url), data_to_body_producer=_BytesProducer)
    headers = Headers()
    for name, value in request.headers:
        headers.addRawHeader(name, value)
    reactor: Any = clock  # Any: treq wants a reactor's type, and its timeout is not used
    response = await client.request(
        request.method,
        _PLACEHOLDER,
        headers=headers,
        data=request.body,
        allow_redirects=False,
        unbuffered=True,
        reactor=reactor,
    )
    body = _BodyCollector(max_bytes)
    response.deliverBody(body)
    return OwnResponse(response.code, response.headers, await body.whole)


@implementer(IAgent)
class _PlainAgent:
    """Sends to its own URL, and asks for a response without coding."""

    def __init__(self, agent: IAgent, url: bytes) -> None:
        self._agent = agent
        self._url = url

    def request(
        self,
        method: bytes,
        uri: bytes,  # noqa: ARG002  treq was told a placeholder
        headers: Headers | None = None,
        bodyProducer: IBodyProducer | None = None,  # noqa: N803  # IAgent's name, given by keyword
    ) -> Deferred[IResponse]:
        """Send a request."""
        plain = Headers() if headers is None else headers.copy()
        plain.setRawHeaders(b"accept-encoding", [b"identity"])
        return self._agent.request(method, self._url, plain, bodyProducer).addCallback(_without_coding)


def _without_coding(response: IResponse) -> IResponse:
    response.headers.removeHeader(b"content-encoding")
    return response


@implementer(IBodyProducer)
class _BytesProducer:
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


class _BodyCollector(Protocol):
    """Gathers a body up to its limit; ``whole`` fires with it, or with ``None`` where it is larger."""

    def __init__(self, max_bytes: int) -> None:
        self.whole: Deferred[bytes | None] = Deferred(lambda _: self._stop())
        self._max_bytes = max_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._over = False

    def dataReceived(self, data: bytes) -> None:
        if self._over:
            return
        self._size += len(data)
        if self._size <= self._max_bytes:
            self._pieces.append(data)
            return
        self._stop()
        self.whole.callback(None)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._over:
            return
        self._over = True
        if reason.check(ResponseDone):
            self.whole.callback(b"".join(self._pieces))
        else:
            self.whole.errback(reason)

    def _stop(self) -> None:
        """Want no more of it."""
        self._over = True
        self._pieces.clear()
        transport: Any = self.transport  # Any: what UpstreamAgent gives can close at once
        transport.abortConnection()
