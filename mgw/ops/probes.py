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
from mgw.credentials.provider import Credential, CredentialProvider, CredentialRefusal
from mgw.credentials.signed_again import REFUSALS, Again, another_try
from mgw.credentials.signing import Signing
from mgw.dialects.dialect import ModelLister
from mgw.generation import Generation
from mgw.nouns.errors import GatewayError, forget_frames
from mgw.upstream.wires.wire import HostCall, ProviderWire, list_call, lister_of, probe_call
from mgw.wire.headers import RawHeaders
from mgw.wire.media_types import JSON

MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
UNAUTHORIZED: Final = 401
_FIRST_REFUSAL: Final = 400
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
    headers: RawHeaders = []
    may_be_missing: bool = True
    """Whether a list was asked for, which not all hosts have."""
    is_well: bool = False
    """Whether a refusal shows all the same that the host responds and takes the credential."""

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

    def request(
        self,
        generation: Generation,
        provider: str,
        credential: Credential,
        credentials: CredentialProvider | None = None,
    ) -> ModelListRequest:
        """Return the request to one provider.

        :param credentials: where the credential comes from; ``None``: from the provider's own.
        """
        settings = generation.config.providers[provider]
        source = generation.credentials[provider] if credentials is None else credentials
        return ModelListRequest(self, generation, settings, credential, source)


@dataclass(slots=True, repr=False)
class ModelListRequest:
    """Asks a provider for its models, page by page."""

    probe: ProviderProbe
    generation: Generation
    provider: Provider
    credential: Credential
    credentials: CredentialProvider
    """Where the credential comes from."""
    _renewed: bool = False
    _signing: Signing | None = None
    """How the last request was signed."""
    _signed_again: tuple[Again, ...] = ()

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
        while True:
            result = await self._send(call)
            another = await self._another_credential(result)
            if another is None:
                return result
            self.credential = another

    async def _another_credential(self, result: ProbeResult) -> Credential | None:
        """Return what to ask with once more, where a response refuses the credential or its signature."""
        credentials = self.credentials
        if self._signing is not None and result.status in REFUSALS:
            refusal = CredentialRefusal(result.status, result.headers, body=result.body or b"")
            before = self._signed_again
            found = await another_try(credentials, self.credential, self._signing, refusal, before)
            if found is None:
                return None
            self._signed_again = (*before, found.reason)
            self.generation.signed_again.note(self.provider.name, found.reason)
            return found.credential
        if result.status != UNAUTHORIZED or self._renewed:
            return None
        self._renewed = True
        return await credentials.refused(self.credential, CredentialRefusal(UNAUTHORIZED))

    async def _send(self, call: HostCall) -> ProbeResult:
        # here, since treq takes long to import, and few gateways ever ask providers by themselves
        from mgw.reactor.treq_arguments import ExactURL, as_reactor, headers_of
        from mgw.upstream.agent import UpstreamAgent, client_over

        upstream = self.generation.upstreams[self.provider.name]
        if call.origin is not None and upstream.other is not None:
            upstream = upstream.other
        http = client_over(UpstreamAgent(lambda _: upstream, MAX_RESPONSE_BYTES))
        own = [*_HEADERS, (b"Content-Type", JSON)] if call.body else list(_HEADERS)
        headers = self.probe.build_headers(own, self.provider, self.credential)
        headers = self._signed(call, headers, upstream.address.host_header)
        response = await http.request(
            call.method.decode("ascii"),
            ExactURL(upstream.origin + call.target.decode("ascii")),
            headers=headers_of(headers),
            data=call.body or None,
            reactor=as_reactor(self.probe.clock),
            allow_redirects=False,
        )
        sent_back = [
            (name, value) for name, values in response.headers.getAllRawHeaders() for value in values
        ]
        if self._signing is not None:
            self._signing.note_answer(sent_back, self.probe.wall())
        try:
            body = await response.content()
            is_well = self._is_well(response.code, sent_back, body)
            return ProbeResult(response.code, body, sent_back, not call.body, is_well)
        except MessageLengthError as error:
            forget_frames(error)
            return ProbeResult(response.code, None, sent_back)

    def _is_well(self, status: int, headers: RawHeaders, body: bytes) -> bool:
        is_well = self._wire.is_well
        return is_well is not None and status >= _FIRST_REFUSAL and is_well(status, headers, body)

    def _signed(self, call: HostCall, headers: RawHeaders, host: bytes) -> RawHeaders:
        """Return the headers of a request with what signs it, where the credential does."""
        signer = self.credential.signer
        if signer is None:
            return headers
        digest, now = sha256(call.body).digest(), self.probe.wall()
        self._signing = Signing(signer, digest, now, signer.clock.correction)
        return self._signing.signed(call.method, call.target, headers, host)
