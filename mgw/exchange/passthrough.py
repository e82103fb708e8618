"""Same family: the client's bytes go up with only the model's value replaced, the answer's come down as is.

Sources: specification 4.1.2, decisions part 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec.json import encode

from mgw.canonical.reply import TokenUsage
from mgw.credentials.provider import Credential
from mgw.dialects import codec_of
from mgw.dialects.dialect import Meter
from mgw.dialects.metering import media_type
from mgw.errors import GatewayError, Reason
from mgw.exchange.client import ClientRequest
from mgw.exchange.delivery import Streamed
from mgw.exchange.outgoing import completed, forwarded
from mgw.routing.resolve import Target
from mgw.routing.route import ModelAt, Route
from mgw.upstream.client import Answer, UpstreamRequest
from mgw.wire.encodings import Gunzip
from mgw.wire.headers import RawHeaders, response_headers, value_of
from mgw.wire.splice import FoundValue, splice
from mgw.wire.target import path_of_model, without_parameter

_GUNZIPPED_BYTES = 16 * 1024 * 1024
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LONGEST_END: Final = 4
PROVIDER = "provider"
"""The parameter that chooses the provider where no model does; it goes no further."""
_CHOOSING = frozenset({PROVIDER})


@dataclass(slots=True, repr=False)
class Content:
    """A request body as it came and as it reads, and the model that was found in it."""

    sent: bytes
    decoded: bytes
    model: FoundValue | None
    """Where it is the body that names the model."""
    repeated: tuple[FoundValue, ...] = ()
    """Where the path names it and the body does so again."""
    encoded: bool = False
    """Whether ``sent`` has a content coding."""
    cleaned: bool = False
    """Whether the gateway's own marks were cut out of ``decoded``."""


@dataclass(slots=True)
class Passthrough:
    """What goes up, and how the answer comes down."""

    route: Route
    target: Target
    request: ClientRequest
    content: Content
    base_path: bytes
    keepalive_seconds: float | None = None

    def upstream_request(self, credential: Credential) -> UpstreamRequest:
        """Return the request to send with one credential."""
        body, reencoded = self._body()
        return UpstreamRequest(
            method=self.request.method,
            target=self._target(),
            headers=self._headers(credential, reencoded=reencoded),
            body=body,
        )

    def delivery(self, answer: Answer) -> Streamed:
        """Hand the answer on as it comes."""
        stream = is_stream(self.route, answer)
        headers = response_headers(answer.headers)
        filter_ = self.filter(answer)
        return Streamed(answer.status, answer.reason, headers, filter_, stream, self.keepalive_seconds)

    def filter(self, answer: Answer) -> PassthroughFilter:
        """Return what the answer's body walks through."""
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

    def _body(self) -> tuple[bytes, bool]:
        """Return the body to send, and whether it is no longer encoded as the client sent it."""
        content, new = self.content, self.target.upstream_model
        spliced = content.decoded
        if content.model is not None and new is not None:
            spliced = splice(spliced, content.model, new)
        elif content.repeated and new is not None:
            spliced = self._with_repeated(spliced, new)
        if spliced is content.decoded and not content.cleaned:
            return content.sent, False
        return spliced, content.encoded

    def _with_repeated(self, body: bytes, new: str) -> bytes:
        """Replace the path's model where the body repeats it, each with or without its ``models/``."""
        asked, new = _bare(self.request.path_model or ""), _bare(new)
        view = memoryview(body)
        pieces: list[bytes | memoryview] = []
        position = 0
        for found in self.content.repeated:
            if _bare(found.value) == asked:
                kept = found.value[: len(found.value) - len(asked)]
                for start, end in found.spans:
                    pieces += (view[position:start], encode(kept + new))
                    position = end
        return b"".join((*pieces, view[position:])) if pieces else body

    def _target(self) -> bytes:
        path = self._path()
        base = self.base_path
        if self.route.upstream_version is not None:
            base = base.removesuffix(b"/v1") + b"/" + self.route.upstream_version.encode()
        query = self.request.raw_query
        if self.target.asked_model is None:
            query = without_parameter(query, _CHOOSING)
        return base + path if query is None else base + path + b"?" + query

    def _path(self) -> bytes:
        route, request = self.route, self.request
        if route.upstream_path is not None:
            return route.upstream_path.encode()
        model = self.target.upstream_model
        if route.model_at is not ModelAt.PATH or model == request.path_model or model is None:
            path = request.raw_path[len(request.version) :]
        else:
            before, _, after = route.path.removeprefix("/v1beta").partition("{model}")
            path = before.encode() + path_of_model(model) + after.encode()
        # Google has tuned models beside the others, not below them.
        return path.removeprefix(b"/models") if path.startswith(b"/models/tunedModels/") else path

    def _headers(self, credential: Credential, *, reencoded: bool) -> RawHeaders:
        headers = forwarded(self.request, self.route.family, self.target)
        if reencoded:
            headers = [pair for pair in headers if pair[0].lower() != b"content-encoding"]
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


def _bare(model: str) -> str:
    return model.removeprefix("models/")


def is_stream(route: Route, answer: Answer) -> bool:
    """Whether an answer is an event stream, or an array that arrives in pieces."""
    content_type = value_of(answer.headers, b"content-type") or b""
    media_type = content_type.partition(b";")[0].strip().lower()
    return media_type == b"text/event-stream" or (route.in_pieces and answer.status < 400)


def missing_model(route: Route) -> GatewayError:
    """Return the refusal of a request that names no model."""
    return GatewayError(
        Reason.MALFORMED, f"{route.path} needs a model: send the field 'model'", param="model"
    )
