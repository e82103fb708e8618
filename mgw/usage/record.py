"""Small records that a request leaves when it completes; they become events and lines later.

A request that ends stores a :class:`SettledExchange`, if it has a usage event, and an :class:`EndedRequest`
for the access log; :mod:`mgw.usage.record_queue` hands them on in batches.  What is the same for every
exchange of one route, target and credential stands in :class:`ExchangeLabels`: its exchanges share them, and
they are rendered once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec import Raw, Struct
from msgspec.json import Encoder

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.nouns.secret import DIGEST_PREFIX
from mgw.routing.route import Route, Treatment
from mgw.usage.event import MAX_LINE_BYTES, NANODOLLARS, Outcome, UsageEvent, encode, timestamp, usd_text
from mgw.usage.figures import consumes
from mgw.usage.price_row import LabelPrice, Unpriced
from mgw.usage.trace_context import TraceContext

MAX_SHARED_CHARS: Final = 256
"""Labels with a longer name of a model are kept for no other exchange."""
NO_CLIENT: Final = "none"
OTHER_CLIENT: Final = "other"
_MODELS: Final = "models/"
"""Begins models in Gemini's bodies and messages and is sent on; paths name the same models without it."""
_ENCODER: Final = Encoder()


@dataclass(slots=True, eq=False)
class ExchangeLabels:
    """What an event says of a route, a target and a credential."""

    dialect: str
    route: str
    provider: str | None
    model: str | None
    upstream_model: str | None
    modality: str
    transport: Literal["http", "websocket"]
    key_hash: str | None
    client: str | None = None
    client_label: str = field(init=False, repr=False)
    """The same, where it is a name; else a word that says what it is."""
    consumes: bool = field(init=False, repr=False)
    """Whether an exchange takes something of a model that has tokens or a price."""
    json_text: Raw | None = field(default=None, init=False, repr=False)
    """The fields above up to the transport, as :func:`encode_settled` writes them; ``None`` until it does."""
    log_text: tuple[str, str] | None = field(default=None, init=False, repr=False)
    """The same, and the key's hash and the client, as :func:`mgw.ops.logs.usage_line` writes them."""
    is_shown: bool | None = field(default=None, init=False, repr=False)
    """Whether the log may show them as they are; ``None`` until :mod:`mgw.ops.json_lines` has looked."""
    shown: ExchangeLabels | None = field(default=None, init=False, repr=False)
    """What the log shows in their place, where it may not."""
    price: LabelPrice | None = field(default=None, init=False, repr=False)
    """What the model costs; ``None`` until the table of prices was asked."""

    def __post_init__(self) -> None:
        client = self.client
        is_named = client is not None and not client.startswith(DIGEST_PREFIX)
        self.client_label = NO_CLIENT if client is None else client if is_named else OTHER_CLIENT
        self.consumes = consumes(self.provider, self.modality, self.route)


class SessionCounts(Struct, frozen=True, gc=False, array_like=True):
    """What went through a realtime session."""

    minutes: float | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    frames_in: int | None = None
    frames_out: int | None = None


NO_SESSION: Final = SessionCounts()


class SettledExchange(Struct, frozen=True, gc=False):
    """One exchange that has ended; the fields mean what those of :class:`~mgw.usage.event.UsageEvent` do."""

    labels: ExchangeLabels
    request_id: str
    time: float
    """Unix seconds."""
    outcome: Outcome
    latency_ms: float
    http_status: int | None = None
    ttft_ms: float | None = None
    usage: TokenUsage = NO_USAGE
    stream: bool | None = None
    attempts: int | None = None
    dropped_fields: tuple[str, ...] | None = None
    error: str | None = None
    error_message: str | None = None
    upstream_request_id: str | None = None
    session: SessionCounts | None = None
    cost: int | None = None
    """The cost in nanodollars."""
    unpriced: Unpriced | None = None
    """Why there is no cost, where one was to be expected."""
    trace: TraceContext | None = None
    """Where a sink asks for it; the event does not have it."""

    def event(self) -> UsageEvent:
        """Return the usage event."""
        labels, usage, session = self.labels, self.usage, self.session or NO_SESSION
        return UsageEvent(
            request_id=self.request_id,
            time=self.time,
            dialect=labels.dialect,
            route=labels.route,
            provider=labels.provider,
            model=labels.model,
            upstream_model=labels.upstream_model,
            modality=labels.modality,
            transport=labels.transport,
            tokens_in=usage.tokens_in,
            tokens_out=usage.tokens_out,
            cache_read_tokens=usage.cache_read,
            cache_write_tokens=usage.cache_write,
            reasoning_tokens=usage.reasoning,
            session_minutes=session.minutes,
            cost_usd=None if self.cost is None else self.cost / NANODOLLARS,
            stream=self.stream,
            status=self.outcome,
            http_status=self.http_status,
            latency_ms=self.latency_ms,
            ttft_ms=self.ttft_ms,
            attempts=self.attempts,
            key_hash=labels.key_hash,
            dropped_fields=self.dropped_fields,
            bytes_in=session.bytes_in,
            bytes_out=session.bytes_out,
            frames_in=session.frames_in,
            frames_out=session.frames_out,
            client=labels.client,
            error=self.error,
            error_message=self.error_message,
            upstream_request_id=self.upstream_request_id,
        )


class EndedRequest(Struct, frozen=True, gc=False, array_like=True):
    """The end of a request, for the access log."""

    time: float
    """Unix seconds, of the end."""
    method: bytes | None
    """``None`` where the request could not be read so far."""
    raw_path: bytes | None
    status: int
    seconds: float
    """The time from the complete head to the end of the response."""
    request_id: str
    error: str | None = None
    """Why it did not end well."""
    has_event: bool = False
    """Whether an exchange of the same id has a record, too."""


class _Line(Struct, omit_defaults=True):
    """A line of JSON; its fields are those of the event, but for the labels."""

    request_id: str
    time: str
    dialect: Raw
    """The dialect and all that follows it up to the transport: what is raw is written as it stands."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    session_minutes: float | None = None
    cost_usd: Raw | None = None
    stream: bool | None = None
    status: str | None = None
    http_status: int | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None
    attempts: int | None = None
    key_hash: str | None = None
    dropped_fields: tuple[str, ...] | None = None
    client: str | None = None
    error: str | None = None
    error_message: str | None = None
    upstream_request_id: str | None = None


class _Labels(Struct, kw_only=True, omit_defaults=True):
    """What stands between the time and the counts."""

    dialect: str
    route: str
    provider: str | None = None
    model: str | None = None
    upstream_model: str | None = None
    modality: str
    transport: str


def encode_settled(settled: SettledExchange) -> bytes:
    """Return the line of JSON of an exchange: that of its event (:func:`mgw.usage.event.encode`)."""
    labels, usage, ttft_ms, cost = settled.labels, settled.usage, settled.ttft_ms, settled.cost
    try:
        line = _ENCODER.encode(
            _Line(
                settled.request_id,
                timestamp(settled.time),
                labels.json_text or _render_labels(labels),
                usage.tokens_in,
                usage.tokens_out,
                usage.cache_read,
                usage.cache_write,
                usage.reasoning,
                None,
                None if cost is None else Raw(usd_text(cost).encode()),
                settled.stream,
                settled.outcome,
                settled.http_status,
                round(settled.latency_ms, 3),
                None if ttft_ms is None else round(ttft_ms, 3),
                settled.attempts,
                labels.key_hash,
                settled.dropped_fields,
                labels.client,
                settled.error,
                settled.error_message,
                settled.upstream_request_id,
            )
        )
    except UnicodeEncodeError:  # a model name may hold half of a surrogate pair
        return encode(settled.event())
    if settled.session is not None or len(line) >= MAX_LINE_BYTES:  # a newline more is too long
        return encode(settled.event())
    return line + b"\n"


def _render_labels(labels: ExchangeLabels) -> Raw:
    text = _ENCODER.encode(
        _Labels(
            dialect=labels.dialect,
            route=labels.route,
            provider=labels.provider,
            model=labels.model,
            upstream_model=labels.upstream_model,
            modality=labels.modality,
            transport=labels.transport,
        )
    )
    labels.json_text = raw = Raw(text[len(b'{"dialect":') : -len(b"}")])
    return raw


def labels_of(
    route: Route,
    provider: str | None,
    model: str | None,
    upstream_model: str | None,
    key_hash: str | None,
    client: str | None = None,
) -> ExchangeLabels:
    """Return new labels; exchanges get those that :class:`~mgw.memo.request_memo.RequestMemo` keeps."""
    if upstream_model is not None:
        upstream_model = upstream_model.removeprefix(_MODELS)
    return ExchangeLabels(
        route.family.value,
        route.name,
        provider,
        model,
        upstream_model,
        route.modality.value,
        "websocket" if route.treatment is Treatment.REALTIME else "http",
        key_hash,
        client,
    )
