"""Same family: the client's bytes go up with only the model's value replaced, the answer's come down as is.

Source: contract 5.1 and 5.7.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mgw.credentials.provider import Credential
from mgw.dialects import dialect_of
from mgw.dialects.last_event import LastEvent
from mgw.dialects.metering import BlindMeter, media_type
from mgw.exchange.addresses import Turning, turns_body
from mgw.exchange.client import ClientRequest
from mgw.exchange.content import Content
from mgw.exchange.delivery import Gathered, Streamed, Whole
from mgw.exchange.outgoing import completed, forwarded, secrets_sent
from mgw.exchange.untouched import MAX_ERROR_BYTES, ErrorFilter, PassthroughFilter, PunctuatedFilter
from mgw.families import FAMILIES
from mgw.routing.match import PROVIDER
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Route
from mgw.secret import Secret, overwritten
from mgw.upstream.address import call_target
from mgw.upstream.client import Answer, UpstreamRequest
from mgw.vocabulary import Modality
from mgw.wire.encodings import Gunzip
from mgw.wire.headers import RawHeaders, response_headers, value_of
from mgw.wire.target import path_of_model, without_parameter

_ERRORS: Final = 400
_TURNED_BYTES: Final = 16 * 1024 * 1024
"""A page of Anthropic's list has at most 1,000 batches of less than a kilobyte."""
_GUNZIPPED_BYTES: Final = 4 * 1024 * 1024
_CHOOSING: Final = frozenset({PROVIDER})
_VERSION: Final = re.compile(r"^/v1(?:beta)?(?=/)")
_WHOLE_WITHOUT: Final = frozenset({b"accept-encoding", b"range", b"if-range"})
"""What would make an answer less than whole, or not readable."""
_LENGTH: Final = frozenset({b"content-length"})
_OF_BYTES: Final = frozenset({b"etag", b"digest", b"content-digest", b"content-md5"})
"""What speaks of the very bytes of a body."""
_TUNED: Final = re.compile(rb"^/models/tunedModels(?:/|%2[Ff])")


@dataclass(slots=True)
class Passthrough:
    """What goes up, and how the answer comes down."""

    route: Route
    target: Target
    request: ClientRequest
    content: Content
    keepalive_seconds: float | None = None
    turning: Turning | None = None
    _sent: Credential | None = field(init=False, default=None, repr=False)

    def upstream_request(self, credential: Credential) -> UpstreamRequest:
        """Return the request to send with one credential."""
        body, reencoded = self.content.outgoing()
        self._sent = credential
        return UpstreamRequest(
            method=self.request.method,
            target=self._target(),
            headers=self._headers(credential, reencoded=reencoded),
            body=body,
        )

    def delivery(self, answer: Answer) -> Streamed | Gathered:
        """Hand the answer on as it comes, but for addresses that are turned to the gateway."""
        stream = is_stream(self.route, answer)
        headers, reason = response_headers(answer.headers), answer.reason
        if self.turning is not None:
            headers = self.turning.headers(headers)
            if self._is_looked_at(answer):
                complete = partial(_turned, answer.status, headers, self.turning)
                return Gathered(complete, max_bytes=_TURNED_BYTES)
        if answer.status >= _ERRORS:
            secrets = self._secrets()
            reason = overwritten(reason, secrets)
            headers = [(name, overwritten(value, secrets)) for name, value in headers]
        filter_ = self.filter(answer, stream=stream)
        return Streamed(answer.status, reason, headers, filter_, stream, self.keepalive_seconds)

    def filter(self, answer: Answer, *, stream: bool) -> PassthroughFilter:
        """Return what the answer's body walks through."""
        content_type = value_of(answer.headers, b"content-type") or b""
        dialect, metered = dialect_of(self.route.dialect), self.route.metered
        meter = dialect.meter(content_type) if metered else BlindMeter()
        last_event = LastEvent(self.route.dialect) if stream else None
        if is_encoded(answer):
            gunzip = Gunzip(_GUNZIPPED_BYTES) if metered else None
            return PassthroughFilter(meter, gunzip, last_event)
        length = value_of(answer.headers, b"content-length")
        if answer.status >= _ERRORS and _may_be_short(length) and (secrets := self._secrets()):
            return ErrorFilter(meter, secrets=secrets)
        counted = length is not None  # not a byte more may go
        if self.keepalive_seconds is None or counted or media_type(content_type) != b"text/event-stream":
            return PassthroughFilter(meter, None, last_event)
        return PunctuatedFilter(meter, None, last_event, sign=dialect.keepalive_bytes)

    def _secrets(self) -> tuple[Secret, ...]:
        """Return what was sent and no error may repeat."""
        return () if self._sent is None else secrets_sent(self.target.provider, self._sent)

    def _is_looked_at(self, answer: Answer) -> bool:
        """Whether the body may tell an address that has to be turned."""
        has_body = answer.status < 300 and self.request.method != b"HEAD"
        return turns_body(self.turning) and has_body and not is_encoded(answer)

    def _target(self) -> bytes:
        route, query = self.route, self.request.raw_query
        if route.model_optional or route.modality is Modality.PLATFORM:
            query = without_parameter(query, _CHOOSING)
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
            named = path_of_model(model or "", FAMILIES[route.family].id_characters)
            path = before.encode() + named + after.encode()
        # Google has tuned models beside the others, not below them.
        return _TUNED.sub(b"/tunedModels/", path)

    def _headers(self, credential: Credential, *, reencoded: bool) -> RawHeaders:
        headers = forwarded(self.request, self.route.family, self.target)
        if reencoded:
            headers = [pair for pair in headers if pair[0].lower() != b"content-encoding"]
        if turns_body(self.turning):
            headers = [pair for pair in headers if pair[0].lower() not in _WHOLE_WITHOUT]
            headers.append((b"Accept-Encoding", b"identity"))
        return completed(headers, self.target.provider, credential)


def _turned(status: int, headers: RawHeaders, turning: Turning, body: bytes) -> Whole:
    turned = turning.body(body)
    without = _LENGTH if turned is body else _LENGTH | _OF_BYTES
    kept = [pair for pair in headers if pair[0].lower() not in without]
    return Whole(status, kept, turned)


def _may_be_short(length: bytes | None) -> bool:
    return length is None or not length.isdigit() or int(length) <= MAX_ERROR_BYTES


def is_encoded(answer: Answer) -> bool:
    """Whether the body of an answer has a content coding."""
    encoding = value_of(answer.headers, b"content-encoding") or b""
    return encoding.strip().lower() not in (b"identity", b"")


def is_stream(route: Route, answer: Answer) -> bool:
    """Whether an answer is an event stream, or an array that arrives in pieces."""
    content_type = value_of(answer.headers, b"content-type") or b""
    streamed = media_type(content_type) == b"text/event-stream"
    return streamed or (route.in_pieces and answer.status < 400)
