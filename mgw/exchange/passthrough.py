"""Same family: the client's bytes are sent with only the model's value replaced, the response's as they come.

Source: contract 5.1 and 5.7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mgw.canonical.reply import TokenUsage
from mgw.credentials.provider import Credential
from mgw.dialects import dialect_of
from mgw.dialects.dialect import Meter
from mgw.dialects.last_event import LastEvent
from mgw.dialects.metering import BlindMeter, media_type
from mgw.errors import GatewayError
from mgw.exchange.body import RequestBody
from mgw.exchange.request import ClientRequest
from mgw.exchange.response import BufferedResponse, FullResponse, StreamingResponse
from mgw.exchange.rewritten_urls import UrlRewriter, rewrites_body
from mgw.exchange.upstream_headers import forwarded_headers, provider_headers, secrets_sent
from mgw.families import FAMILIES
from mgw.routing.match import PROVIDER
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Route
from mgw.secret import Secret, overwritten
from mgw.upstream.address import call_target
from mgw.upstream.client import UpstreamRequest, UpstreamResponse
from mgw.vocabulary import Modality
from mgw.wire.encodings import Gunzip
from mgw.wire.headers import RawHeaders, response_headers, value_of
from mgw.wire.target import quote_model_path, without_parameter

_FIRST_ERROR_STATUS: Final = 400
_MAX_REWRITTEN_BYTES: Final = 16 * 1024 * 1024
"""A page of Anthropic's list has at most 1,000 batches of less than a kilobyte."""
_GUNZIPPED_BYTES: Final = 4 * 1024 * 1024
_PROVIDER_PARAMETER: Final = frozenset({PROVIDER})
_VERSION: Final = re.compile(r"^/v1(?:beta)?(?=/)")
_PARTIAL_RESPONSE_HEADERS: Final = frozenset({b"accept-encoding", b"range", b"if-range"})
"""What would make a response less than whole, or not readable."""
_CONTENT_LENGTH: Final = frozenset({b"content-length"})
_BODY_DIGEST_HEADERS: Final = frozenset({b"etag", b"digest", b"content-digest", b"content-md5"})
"""What speaks of the very bytes of a body."""
_TUNED_MODELS: Final = re.compile(rb"^/models/tunedModels(?:/|%2[Ff])")
MAX_ERROR_BYTES: Final = 64 * 1024
"""A longer body is no error's, and passes byte for byte."""
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END: Final = 4


@dataclass(slots=True)
class PassthroughFilter:
    """Give back the very same bytes, and let the meter look at them."""

    _meter: Meter
    _gunzip: Gunzip | None = field(default=None)
    _last_event: LastEvent | None = field(default=None)
    """For a stream."""
    ended: bool = False
    """Never before its body has: the client gets what the provider sends."""
    complete: bool = False
    """Nor is anything known of what is missing."""

    def feed(self, data: bytes) -> bytes:
        """Return the same object."""
        text = data if self._gunzip is None else self._unzip(data)
        self._meter.feed(text)
        if text and self._last_event is not None:
            self._last_event.feed(text)
        return data

    @property
    def sent_last_event(self) -> bool:
        """Whether the stream has had its last event; unknown, and so not, where it cannot be read."""
        return self._last_event is not None and self._last_event.passed

    def _unzip(self, data: bytes) -> bytes:
        """Return what the meter is to see; one that has missed some knows nothing (contract 5.8)."""
        assert self._gunzip is not None, "the body is zipped"
        unzipped = self._gunzip.feed(data)
        if self._gunzip.given_up:
            self._meter = BlindMeter()
        return unzipped

    def finish(self) -> bytes:
        """Nothing is held back."""
        self._meter.finish()
        return b""

    def fail(self, error: GatewayError) -> bytes | None:  # noqa: ARG002  the interface's
        """A broken response ends as a broken connection: the bytes are the upstream's, not ours to end."""
        self._meter.finish()
        return None

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self._meter.usage

    def keepalive(self) -> bytes:
        """Add nothing to the provider's bytes."""
        return b""


@dataclass(slots=True)
class ErrorFilter(PassthroughFilter):
    """The same for an error, but for the operator's own credential, where the provider repeats it.

    The body waits for its end, or until it is too long for an error: from then on it passes as it comes.
    Each byte of the credential becomes a ``*``, so that the length stays what the head says.
    Source: contract 6.10.
    """

    secrets: tuple[Secret, ...] = field(default=(), repr=False)
    _held: list[bytes] = field(default_factory=list, repr=False)
    _room: int = MAX_ERROR_BYTES

    def feed(self, data: bytes) -> bytes:
        """Hold the bytes back while they may be all of a short error."""
        PassthroughFilter.feed(self, data)
        if self._room < 0:
            return data
        self._held.append(data)
        self._room -= len(data)
        return b"" if self._room >= 0 else self._release()

    def finish(self) -> bytes:
        """Return the error without the credential."""
        PassthroughFilter.finish(self)
        return overwritten(self._release(), self.secrets) if self._held else b""

    def _release(self) -> bytes:
        held, self._held = b"".join(self._held), []
        return held


@dataclass(slots=True)
class KeepaliveFilter(PassthroughFilter):
    """The same for an event stream, with keep-alives between its events where the operator wants them."""

    keepalive_bytes: bytes = b""
    _tail: bytes = b"\n\n"

    def feed(self, data: bytes) -> bytes:
        """Return the same object, and remember how it ended."""
        self._tail = data[-4:] if len(data) >= _LONGEST_END else (self._tail + data)[-4:]
        return PassthroughFilter.feed(self, data)

    def keepalive(self) -> bytes:
        """Return a keep-alive where the last event has ended (contract 2.14: between events only)."""
        return self.keepalive_bytes if self._tail.endswith(_EVENT_ENDS) else b""


@dataclass(slots=True)
class Passthrough:
    """How a request is sent as it came, and how its response reaches the client."""

    route: Route
    target: Target
    request: ClientRequest
    body: RequestBody
    keepalive_seconds: float | None = None
    rewriter: UrlRewriter | None = None
    _credential: Credential | None = field(init=False, default=None, repr=False)

    def upstream_request(self, credential: Credential) -> UpstreamRequest:
        """Return the request to send with one credential."""
        body, reencoded = self.body.upstream_body()
        self._credential = credential
        return UpstreamRequest(
            method=self.request.method,
            target=self._target(),
            headers=self._headers(credential, reencoded=reencoded),
            body=body,
        )

    def client_response(self, response: UpstreamResponse) -> StreamingResponse | BufferedResponse:
        """Hand the response on as it comes, but for URLs that are rewritten to lead to the gateway."""
        stream = is_stream(self.route, response)
        headers, reason = response_headers(response.headers), response.reason
        if self.rewriter is not None:
            headers = self.rewriter.headers(headers)
            if self._may_hold_urls(response):
                complete = partial(_rewrite_body, response.status, headers, self.rewriter)
                return BufferedResponse(complete, max_bytes=_MAX_REWRITTEN_BYTES)
        if response.status >= _FIRST_ERROR_STATUS:
            secrets = self._secrets()
            reason = overwritten(reason, secrets)
            headers = [(name, overwritten(value, secrets)) for name, value in headers]
        body_filter = self.filter(response, stream=stream)
        return StreamingResponse(
            response.status, reason, headers, body_filter, stream, self.keepalive_seconds
        )

    def filter(self, response: UpstreamResponse, *, stream: bool) -> PassthroughFilter:
        """Return the filter for the response's body."""
        content_type = value_of(response.headers, b"content-type") or b""
        dialect, metered = dialect_of(self.route.dialect), self.route.metered
        meter = dialect.meter(content_type) if metered else BlindMeter()
        last_event = LastEvent(self.route.dialect) if stream else None
        if is_encoded(response):
            gunzip = Gunzip(_GUNZIPPED_BYTES) if metered else None
            return PassthroughFilter(meter, gunzip, last_event)
        length = value_of(response.headers, b"content-length")
        if response.status >= _FIRST_ERROR_STATUS and _may_be_short(length) and (secrets := self._secrets()):
            return ErrorFilter(meter, secrets=secrets)
        counted = length is not None  # not a byte more may go
        if self.keepalive_seconds is None or counted or media_type(content_type) != b"text/event-stream":
            return PassthroughFilter(meter, None, last_event)
        return KeepaliveFilter(meter, None, last_event, keepalive_bytes=dialect.keepalive_bytes)

    def _secrets(self) -> tuple[Secret, ...]:
        """Return what was sent and no error may repeat."""
        return () if self._credential is None else secrets_sent(self.target.provider, self._credential)

    def _may_hold_urls(self, response: UpstreamResponse) -> bool:
        """Whether the body may hold a URL that has to be rewritten."""
        has_body = response.status < 300 and self.request.method != b"HEAD"
        return rewrites_body(self.rewriter) and has_body and not is_encoded(response)

    def _target(self) -> bytes:
        route, query = self.route, self.request.raw_query
        if route.model_optional or route.modality is Modality.PLATFORM:
            query = without_parameter(query, _PROVIDER_PARAMETER)
        return call_target(
            self.target.provider,
            self._path(),
            query,
            prefix=route.upstream_prefix.encode(),
            version=(route.upstream_version or "").encode(),
        )

    def _path(self) -> bytes:
        route, request = self.route, self.request
        if route.upstream_path is not None:
            return route.upstream_path.encode()
        model, verb = self.target.upstream_model, route.upstream_verb
        if route.model_at is not ModelAt.PATH or (model == request.path_model and verb is None):
            path = request.raw_path[len(request.version) :]
        else:
            before, _, after = _VERSION.sub("", route.path).partition("{model}")
            after = after if verb is None else f":{verb}"
            named = quote_model_path(model or "", FAMILIES[route.family].id_characters)
            path = before.encode() + named + after.encode()
        # Google has tuned models beside the others, not below them.
        return _TUNED_MODELS.sub(b"/tunedModels/", path)

    def _headers(self, credential: Credential, *, reencoded: bool) -> RawHeaders:
        headers = forwarded_headers(self.request, self.route.family, self.target)
        if reencoded:
            headers = [pair for pair in headers if pair[0].lower() != b"content-encoding"]
        if rewrites_body(self.rewriter):
            headers = [pair for pair in headers if pair[0].lower() not in _PARTIAL_RESPONSE_HEADERS]
            headers.append((b"Accept-Encoding", b"identity"))
        return provider_headers(headers, self.target.provider, credential)


def _rewrite_body(status: int, headers: RawHeaders, rewriter: UrlRewriter, body: bytes) -> FullResponse:
    rewritten = rewriter.body(body)
    without = _CONTENT_LENGTH if rewritten is body else _CONTENT_LENGTH | _BODY_DIGEST_HEADERS
    kept = [pair for pair in headers if pair[0].lower() not in without]
    return FullResponse(status, kept, rewritten)


def _may_be_short(length: bytes | None) -> bool:
    return length is None or not length.isdigit() or int(length) <= MAX_ERROR_BYTES


def is_encoded(response: UpstreamResponse) -> bool:
    """Whether the body of a response has a content coding."""
    encoding = value_of(response.headers, b"content-encoding") or b""
    return encoding.strip().lower() not in (b"identity", b"")


def is_stream(route: Route, response: UpstreamResponse) -> bool:
    """Whether a response is an event stream, or an array that arrives in pieces."""
    content_type = value_of(response.headers, b"content-type") or b""
    streamed = media_type(content_type) == b"text/event-stream"
    return streamed or (route.in_pieces and response.status < 400)
