"""A request by a wire that is not plain: what goes and comes is not as the dialect has it.

Heads and targets of such requests are not remembered, since body and headers decide them together.
"""

from __future__ import annotations

from typing import Final

from msgspec import MsgspecError, Struct
from msgspec.json import decode
from msgspec.structs import replace

from mgw.canonical.reply import UpstreamError
from mgw.http.response_head import ResponseHead
from mgw.nouns.errors import GatewayError
from mgw.nouns.vocabulary import DialectName
from mgw.upstream.client import ResponseSink, UpstreamResponse
from mgw.upstream.wires.wire import Asked, Call, Framing, ProviderWire
from mgw.wire.headers import RawHeaders
from mgw.wire.json_spans import apply_edits

_FIRST_ERROR_STATUS: Final = 400


class _StreamField(Struct):
    stream: bool = False


class WiredRequest(Struct, frozen=True):
    """What a provider is asked, and how its wire has it."""

    wire: ProviderWire
    asked: Asked
    call: Call
    headers: RawHeaders
    """The headers that are sent, but for the operator's and the credential."""
    client: DialectName
    dialect: DialectName
    """The dialect in which the provider is asked."""
    request_id: str

    def __repr__(self) -> str:  # headers may hold keys
        return f"WiredRequest({self.asked.operation})"

    def edit(self, body: bytes) -> tuple[WiredRequest, bytes]:
        """Return the request with other headers, and its body, as the host takes them.

        :param body: without a content coding; empty where it is not looked at.
        :raises GatewayError: the host cannot take it.
        """
        if self.wire.edits is None:
            return self, body
        edited = self.wire.edits(self.asked, body, self.headers)
        return replace(self, headers=edited.headers), apply_edits(body, edited.edits)

    def unframe(self, sink: ResponseSink) -> ResponseSink:
        """Return a sink that hands responses on as the vendor's own host would have sent them."""
        return sink if self.wire.unframe is None else _UnframingSink(self, sink)

    def framing_of(self, head: ResponseHead) -> Framing | None:
        """Return how the body of a response is unframed; ``None``: not at all."""
        if self.wire.unframe is None or head.status >= _FIRST_ERROR_STATUS:
            return None
        return self.wire.unframe(self.asked, head.content_type or b"")

    def read_error(self, status: int, headers: RawHeaders, body: bytes) -> UpstreamError | None:
        """Return what a refusal says, where that is none of the dialect's own."""
        return None if self.wire.error is None else self.wire.error(status, headers, body)


class _UnframingSink:
    """A sink before another."""

    def __init__(self, wired: WiredRequest, sink: ResponseSink) -> None:
        self._wired = wired
        self._sink = sink

    def on_response(self, response: UpstreamResponse) -> None:
        """Have a good response deliver what comes out of its frames."""
        try:
            framing = self._wired.framing_of(response.head)
        except GatewayError as error:
            response.cancel()
            self._sink.on_failure(error)
            return
        if framing is not None:
            response.unframe(response.head.with_content_type(framing.content_type), framing.unframer)
        self._sink.on_response(response)

    def on_failure(self, error: Exception) -> None:
        """Hand it on."""
        self._sink.on_failure(error)


def asks_for_stream(body: bytes) -> bool:
    """Whether a JSON body asks for an answer in pieces, as it does in OpenAI's and Anthropic's wire."""
    try:
        return decode(body, type=_StreamField).stream
    except MsgspecError:  # the provider's to refuse
        return False
