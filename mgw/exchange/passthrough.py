"""Same family: only the model in the request is replaced, and the response is relayed unchanged.

Source: contract 5.1 and 5.7.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mgw.bodies.source import BodySource
from mgw.bodies.spliced import SplicedBody
from mgw.canonical.reply import NO_USAGE, TokenUsage, UpstreamError
from mgw.credentials.provider import Credential
from mgw.credentials.signing import Signing
from mgw.dialects import client_side_of, dialect_of
from mgw.dialects.dialect import ChunkRemover, Dialect, Meter
from mgw.dialects.last_event import LastEvent
from mgw.dialects.metering import BlindMeter, meter_whole
from mgw.dialects.stream_end import StreamEnd
from mgw.exchange.answering_model import AnsweringModel
from mgw.exchange.held_events import HeldEventsFilter, hold_events, is_array
from mgw.exchange.metered_stream import MeteredStreamFilter, without_lines_of_bytes
from mgw.exchange.passing_filters import (
    MAX_ERROR_BYTES,
    ErrorFilter,
    KeepaliveFilter,
    PassthroughFilter,
    UnframedFilter,
)
from mgw.exchange.received import Fault
from mgw.exchange.refusals import RefusalMeter, complete_refusal, write_stream_error
from mgw.exchange.relay import BodyFilter
from mgw.exchange.response import (
    BufferedResponse,
    ClientResponse,
    EarlyStream,
    Estimate,
    FullResponse,
    StreamingResponse,
    WholeResponse,
)
from mgw.exchange.response_translation import UNCOUNTED
from mgw.exchange.rewritten_urls import UrlRewriter, rewrites_body
from mgw.exchange.upstream_head import render_head, render_signed_head, sign_request, vendor_call_of
from mgw.exchange.upstream_headers import forwarded_headers, provider_headers, secrets_sent
from mgw.exchange.wired import WiredRequest, readable_headers
from mgw.http.response_head import ResponseHead, is_encoded
from mgw.memo.client_request import ClientRequest
from mgw.memo.known_target import UpstreamHead
from mgw.nouns.errors import GatewayError
from mgw.nouns.secret import Secret, overwritten
from mgw.nouns.vocabulary import DialectName
from mgw.routing.resolve import Target
from mgw.routing.route import Route
from mgw.upstream.client import ResponseSink, Upstream, UpstreamRequest, UpstreamResponse
from mgw.wire.encodings import Gunzip
from mgw.wire.headers import RawHeaders, response_headers
from mgw.wire.media_types import is_event_stream

_FIRST_ERROR_STATUS: Final = 400
_REFUSALS: Final = range(400, 600)
"""A host that frames its streams has a first frame in place of a status, so that any error is a refusal."""
_MAX_REWRITTEN_BYTES: Final = 16 * 1024 * 1024
"""A page of Anthropic's list has at most 1,000 batches of less than a kilobyte."""
_GUNZIPPED_BYTES: Final = 4 * 1024 * 1024
_CONTENT_LENGTH: Final = frozenset({b"content-length"})
_BODY_DIGEST_HEADERS: Final = frozenset({b"etag", b"digest", b"content-digest", b"content-md5"})
"""What speaks of the very bytes of a body."""
_NO_PAIRS: Final[RawHeaders] = []


class Passthrough(Struct, eq=False):
    """How a request is sent as it came, and how its response reaches the client."""

    route: Route
    target: Target
    request: ClientRequest
    body: bytes | BodySource
    """The body as it is sent."""
    keepalive_seconds: float | None = None
    rewriter: UrlRewriter | None = None
    head: UpstreamHead | None = None
    """The head that is sent, where it is the same for other requests with this head of the client's."""
    reencoded: bool = False
    """Whether the body has lost the content coding that the client gave it."""
    answering: AnsweringModel | None = None
    """Finds the model of a list that has answered, where there is a list."""
    reads_errors: bool = False
    """Whether the event says why the provider refuses."""
    readable: bool = False
    """Whether the response is looked at, so that it must be whole and without a coding."""
    wired: WiredRequest | None = None
    """How the wire of the provider has the request, where that is not as the dialect has it."""
    early_stream: EarlyStream | None = None
    """What the client may hear before an answer, where the provider sends no signs of life."""
    estimate: Estimate | None = None
    """What answers a count that the model does not make."""
    remover: Callable[[], ChunkRemover] | None = None
    """Makes what takes out of a stream that which the client has not asked for."""
    _credential: Credential | None = None

    def __repr__(self) -> str:  # the body stays out
        return f"Passthrough({self.request!r})"

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
        body, head, self._credential = self.body, self.head, credential
        if head is None or not isinstance(body, (bytes, SplicedBody)):
            request = self._request(credential, upstream)
            if signing is not None:
                request = sign_request(request, signing, upstream)
            return upstream.start(request, sink, fresh=fresh)
        size = len(body) if isinstance(body, bytes) else body.size
        if signing is None:
            rendered = render_head(head, credential, upstream, size, self.request.values)
        else:
            rendered = render_signed_head(head, (credential, signing), upstream, size, self.request.values)
        return upstream.send(head.method, rendered, body, sink, fresh=fresh)

    def _request(self, credential: Credential, upstream: Upstream) -> UpstreamRequest:
        """Return the request of a head that is not remembered."""
        wired = self.wired
        if wired is None:
            vendor_call = vendor_call_of(self.route, self.target, self.request)
            call = upstream.wire.call(self.target.provider, vendor_call)
        else:
            call = wired.call
        return UpstreamRequest(call.method, call.target, self._headers(credential), self.body)

    def rewired(self, wired: WiredRequest, body: bytes) -> Passthrough:
        """Return how the same request is sent in another way."""
        return replace(self, wired=wired, body=body)

    def client_response(self, response: UpstreamResponse, *, may_try_again: bool) -> ClientResponse:
        """Hand the response on as it comes, but for URLs that are rewritten to lead to the gateway."""
        unframed = False
        if (wired := self.wired) is not None:
            unframed = wired.unframe(response)
            wired.add_headers(response)
            if response.status >= _FIRST_ERROR_STATUS:
                return self._wired_refusal(wired, response.head)
        head, route = response.head, self.route
        stream = is_event_stream(head.content_type) or (route.in_pieces and head.status < _FIRST_ERROR_STATUS)
        if unframed and not stream:  # what comes out of its frames may be nothing
            return BufferedResponse(partial(_unframed_whole, head))
        reason, lines = head.reason, head.relayed_lines
        if self.rewriter is not None:
            rewritten = self._rewritten(head, self.rewriter)
            if isinstance(rewritten, BufferedResponse):
                return rewritten
            lines = rewritten
        if head.status >= _FIRST_ERROR_STATUS:
            reason, lines = self._without_secrets(reason, lines)
        length = head.content_length
        is_readable_stream = stream and head.status < _FIRST_ERROR_STATUS and not is_encoded(head)
        if self.remover is not None and is_readable_stream:
            lines, length = without_lines_of_bytes(lines), None
        is_proved = head.is_proved and lines is head.relayed_lines
        holds = is_readable_stream and (may_try_again or unframed)
        body = None if holds else response.take_whole()
        if body is not None:
            body, usage, fault = self._meter_whole(head, body, stream=stream)
            return WholeResponse(head.status, reason, lines, length, body, stream, usage, fault, is_proved)
        body_filter = self._body_filter(head, stream=stream, unframed=unframed)
        shown = head.status, reason, _NO_PAIRS, body_filter, stream, self.keepalive_seconds
        streaming = StreamingResponse(*shown, lines=lines, content_length=length, is_proved=is_proved)
        return self._held(streaming, head, retries=may_try_again, unframed=unframed) if holds else streaming

    def _held(
        self,
        streaming: StreamingResponse,
        head: ResponseHead,
        *,
        retries: bool,
        unframed: bool,
    ) -> StreamingResponse:
        """Return a stream of which nothing goes out before it says something."""
        statuses = _REFUSALS if unframed else self.target.provider.retries.statuses
        events, inner = dialect_of(self.route.dialect).stream_events, streaming.body_filter
        early = self.early_stream
        pings = b"" if early is None else early.keepalive
        is_answer = retries and self.route.has_known_end
        held = HeldEventsFilter(inner, statuses, events, is_array(head), is_answer, early_keepalive=pings)
        render = None
        if unframed and self.wired is not None:
            render = partial(_render_error, self.wired.client, self.wired.request_id)
        return hold_events(streaming, head, held, self.secrets(), render)

    def _without_secrets(self, reason: bytes, lines: bytes) -> tuple[bytes, bytes]:
        secrets = self.secrets()
        return overwritten(reason, secrets), overwritten(lines, secrets)

    def _rewritten(self, head: ResponseHead, rewriter: UrlRewriter) -> bytes | BufferedResponse:
        """Return the lines of a head with URLs that lead to the gateway; the whole, if its body has some."""
        headers = rewriter.headers(response_headers(head.headers))
        if self._may_hold_urls(head):
            complete = partial(_rewrite_body, head.status, headers, rewriter)
            return BufferedResponse(complete, max_bytes=_MAX_REWRITTEN_BYTES)
        return b"".join([b"%b: %b\r\n" % pair for pair in headers])

    def _wired_refusal(self, wired: WiredRequest, head: ResponseHead) -> BufferedResponse:
        is_slow = self.estimate is not None and self.estimate.is_slow and head.status in UNCOUNTED
        return BufferedResponse(partial(self._complete_refusal, wired, head), is_slow=is_slow)

    def _complete_refusal(self, wired: WiredRequest, head: ResponseHead, body: bytes) -> FullResponse:
        """Return what becomes of a refusal in the host's own form."""
        if self.estimate is not None and head.status in UNCOUNTED:
            with suppress(GatewayError):  # the body is no conversation: the host says why
                return self.estimate.make()
        return complete_refusal(wired, head, self.secrets(), body)

    def _meter_whole(
        self, head: ResponseHead, body: bytes, *, stream: bool
    ) -> tuple[bytes, TokenUsage, Fault | None]:
        """Return a whole body as the client gets it, what it took, and what it says went wrong."""
        if stream or head.status >= _FIRST_ERROR_STATUS or head.content_encoding is not None:
            body_filter = self._body_filter(head, stream=stream)
            body = body_filter.feed(body) + body_filter.finish()
            return body, body_filter.usage(), body_filter.fault()
        if self.answering is not None:
            self.answering.look(body)
        if not self.route.metered:
            return body, NO_USAGE, None
        read = dialect_of(self.route.dialect).read_usage
        return body, meter_whole(head.content_type or b"", read, body), None

    def _body_filter(self, head: ResponseHead, *, stream: bool, unframed: bool = False) -> BodyFilter:
        """Return the filter for the response's body, and for what is taken out of it."""
        found = self.filter(head, stream=stream, unframed=unframed)
        if self.remover is None or not stream or head.status >= _FIRST_ERROR_STATUS or is_encoded(head):
            return found
        return MeteredStreamFilter(found, self.remover())

    def filter(self, head: ResponseHead, *, stream: bool, unframed: bool = False) -> PassthroughFilter:
        """Return the filter for the response's body."""
        content_type = head.content_type or b""
        dialect, metered = dialect_of(self.route.dialect), self.route.metered
        last_event = LastEvent(dialect.stream_events.last) if stream else None
        end = None
        if stream and self.route.has_known_end and head.status < _FIRST_ERROR_STATUS:
            end = StreamEnd(dialect.stream_events, self._choices(dialect))
        meter: Meter = dialect.meter(content_type, end) if metered else BlindMeter()
        if self.answering is not None and head.status < _FIRST_ERROR_STATUS:
            meter = self.answering.beside(meter)
        if head.status >= _FIRST_ERROR_STATUS:
            return self._error_filter(head, meter, last_event)
        if head.content_encoding is not None and is_encoded(head):
            gunzip = Gunzip(_GUNZIPPED_BYTES) if metered else None
            return PassthroughFilter(meter, gunzip, last_event, end)
        length = head.content_length
        if unframed and stream and self.wired is not None:
            pings = b"" if self.keepalive_seconds is None else dialect.keepalive_bytes
            # not a method: a stream may last for hours, and the plan has the request's body
            write = partial(write_stream_error, self.wired.client, self.wired.request_id, self.secrets())
            return UnframedFilter(meter, None, last_event, end, keepalive_bytes=pings, write_error=write)
        counted = length is not None  # not a byte more may go
        if self.keepalive_seconds is None or counted or not is_event_stream(content_type):
            return PassthroughFilter(meter, None, last_event, end)
        return KeepaliveFilter(meter, None, last_event, end, keepalive_bytes=dialect.keepalive_bytes)

    def _error_filter(
        self, head: ResponseHead, meter: Meter, last_event: LastEvent | None
    ) -> PassthroughFilter:
        """Return the filter for the body of a refusal."""
        dialect = self.target.provider.row.dialect
        refusal = RefusalMeter(meter, dialect, head.status) if self.reads_errors else None
        meter = meter if refusal is None else refusal
        if is_encoded(head):
            gunzip = Gunzip(_GUNZIPPED_BYTES) if self.route.metered or self.reads_errors else None
            return PassthroughFilter(meter, gunzip, last_event, _refusal=refusal)
        if _may_be_short(head.content_length) and (secrets := self.secrets()):
            return ErrorFilter(meter, secrets=secrets, _refusal=refusal)
        return PassthroughFilter(meter, None, last_event, _refusal=refusal)

    def _choices(self, dialect: Dialect) -> int:
        """Return how many answers the client asked for."""
        # What a body is asked for is in it before its models are renamed.
        body = self.body.original if isinstance(self.body, SplicedBody) else self.body
        if not isinstance(body, bytes) or (self.request.content_codings and not self.reencoded):
            return 1
        return dialect.stream_events.count_choices(body)

    def secrets(self) -> tuple[Secret, ...]:
        """Return what was sent and no error may repeat."""
        return () if self._credential is None else secrets_sent(self.target.provider, self._credential)

    def _may_hold_urls(self, head: ResponseHead) -> bool:
        """Whether the body may hold a URL that has to be rewritten."""
        has_body = head.status < 300 and self.request.method != b"HEAD"
        return rewrites_body(self.rewriter) and has_body and not is_encoded(head)

    def _headers(self, credential: Credential) -> RawHeaders:
        if self.wired is None:
            headers = forwarded_headers(self.request.headers, self.route.family, self.target)
        else:
            headers = self.wired.headers
        if self.reencoded:
            headers = [pair for pair in headers if pair[0].lower() != b"content-encoding"]
        if self.wired is None and (self.readable or rewrites_body(self.rewriter)):
            headers = readable_headers(headers)
        return provider_headers(headers, self.target.provider, credential)


def _render_error(client: DialectName, request_id: str, error: UpstreamError) -> tuple[int, bytes]:
    return client_side_of(client).render_error(error, request_id)


def _unframed_whole(head: ResponseHead, body: bytes) -> FullResponse:
    return FullResponse(head.status, response_headers(head.headers), body)


def _rewrite_body(status: int, headers: RawHeaders, rewriter: UrlRewriter, body: bytes) -> FullResponse:
    rewritten = rewriter.body(body)
    without = _CONTENT_LENGTH if rewritten is body else _CONTENT_LENGTH | _BODY_DIGEST_HEADERS
    kept = [pair for pair in headers if pair[0].lower() not in without]
    return FullResponse(status, kept, rewritten)


def _may_be_short(length: int | None) -> bool:
    return length is None or length <= MAX_ERROR_BYTES
