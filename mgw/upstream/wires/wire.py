"""How the hosts of a provider kind are called: what may differ from the API that their models have at home.

A dialect says what a request means, and where its vendor's own hosts take it.  A wire says what becomes of
that on the way to other hosts of the same models, and of what they answer, so that nobody else knows::

    vendor call ── call ──> host call              body, headers ── edits ──> splices, headers
    the host's framing ── unframe ──> the dialect's own stream          a refusal ── error ──> what it says

Whoever calls a provider asks its wire: relayed and translated requests, counts, probes, live lists, and
``mgw check``.  What a wire leaves out is as the dialect has it, and costs no call; a wire of :func:`own_call`
alone is asked once for each head and target that is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mgw.canonical.reply import UpstreamError
from mgw.config.provider import Provider
from mgw.dialects import dialect_of
from mgw.dialects.dialect import ModelLister
from mgw.nouns.vocabulary import Operation
from mgw.upstream.address import base_path
from mgw.wire.headers import RawHeaders
from mgw.wire.json_spans import Edit

_MODELS: Final = b"/models"


class HostCall(Struct, frozen=True):
    """One call of a host."""

    method: bytes
    path: bytes
    """The whole path, as the request line has it."""
    query: bytes | None = None
    """``None``: without a question mark."""
    body: bytes = b""
    """What a probe sends along, as JSON; the bodies of clients' calls stand elsewhere."""
    origin: str | None = None
    """Where a probe or a list goes, if another host than that of the base address has it."""

    def __repr__(self) -> str:  # queries may hold keys
        return f"HostCall({self.method!r}, {self.path!r})"

    @property
    def target(self) -> bytes:
        """Path and query as the request line has them."""
        return self.path if self.query is None else self.path + b"?" + self.query


class VendorCall(Struct, frozen=True):
    """What a provider is asked for, and where the vendor's own hosts take it."""

    operation: Operation
    method: bytes
    path: bytes
    """Below the base address, with its leading ``/``."""
    query: bytes | None = None
    model: str | None = None
    """The provider's own name of the model."""
    stream: bool = False
    """Whether an answer in pieces is asked for; known only where the wire has :attr:`ProviderWire.edits`."""
    prefix: bytes = b""
    """What stands before the path of the base address."""
    version: bytes = b""
    """What is needed in place of a ``/v1`` at the end of the base address."""
    from_origin: bool = False
    """The path is below the origin of the base address."""
    refused: frozenset[str] = frozenset()
    """What the model refused of late, by the names in :attr:`RequestEdits.refusable`."""
    newer_versions: bool = True
    """Whether the model's row says that it takes newer versions of its vendor's API than the first."""

    def __repr__(self) -> str:  # as above
        return f"VendorCall({self.operation!r}, {self.method!r}, {self.path!r})"


class RequestEdits(Struct, frozen=True):
    """What becomes of a request."""

    edits: Sequence[Edit]
    """Splices of the body, which do not overlap."""
    headers: RawHeaders
    """The headers that are sent before those of the operator and the credential."""
    dropped: tuple[str, ...] = ()
    """What the client asked for and does not go on, as usage events name it."""
    refusable: tuple[str, ...] = ()
    """What goes on and can be left out if the host refuses it."""

    def __repr__(self) -> str:  # splices hold bodies, and headers anything
        return f"RequestEdits({len(self.edits)} splices)"


class Unframer(Protocol):
    """Turns what a host sends into what its vendor would have sent."""

    def feed(self, data: bytes) -> Iterable[bytes]:
        """Yield what these bytes complete, one frame after the other.

        :raises GatewayError: ``UPSTREAM_BROKEN``, behind the frames that are in order.
        """
        ...

    def finish(self) -> bytes:
        """Return what is left at the end of the body.

        :raises GatewayError: ``UPSTREAM_BROKEN``: it has ended too early.
        """
        ...


class Framing(Struct, frozen=True):
    """How the body of one response is unframed."""

    unframer: Unframer
    content_type: bytes
    """The media type of what comes out."""


def own_call(provider: Provider, vendor_call: VendorCall) -> HostCall:
    """Return the call as the vendor's own hosts have it, below the base address."""
    if vendor_call.from_origin:
        return HostCall(vendor_call.method, vendor_call.path, vendor_call.query)
    base = base_path(provider.base_url)
    if vendor_call.version:
        base = base.removesuffix(b"/v1") + b"/" + vendor_call.version
    return HostCall(vendor_call.method, vendor_call.prefix + base + vendor_call.path, vendor_call.query)


class ProviderWire(Struct, frozen=True):
    """How the hosts of a kind are called.  All of it is pure."""

    call: Callable[[Provider, VendorCall], HostCall] = own_call
    """Where a call goes.

    :raises GatewayError: where the host does not serve it.
    """
    edits: Callable[[Provider, VendorCall, bytes, RawHeaders], RequestEdits] | None = None
    """What becomes of a JSON body and of the headers of a call, of which both are known; ``None``: nothing.

    :raises GatewayError: where the host cannot take it.
    """
    unframe: Callable[[VendorCall, bytes], Framing | None] | None = None
    """How the body of a good response of this ``Content-Type`` is unframed; ``None``: not at all."""
    error: Callable[[int, RawHeaders, bytes], UpstreamError | None] | None = None
    """What a refusal says, by its status, headers and body, where it is none of the dialect's own; raises
    nothing, whatever the body is."""
    refused: Callable[[tuple[str, ...], UpstreamError], frozenset[str]] | None = None
    """Which of what was :attr:`~RequestEdits.refusable` a refusal is about: without it the request is sent
    again, once; ``None``: no refusal says so."""
    added_headers: Callable[[RawHeaders], RawHeaders] | None = None
    """What SDKs look for in the head of a response that is passed on, and the host has under other names."""
    estimates_counts: bool = False
    """Some models do not count tokens: a count that is refused with 400 or 404 is estimated."""
    is_silent: bool = False
    """Streams have no pings of their own, so that the gateway's keep-alives stand in for them."""
    serves_all: bool = True
    """The hosts have all that the vendor's own have: :attr:`call` refuses nothing."""
    has_list: bool = True
    """Models can be listed."""
    lister: ModelLister | None = None
    """How models are listed; ``None``: as the dialect has it."""
    probe: Callable[[Provider], HostCall] | None = None
    """What shows whether the hosts respond; ``None``: a small page of models."""
    is_well: Callable[[int, RawHeaders, bytes], bool] | None = None
    """Whether a probe that is refused shows all the same that the host responds and takes the credential."""
    other_origin: Callable[[Provider], str | None] | None = None
    """The other host that some calls go to (:attr:`HostCall.origin`), if there is one."""

    @property
    def is_plain(self) -> bool:
        """Whether bodies go and come as the dialect has them, so that heads and targets may be remembered."""
        return self.edits is None and self.unframe is None and self.error is None

    def read_error(self, status: int, headers: RawHeaders, body: bytes) -> UpstreamError | None:
        """Return what a refusal says where it is none of the dialect's own."""
        return None if self.error is None else self.error(status, headers, body)


VENDOR: Final = ProviderWire()
"""As the dialect has it."""


def lister_of(provider: Provider, wire: ProviderWire) -> ModelLister:
    """Return how a provider is asked for its models."""
    return wire.lister or dialect_of(provider.row.dialect).lister


def list_call(provider: Provider, wire: ProviderWire, query: str) -> HostCall:
    """Return the call for a page of a provider's models.

    :param query: as its :class:`~mgw.dialects.dialect.ModelLister` wants it.
    """
    return wire.call(provider, VendorCall(Operation.MODELS, b"GET", _MODELS, query.encode() or None))


def probe_call(provider: Provider, wire: ProviderWire) -> HostCall:
    """Return the call that shows whether a provider responds."""
    if wire.probe is not None:
        return wire.probe(provider)
    return list_call(provider, wire, lister_of(provider, wire).query(1, None))


def chat_call(provider: Provider, wire: ProviderWire, model: str) -> HostCall:
    """Return the call for a conversation, as people are shown it.

    :param model: may be any text that stands for one.
    """
    path = provider.row.chat_path.replace("{model}", model)
    call = wire.call(provider, VendorCall(Operation.CHAT, b"POST", path.encode(), model=model))
    return replace(call, path=call.path.replace(b"%7Bmodel%7D", b"{model}"))
