"""A request by a wire that is not plain: what goes and comes is not as the dialect has it.

Heads and targets of such requests are not remembered, since body and headers decide them together.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from msgspec import MsgspecError, Struct, ValidationError
from msgspec.json import decode
from msgspec.structs import replace

from mgw.canonical.reply import UpstreamError
from mgw.config.provider import Provider
from mgw.exchange.exchange import Exchange
from mgw.http.response_head import is_encoded
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName, Operation
from mgw.routing.body_rules import MatchingRules
from mgw.routing.resolve import Target
from mgw.upstream.client import UpstreamResponse
from mgw.upstream.wires.wire import HostCall, ProviderWire, VendorCall
from mgw.wire.headers import RawHeaders
from mgw.wire.json_document import neutralize_surrogates
from mgw.wire.json_spans import apply_edits

_OF_PARTIAL_RESPONSES: Final = frozenset({b"accept-encoding", b"range", b"if-range"})
"""What would make a response less than whole, or not readable."""


class _StreamField(Struct):
    stream: bool = False


class WiredRequest(Struct, frozen=True):
    """What a provider is asked, and how its wire has it."""

    wire: ProviderWire
    vendor_call: VendorCall
    call: HostCall
    headers: RawHeaders
    """The headers that are sent, but for the operator's and the credential."""
    client: DialectName
    dialect: DialectName
    """The dialect in which the provider is asked."""
    request_id: str
    provider: Provider
    dropped: tuple[str, ...] = ()
    """What the client asked for and does not go on."""
    refusable: tuple[str, ...] = ()
    """What goes on and can be left out if the host refuses it."""
    original: tuple[bytes, RawHeaders] | None = None
    """The body and the headers before they were edited, where something can be left out."""
    is_second: bool = False
    """Whether something was left out because the host had refused it."""
    rules: MatchingRules | None = None
    """What changes the body as the host takes it; a body to count, which some wires wrap, before that."""
    changed_by: int | None = None
    """How many of the rules have changed the body."""

    def __repr__(self) -> str:  # headers may hold keys
        return f"WiredRequest({self.vendor_call.operation})"

    def edit(self, body: bytes) -> tuple[WiredRequest, bytes]:
        """Return the request with other headers, and its body, as the host takes them.

        :param body: without a content coding; empty where it is not looked at.
        :raises GatewayError: the host cannot take it.
        """
        if self.rules is None or not body:
            return self._edit(body)
        if self.vendor_call.operation is Operation.COUNT:
            ruled, changed_by = self.rules.apply(body)
            wired, sent = self._edit(ruled)
            if wired.original is not None:
                wired = replace(wired, original=(body, self.headers))
        else:
            wired, sent = self._edit(body)
            sent, changed_by = self.rules.apply(sent)
        return replace(wired, changed_by=changed_by), sent

    def _edit(self, body: bytes) -> tuple[WiredRequest, bytes]:
        if self.wire.edits is None:
            return self, body
        edited = self.wire.edits(self.provider, self.vendor_call, body, self.headers)
        can_leave_out = self.wire.refused is not None and edited.refusable
        wired = replace(
            self,
            headers=edited.headers,
            dropped=edited.dropped,
            refusable=edited.refusable,
            original=(body, self.headers) if can_leave_out else None,
        )
        return wired, apply_edits(body, edited.edits)

    @property
    def may_leave_out(self) -> bool:
        """Whether something can be left out that a refusal may be about."""
        return self.original is not None

    def refused_by(self, error: UpstreamError) -> frozenset[str]:
        """Return what a refusal is about, of all that can be left out."""
        return frozenset() if self.wire.refused is None else self.wire.refused(self.refusable, error)

    def without(self, refused: Set[str]) -> tuple[WiredRequest, bytes]:
        """Return the same request, and its body, without what the host has refused.

        :raises GatewayError: as :meth:`edit` does.
        """
        assert self.original is not None, "there is something to leave out"
        body, headers = self.original
        vendor_call = replace(self.vendor_call, refused=self.vendor_call.refused | refused)
        return replace(self, vendor_call=vendor_call, headers=headers, is_second=True).edit(body)

    def add_headers(self, response: UpstreamResponse) -> None:
        """Add what SDKs look for in the head of a response that is passed on."""
        if self.wire.added_headers is not None:
            added = self.wire.added_headers(response.head.headers)
            if added:
                response.head = response.head.with_headers(added)

    def unframe(self, response: UpstreamResponse) -> bool:
        """Have a good response deliver what comes out of its frames; say whether it has any.

        :raises GatewayError: ``UPSTREAM_BROKEN``: it is not what the host should send.
        """
        head = response.head
        if self.wire.unframe is None or not 200 <= head.status < 300:
            return False
        framing = self.wire.unframe(self.vendor_call, head.content_type or b"")
        if framing is None:
            return False
        if is_encoded(head):
            message = "the upstream compressed its frames although the request did not allow it"
            raise GatewayError(Reason.UPSTREAM_BROKEN, message)
        response.unframe(head.with_content_type(framing.content_type), framing.unframer)
        return True


def with_findings(exchange: Exchange, target: Target, vendor_call: VendorCall) -> VendorCall:
    """Return a call with what is known of its model."""
    generation, name, model = exchange.generation, target.provider.name, target.upstream_model
    refused = generation.upstreams[name].refused_words.of(model, exchange.clock.seconds())
    row = generation.models.row(model or "", target.family)
    return replace(vendor_call, refused=refused, newer_versions=row.newer_versions)


def readable_headers(headers: RawHeaders) -> RawHeaders:
    """Return the headers to send for a response that is whole and has no coding."""
    kept = [pair for pair in headers if pair[0].lower() not in _OF_PARTIAL_RESPONSES]
    return [*kept, (b"Accept-Encoding", b"identity")]


def asks_for_stream(body: bytes) -> bool:
    """Whether a JSON body asks for an answer in pieces, as it does in OpenAI's and Anthropic's wire."""
    try:
        return decode(body, type=_StreamField).stream
    except (ValidationError, RecursionError):  # the provider's to refuse
        return False
    except MsgspecError:  # perhaps only half of a surrogate pair, which clients cut emoji into
        neutral = neutralize_surrogates(body)
    try:
        return decode(neutral, type=_StreamField).stream
    except (MsgspecError, RecursionError):
        return False
