"""The gateway's own requests to a provider: for its list of models, or for a sign of life.

Live model lists and the providers' health are made of them.  It goes over the provider's own connections
and carries what a relayed request would carry, and nothing of a client's but a key that may be sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from time import time
from typing import Final

from msgspec import Struct
from twisted.internet.error import MessageLengthError
from twisted.internet.interfaces import IReactorTime

from mgw import __version__
from mgw.config.provider import Provider
from mgw.credentials.provider import Credential, CredentialRefusal
from mgw.credentials.signing import Signing
from mgw.dialects.dialect import ModelLister
from mgw.generation import Generation
from mgw.nouns.errors import GatewayError, forget_frames
from mgw.upstream.wires.wire import HostCall, ProviderWire, list_call, lister_of, probe_call
from mgw.wire.headers import RawHeaders
from mgw.wire.media_types import JSON

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
UNAUTHORIZED: Final = 401
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
    """The whole body, or ``None`` where it is larger than :data:`MAX_RESPONSE_BYTES`."""

    def __repr__(self) -> str:
        return f"ProbeResult({self.status})"


def probe_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what :meth:`ModelListRequest.send` raises where no whole response came, and some others."""
    from mgw.reactor.treq_client import ResponseFailed  # here, as in _send

    return GatewayError, ResponseFailed, *others


@dataclass(slots=True)
class ProviderProbe:
    """Asks the providers of a generation.

    :param build_headers: how a request to a provider gets its headers.
    """

    clock: IReactorTime
    build_headers: HeaderBuilder
    wall: Callable[[], float] = time
    """Returns unix seconds."""

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

    @property
    def lister(self) -> ModelLister:
        """How the provider lists its models."""
        return lister_of(self.provider, self._wire)

    async def send(self, query: str) -> ProbeResult:
        """Return the response for one page, as :meth:`probe_provider` does."""
        return await self._ask(list_call(self.provider, self._wire, query))

    async def probe_provider(self) -> ProbeResult:
        """Return the response to a probe; a credential that is refused with 401 is renewed once.

        Cancelling closes the connection.

        :raises GatewayError: the provider cannot be reached, or its response not be read.
        :raises ResponseFailed: the response breaks off.
        """
        return await self._ask(probe_call(self.provider, self._wire))

    @property
    def _wire(self) -> ProviderWire:
        return self.generation.upstreams[self.provider.name].wire

    async def _ask(self, call: HostCall) -> ProbeResult:
        result = await self._send(call)
        if result.status != UNAUTHORIZED or self._renewed:
            return result
        self._renewed = True
        provider = self.generation.credentials[self.provider.name]
        another = await provider.refused(self.credential, CredentialRefusal(UNAUTHORIZED))
        if another is None:
            return result
        self.credential = another
        return await self._send(call)

    async def _send(self, call: HostCall) -> ProbeResult:
        # here, since treq takes long to import, and few gateways ever ask providers by themselves
        from mgw.reactor.treq_arguments import ExactURL, as_reactor, headers_of
        from mgw.upstream.agent import UpstreamAgent, client_over

        upstream = self.generation.upstreams[self.provider.name]
        http = client_over(UpstreamAgent(lambda _: upstream, MAX_RESPONSE_BYTES))
        own = [*_HEADERS, (b"Content-Type", JSON)] if call.body else list(_HEADERS)
        headers = self.probe.build_headers(own, self.provider, self.credential)
        if self.credential.signer is not None:
            signing = Signing(self.credential.signer, sha256(call.body).digest(), self.probe.wall())
            headers = signing.signed(call.method, call.target, headers, upstream.address.host_header)
        response = await http.request(
            call.method.decode("ascii"),
            ExactURL(upstream.origin + call.target.decode("ascii")),
            headers=headers_of(headers),
            data=call.body or None,
            reactor=as_reactor(self.probe.clock),
            allow_redirects=False,
        )
        try:
            return ProbeResult(response.code, await response.content())
        except MessageLengthError as error:
            forget_frames(error)
            return ProbeResult(response.code, None)
