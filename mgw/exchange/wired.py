"""A request by a wire that is not plain: what goes and comes is not as the dialect has it.

Heads and targets of such requests are not remembered, since body and headers decide them together.
"""

from __future__ import annotations

from msgspec import MsgspecError, Struct
from msgspec.json import decode
from msgspec.structs import replace

from mgw.http.response_head import is_encoded
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName
from mgw.upstream.client import UpstreamResponse
from mgw.upstream.wires.wire import HostCall, ProviderWire, VendorCall
from mgw.wire.headers import RawHeaders
from mgw.wire.json_spans import apply_edits


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

    def __repr__(self) -> str:  # headers may hold keys
        return f"WiredRequest({self.vendor_call.operation})"

    def edit(self, body: bytes) -> tuple[WiredRequest, bytes]:
        """Return the request with other headers, and its body, as the host takes them.

        :param body: without a content coding; empty where it is not looked at.
        :raises GatewayError: the host cannot take it.
        """
        if self.wire.edits is None:
            return self, body
        edited = self.wire.edits(self.vendor_call, body, self.headers)
        return replace(self, headers=edited.headers), apply_edits(body, edited.edits)

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


def asks_for_stream(body: bytes) -> bool:
    """Whether a JSON body asks for an answer in pieces, as it does in OpenAI's and Anthropic's wire."""
    try:
        return decode(body, type=_StreamField).stream
    except (MsgspecError, RecursionError):  # the provider's to refuse
        return False
