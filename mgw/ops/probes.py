"""The gateway's own request to a provider: which models it has.

Live model lists and the providers' health are both made of it.  It goes over the provider's own connections
and carries what a relayed request would carry, and nothing of a client's but a key that may be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct
from treq.client import HTTPClient
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone, ResponseFailed
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IBodyProducer, IResponse
from zope.interface import implementer

from mgw import __version__
from mgw.config.provider import Provider
from mgw.credentials.provider import Credential, Refusal
from mgw.errors import GatewayError
from mgw.generation import Generation
from mgw.upstream.address import call_target
from mgw.upstream.agent import UpstreamAgent
from mgw.wire.headers import RawHeaders

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
UNAUTHORIZED: Final = 401
PROBE_ERRORS: Final = (GatewayError, ResponseFailed)
"""What :meth:`ModelListRequest.send` raises where no whole response came."""

_PLACEHOLDER_ORIGIN: Final = "http://provider"
"""The upstream knows where it is.  treq wants a name for a host, which ``[::1]`` and ``my_host`` are not."""
_HEADERS: Final = (
    (b"Accept", b"application/json"),
    (b"User-Agent", f"mgw/{__version__}".encode()),
)

HeaderBuilder = Callable[[RawHeaders, Provider, Credential], RawHeaders]
"""Completes headers: the operator's edits, what the kind requires, the credential."""


class ProbeResult(Struct, frozen=True):
    """The response of a provider."""

    status: int
    body: bytes | None
    """``None``: larger than :data:`MAX_RESPONSE_BYTES`."""

    def __repr__(self) -> str:
        return f"ProbeResult({self.status})"


@dataclass(slots=True)
class ProviderProbe:
    """Asks the providers of a generation.

    :param build_headers: how a request to a provider gets its headers.
    """

    clock: IReactorTime
    build_headers: HeaderBuilder

    def request(self, generation: Generation, provider: str, credential: Credential) -> ModelListRequest:
        """Return the request to one provider."""
        return ModelListRequest(self, generation, generation.config.providers[provider], credential)


@dataclass(slots=True, repr=False)
class ModelListRequest:
    """Asks a provider for its models, page by page."""

    probe: ProviderProbe
    generation: Generation
    provider: Provider
    credential: Credential
    _renewed: bool = False

    async def send(self, query: str) -> ProbeResult:
        """Return the response for one page; a credential that is refused with 401 is renewed once.

        Cancelling closes the connection.

        :raises GatewayError: the provider cannot be reached, or its response not be read.
        :raises ResponseFailed: the response breaks off.
        """
        result = await self._get(query)
        if result.status != UNAUTHORIZED or self._renewed:
            return result
        self._renewed = True
        provider = self.generation.credentials[self.provider.name]
        another = await provider.refused(self.credential, Refusal(UNAUTHORIZED))
        if another is None:
            return result
        self.credential = another
        return await self._get(query)

    async def _get(self, query: str) -> ProbeResult:
        upstream = self.generation.upstreams[self.provider.name]
        client = HTTPClient(_IdentityAgent(UpstreamAgent(lambda _: upstream)))
        target = call_target(self.provider, b"/models", query.encode() or None)
        clock: Any = self.probe.clock  # Any: treq wants a reactor's type, and its timeout is not used
        response = await client.get(
            _PLACEHOLDER_ORIGIN + target.decode(),
            headers=self._headers(),
            allow_redirects=False,
            unbuffered=True,
            reactor=clock,
        )
        body = _BodyCollector()
        response.deliverBody(body)
        return ProbeResult(response.code, await body.whole)

    def _headers(self) -> Headers:
        headers = Headers()
        for name, value in self.probe.build_headers(list(_HEADERS), self.provider, self.credential):
            headers.addRawHeader(name, value)
        return headers


@implementer(IAgent)
class _IdentityAgent:
    """Asks for a response without coding: treq would ask for gzip, and unpack it without a limit."""

    def __init__(self, agent: IAgent) -> None:
        self._agent = agent

    def request(
        self,
        method: bytes,
        uri: bytes,
        headers: Headers | None = None,
        bodyProducer: IBodyProducer | None = None,  # noqa: N803  # IAgent's name, given by keyword
    ) -> Deferred[IResponse]:
        """Send a request."""
        plain = Headers() if headers is None else headers.copy()
        plain.setRawHeaders(b"accept-encoding", [b"identity"])
        return self._agent.request(method, uri, plain, bodyProducer).addCallback(_without_coding)


def _without_coding(response: IResponse) -> IResponse:
    response.headers.removeHeader(b"content-encoding")
    return response


class _BodyCollector(Protocol):
    """Gathers a body up to its limit; ``whole`` fires with it, or with ``None`` where it is larger."""

    def __init__(self) -> None:
        self.whole: Deferred[bytes | None] = Deferred(lambda _: self._stop())
        self._pieces: list[bytes] = []
        self._size = 0
        self._over = False

    def dataReceived(self, data: bytes) -> None:
        if self._over:
            return
        self._size += len(data)
        if self._size <= MAX_RESPONSE_BYTES:
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
