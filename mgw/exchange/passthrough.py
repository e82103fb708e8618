"""Same family: the client's bytes go up with only the model's value replaced, the answer's come down as is.

Sources: specification 4.1.2, decisions part 5.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Final

from mgw.canonical.reply import TokenUsage
from mgw.credentials.provider import Credential
from mgw.dialects import codec_of
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import BlindMeter, media_type
from mgw.errors import GatewayError
from mgw.exchange.addresses import Turning, turns_body
from mgw.exchange.aiming import PROVIDER
from mgw.exchange.client import ClientRequest
from mgw.exchange.content import Content
from mgw.exchange.delivery import Gathered, Streamed, Whole
from mgw.exchange.outgoing import completed, forwarded
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Route
from mgw.upstream.client import Answer, UpstreamRequest
from mgw.vocabulary import Family, Modality
from mgw.wire.encodings import Gunzip
from mgw.wire.headers import RawHeaders, response_headers, value_of
from mgw.wire.target import path_of_model, without_parameter

_GUNZIPPED_BYTES = 16 * 1024 * 1024
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END: Final = 4
_CHOOSING: Final = frozenset({PROVIDER})
_VERSION: Final = re.compile(r"^/v1(?:beta)?(?=/)")
_OWN_CHARACTERS: Final = MappingProxyType({Family.OPENAI: ":", Family.ANTHROPIC: "", Family.GEMINI: ""})
"""Fine-tuned models of OpenAI's have colons; in Google's paths a colon begins a verb."""
_TUNED: Final = re.compile(rb"^/models/tunedModels(?:/|%2[Ff])")


@dataclass(slots=True)
class Passthrough:
    """What goes up, and how the answer comes down."""

    route: Route
    target: Target
    request: ClientRequest
    content: Content
    base_path: bytes
    keepalive_seconds: float | None = None
    turning: Turning | None = None

    def upstream_request(self, credential: Credential) -> UpstreamRequest:
        """Return the request to send with one credential."""
        body, reencoded = self.content.outgoing()
        return UpstreamRequest(
            method=self.request.method,
            target=self._target(),
            headers=self._headers(credential, reencoded=reencoded),
            body=body,
        )

    def delivery(self, answer: Answer) -> Streamed | Gathered:
        """Hand the answer on as it comes, but for addresses that are turned to the gateway."""
        stream = is_stream(self.route, answer)
        headers = response_headers(answer.headers)
        if self.turning is not None:
            headers = self.turning.headers(headers)
            if self._is_looked_at(answer):
                return Gathered(partial(_turned, answer.status, headers, self.turning))
        filter_ = self.filter(answer)
        return Streamed(answer.status, answer.reason, headers, filter_, stream, self.keepalive_seconds)

    def filter(self, answer: Answer) -> PassthroughFilter:
        """Return what the answer's body walks through."""
        if not self.route.metered:
            return PassthroughFilter(BlindMeter())
        content_type = value_of(answer.headers, b"content-type") or b""
        encoding = value_of(answer.headers, b"content-encoding")
        codec = codec_of(self.route.dialect)
        meter = codec.meter(content_type)
        gunzip = None
        if encoding is not None and encoding.strip().lower() not in (b"identity", b""):
            gunzip = Gunzip(_GUNZIPPED_BYTES)
        if self.keepalive_seconds is None or gunzip is not None:
            return PassthroughFilter(meter, gunzip)
        counted = value_of(answer.headers, b"content-length") is not None  # not a byte more may go
        if counted or media_type(content_type) != b"text/event-stream":
            return PassthroughFilter(meter, gunzip)
        return PunctuatedFilter(meter, sign=codec.sign_of_life)

    def _is_looked_at(self, answer: Answer) -> bool:
        """Whether the body may tell an address that has to be turned."""
        has_body = answer.status < 300 and self.request.method != b"HEAD"
        return turns_body(self.turning) and has_body and _is_plain_json(answer)

    def _target(self) -> bytes:
        route, path = self.route, self._path()
        base = self.base_path
        if route.upstream_version is not None:
            base = base.removesuffix(b"/v1") + b"/" + route.upstream_version.encode()
        query = self.request.raw_query
        if self.target.asked_model is None or route.modality is Modality.PLATFORM:
            query = without_parameter(query, _CHOOSING)
        whole = route.upstream_prefix.encode() + base + path
        return whole if query is None else whole + b"?" + query

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
            path = before.encode() + path_of_model(model or "", _OWN_CHARACTERS[route.family]) + after.encode()
        # Google has tuned models beside the others, not below them.
        return _TUNED.sub(b"/tunedModels/", path)

    def _headers(self, credential: Credential, *, reencoded: bool) -> RawHeaders:
        headers = forwarded(self.request, self.route.family, self.target)
        if reencoded:
            headers = [pair for pair in headers if pair[0].lower() != b"content-encoding"]
        if turns_body(self.turning):
            headers = [pair for pair in headers if pair[0].lower() != b"accept-encoding"]
            headers.append((b"Accept-Encoding", b"identity"))
        return completed(headers, self.target.provider, credential)


@dataclass(slots=True)
class PassthroughFilter:
    """Give back the very same bytes, and let the meter look at them."""

    _meter: Meter
    _gunzip: Gunzip | None = field(default=None)
    done: bool = False
    """Never before its body has: the client gets what the provider sends."""
    whole: bool = False
    """Nor is anything known of what is missing."""

    def feed(self, data: bytes) -> bytes:
        """Return the same object."""
        self._meter.feed(data if self._gunzip is None else self._gunzip.feed(data))
        return data

    def finish(self) -> bytes:
        """Nothing is held back."""
        self._meter.finish()
        return b""

    def fail(self, error: GatewayError) -> bytes | None:  # noqa: ARG002  the interface's
        """A broken answer ends as a broken connection: the bytes are the upstream's, not ours to end."""
        self._meter.finish()
        return None

    def usage(self) -> TokenUsage:
        """Return the counts seen so far."""
        return self._meter.usage

    def keepalive(self) -> bytes:
        """Add nothing to the provider's bytes."""
        return b""


@dataclass(slots=True)
class PunctuatedFilter(PassthroughFilter):
    """The same for an event stream, with signs of life between its events where the operator wants them."""

    sign: bytes = b""
    _tail: bytes = b"\n\n"

    def feed(self, data: bytes) -> bytes:
        """Return the same object, and remember how it ended."""
        self._tail = data[-4:] if len(data) >= _LONGEST_END else (self._tail + data)[-4:]
        return PassthroughFilter.feed(self, data)

    def keepalive(self) -> bytes:
        """Return the sign where the last event has ended (decisions, part 2: between events only)."""
        return self.sign if self._tail.endswith(_EVENT_ENDS) else b""


def _turned(status: int, headers: RawHeaders, turning: Turning, body: bytes) -> Whole:
    kept = [pair for pair in headers if pair[0].lower() != b"content-length"]
    return Whole(status, kept, turning.body(body))


def _is_plain_json(answer: Answer) -> bool:
    """Whether an answer can be looked at."""
    encoding = value_of(answer.headers, b"content-encoding") or b""
    content_type = value_of(answer.headers, b"content-type") or b""
    plain = encoding.strip().lower() in (b"identity", b"")
    return plain and media_type(content_type) == b"application/json"


def is_stream(route: Route, answer: Answer) -> bool:
    """Whether an answer is an event stream, or an array that arrives in pieces."""
    content_type = value_of(answer.headers, b"content-type") or b""
    media_type = content_type.partition(b";")[0].strip().lower()
    return media_type == b"text/event-stream" or (route.in_pieces and answer.status < 400)
