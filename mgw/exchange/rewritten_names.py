"""Tool names that are rewritten in a relayed request, and restored in the response.

All other bytes are passed on as they come.  A stream is looked at line by line as it passes; what is no
stream is restored once it is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from mgw.bodies.source import BodySource
from mgw.credentials.provider import Credential
from mgw.credentials.signing import Signing
from mgw.dialects.renamed_tools import RestoredStream, ToolPlaces, restore_answer
from mgw.dialects.tool_name_map import ToolNameMap
from mgw.exchange.metered_stream import OF_BYTES, without_lines_of_bytes
from mgw.exchange.outer_filter import OuterFilter
from mgw.exchange.passthrough import Passthrough
from mgw.exchange.response import (
    BufferedResponse,
    ClientResponse,
    EarlyStream,
    FullResponse,
    StreamingResponse,
    WholeResponse,
)
from mgw.exchange.wired import WiredRequest
from mgw.http.response_head import ResponseHead, is_encoded
from mgw.routing.resolve import Target
from mgw.upstream.client import ResponseSink, Upstream, UpstreamResponse
from mgw.wire.headers import response_headers
from mgw.wire.media_types import is_event_stream

_FIRST_OTHER_STATUS: Final = 300


@dataclass(slots=True, eq=False, repr=False)
class RestoredFilter(OuterFilter):
    """Restores a stream, and hands it to the filter that it would have had."""

    _stream: RestoredStream

    def feed(self, data: bytes) -> bytes:
        """Return the lines that are complete, as the inner filter hands them on."""
        restored = self._stream.feed(data)
        return self.inner.feed(restored) if restored else b""

    def finish(self) -> bytes:
        """Return what is left."""
        rest = self._stream.finish()
        before = self.inner.feed(rest) if rest else b""
        return before + self.inner.finish()


@dataclass(slots=True, eq=False, repr=False)
class RenamedPassthrough:
    """How a request with other names is sent, and how its response reaches the client."""

    plan: Passthrough
    places: ToolPlaces
    names: ToolNameMap

    @property
    def target(self) -> Target:
        """Where the request goes."""
        return self.plan.target

    @property
    def body(self) -> bytes | BodySource:
        """The body as it is sent."""
        return self.plan.body

    @property
    def early_stream(self) -> EarlyStream | None:
        """What the client may hear before an answer."""
        return self.plan.early_stream

    @property
    def wired(self) -> WiredRequest | None:
        """How the wire of the provider has the request."""
        return self.plan.wired

    def rewired(self, wired: WiredRequest, body: bytes) -> RenamedPassthrough:
        """Return how the same request is sent in another way."""
        return RenamedPassthrough(self.plan.rewired(wired, body), self.places, self.names)

    def send(
        self,
        credential: Credential,
        upstream: Upstream,
        sink: ResponseSink,
        *,
        fresh: bool,
        signing: Signing | None,
    ) -> Callable[[], None] | None:
        """Send the request with one credential, as :meth:`mgw.upstream.client.Upstream.start` says.

        :raises GatewayError: ``MALFORMED``, where it cannot be written.
        """
        return self.plan.send(credential, upstream, sink, fresh=fresh, signing=signing)

    def client_response(self, response: UpstreamResponse, *, may_try_again: bool) -> ClientResponse:
        """Return the response that the client gets, with its own names."""
        found = self.plan.client_response(response, may_try_again=may_try_again)
        head = response.head
        if head.status >= _FIRST_OTHER_STATUS or is_encoded(head) or isinstance(found, BufferedResponse):
            return found
        is_stream = is_event_stream(head.content_type)
        if isinstance(found, WholeResponse):
            return self._whole(found, is_stream=is_stream)
        if is_stream:
            stream, early = RestoredStream(self.places, self.names), found.early_failure
            if early is not None and early.body_filter is not None:
                early = replace(early, body_filter=RestoredFilter(early.body_filter, stream))
            return replace(
                found,
                body_filter=RestoredFilter(found.body_filter, stream),
                lines=None if found.lines is None else without_lines_of_bytes(found.lines),
                content_length=None,
                is_proved=False,
                early_failure=early,
            )
        return BufferedResponse(partial(self._complete, head, found))

    def _whole(self, whole: WholeResponse, *, is_stream: bool) -> WholeResponse:
        if is_stream:
            stream = RestoredStream(self.places, self.names)
            body = stream.feed(whole.body) + stream.finish()
        else:
            body = restore_answer(self.places, whole.body, self.names)
        if body == whole.body:
            return whole
        lines = b"%bContent-Length: %d\r\n" % (without_lines_of_bytes(whole.lines), len(body))
        return replace(whole, body=body, lines=lines, content_length=len(body), is_proved=False)

    def _complete(self, head: ResponseHead, streaming: StreamingResponse, body: bytes) -> FullResponse:
        body_filter = streaming.body_filter
        restored = restore_answer(self.places, body, self.names)
        restored = body_filter.feed(restored) + body_filter.finish()
        headers = [pair for pair in response_headers(head.headers) if pair[0].lower() not in OF_BYTES]
        return FullResponse(head.status, headers, restored, body_filter.usage())
