"""The usage event: one record of each exchange, and what an exchange leaves behind for it.

The names, their order and their meaning are those of contract 7.2.  ``None`` means unknown and is left
out of the line; a count of zero is known and written.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from functools import lru_cache
from time import gmtime, strftime
from typing import Annotated, Final, Literal

from msgspec import Struct

from mgw.canonical.reply import NO_USAGE, TokenUsage
from mgw.usage.event_field import About, FieldType, table_of
from mgw.usage.labels import ExchangeLabels
from mgw.usage.price_row import Unpriced
from mgw.usage.trace_context import TraceContext

MAX_DROPPED_NAMES: Final = 256
"""How many names of dropped fields an event holds; an ellipsis says that there were more."""
MAX_LINE_BYTES: Final = 64 * 1024
"""A line above this is written again with every text cut: a client's model name must not fill the sink."""
MAX_TEXT: Final = 512
NANODOLLARS: Final = 10**9
"""How many nanodollars make a dollar."""
MAX_NAME: Final = 128
ELLIPSIS: Final = "…"


class Outcome(StrEnum):
    """How an exchange ended."""

    OK = "ok"
    UPSTREAM_ERROR = "upstream_error"
    CLIENT_ABORT = "client_abort"
    REJECTED = "rejected"


class UsageEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One exchange, or one realtime session: the table of the fields of events, in their order.

    A new field goes to the end, and :class:`SettledExchange` has it under the same name until it is written.
    What stands under a field describes it to readers of ``docs/usage-events.rst``.
    """

    request_id: Annotated[str, About(is_ours=True, page="Request ID")]
    """The gateway's id for the request, as in the header ``X-Gateway-Request-Id``."""
    time: Annotated[float, About(type=FieldType.TIME, page="Started", span=None)]
    """The time when the request head was complete."""
    dialect: Annotated[str, About("labels.dialect", is_ours=True)]
    """The family of the client: ``openai``, ``anthropic`` or ``gemini``."""
    route: Annotated[str, About("labels.route", is_ours=True, metric="label route")]
    """The name of the route, such as ``chat`` or ``files_create``; `Routes <routes.rst>`_ lists all
    routes."""
    provider: Annotated[str | None, About("labels.provider", metric="label provider")] = None
    """The name of the provider in the configuration. Missing if no provider was chosen."""
    model: Annotated[
        str | None, About("labels.model", span="gen_ai.request.model", page="Requested model")
    ] = None
    """The model as requested: an alias, ``<provider>/<model>`` or a model id."""
    upstream_model: Annotated[str | None, About("labels.upstream_model", span="gen_ai.response.model")] = None
    """The model id that was sent to the provider, without the ``models/`` of Gemini bodies."""
    modality: Annotated[str, About("labels.modality", is_ours=True, log=None)]
    """``text``, ``embedding``, ``image_gen``, ``video_gen``, ``audio_speech``, ``audio_transcribe``,
    ``realtime`` or ``platform``."""
    transport: Annotated[Literal["http", "websocket"], About("labels.transport", is_ours=True, log=None)]
    """``http`` or ``websocket``."""
    tokens_in: Annotated[
        int | None,
        About(
            "usage.tokens_in",
            unit="tokens",
            span="gen_ai.usage.input_tokens",
            metric="mgw_tokens_total",
            page="Input tokens",
        ),
    ] = None
    """The tokens of the prompt that the provider reported. Regardless of the provider's own convention, they
    include tokens read from and written to the cache."""
    tokens_out: Annotated[
        int | None,
        About(
            "usage.tokens_out",
            unit="tokens",
            span="gen_ai.usage.output_tokens",
            metric="mgw_tokens_total",
            page="Output tokens",
        ),
    ] = None
    """The tokens of the response that the provider reported, reasoning included. Events of
    ``messages_count_tokens`` and ``count_tokens`` have no tokens, because nothing was consumed."""
    cache_read_tokens: Annotated[
        int | None,
        About(
            "usage.cache_read",
            unit="tokens",
            span="gen_ai.usage.cache_read.input_tokens",
            metric="mgw_tokens_total",
        ),
    ] = None
    """The part of ``tokens_in`` that was read from the cache, if the provider reports it."""
    cache_write_tokens: Annotated[
        int | None,
        About(
            "usage.cache_write",
            unit="tokens",
            span="gen_ai.usage.cache_creation.input_tokens",
            metric="mgw_tokens_total",
        ),
    ] = None
    """The part of ``tokens_in`` that was written to the cache, if the provider reports it."""
    reasoning_tokens: Annotated[
        int | None,
        About(
            "usage.reasoning",
            unit="tokens",
            span="gen_ai.usage.reasoning.output_tokens",
            metric="mgw_tokens_total",
        ),
    ] = None
    """The part of ``tokens_out`` that is reasoning, if the provider reports it."""
    session_minutes: Annotated[
        float | None, About("session.minutes", unit="minutes", metric="mgw_session_seconds")
    ] = None
    """The length of a realtime session."""
    cost_usd: Annotated[
        float | None,
        About("cost", type=FieldType.MONEY, unit="US dollars", metric="mgw_cost_usd_total", page="Cost"),
    ] = None
    """The cost of the request, with at most 9 decimals. Missing without ``prices``, or if a value needed for
    the price is unknown; see `Costs <cost.rst>`_."""
    stream: Annotated[
        bool | None, About(span="gen_ai.request.stream", has_few_values=True, page="Streamed")
    ] = None
    """Whether the response was an event stream, or an array sent in pieces."""
    status: Annotated[
        Outcome,
        About("outcome", log="outcome", span="mgw.outcome", has_few_values=True, metric="label outcome"),
    ]
    """How the request ended: ``ok``, ``upstream_error``, ``client_abort`` or ``rejected``, see `Status and
    error`_."""
    http_status: Annotated[
        int | None,
        About(
            log="status",
            span="http.response.status_code",
            has_few_values=True,
            metric="label status_class",
            page="HTTP status",
        ),
    ] = None
    """The status sent to the client, or 499 if the client disconnected first."""
    latency_ms: Annotated[
        float, About(unit="milliseconds", metric="mgw_request_seconds", page="Complete after", span=None)
    ]
    """Time from the end of the request head until the last byte was passed to the transport."""
    ttft_ms: Annotated[
        float | None,
        About(
            unit="milliseconds",
            span="gen_ai.response.time_to_first_chunk",
            metric="mgw_time_to_first_byte_seconds",
            page="First byte after",
        ),
    ] = None
    """Time from the end of the request head to the first byte of the response body."""
    attempts: Annotated[int | None, About(has_few_values=True, metric="mgw_request_retries_total")] = None
    """The number of upstream requests that were started."""
    key_hash: Annotated[str | None, About("labels.key_hash", page="Provider key")] = None
    """The first 12 hex digits of the SHA-256 of the credential sent upstream, never the credential itself.
    For token sources, it is the hash of the configured identity, so it does not change when the token is
    refreshed."""
    dropped_fields: Annotated[tuple[str, ...] | None, About(page="Fields")] = None
    """Request fields that could not be translated, as paths in the client's own API, and betas that were not
    sent, as ``anthropic-beta[NAME]``: sorted, at most 256, then ``…``."""
    bytes_in: Annotated[
        int | None, About("session.bytes_in", unit="bytes", metric="mgw_session_bytes_total")
    ] = None
    """The payload bytes of a realtime session that came from the client."""
    bytes_out: Annotated[
        int | None, About("session.bytes_out", unit="bytes", metric="mgw_session_bytes_total")
    ] = None
    """The payload bytes of a realtime session that went to the client."""
    frames_in: Annotated[
        int | None, About("session.frames_in", unit="frames", metric="mgw_session_frames_total")
    ] = None
    """The data frames of a realtime session that came from the client."""
    frames_out: Annotated[
        int | None, About("session.frames_out", unit="frames", metric="mgw_session_frames_total")
    ] = None
    """The data frames of a realtime session that went to the client."""
    client: Annotated[str | None, About("labels.client", metric="label client")] = None
    """The name of the gateway key. For a key without a name, ``sha256:`` and the first 12 hex digits of its
    SHA-256 (`Gateway keys <keys.rst>`_). For a token, the name of its issuer's entry and the claim that names
    the client, as in ``corp:ann@example.com`` (`Tokens of an identity provider <identity.rst>`_). Missing if
    edge auth is off."""
    error: Annotated[
        str | None,
        About(is_ours=True, span="error.type", has_few_values=True, metric="mgw_request_errors_total"),
    ] = None
    """The cause of a failure, in one word, see `Status and error`_. Missing if the request did not fail."""
    error_message: Annotated[str | None, About(since="0.5.0", log=None, span=None)] = None
    """The provider's own explanation of a failure, see `Status and error`_. Missing if the gateway itself
    rejected the request, or if the error has no message field."""
    upstream_request_id: Annotated[str | None, About(page="Upstream request ID")] = None
    """The provider's own id for the request, for support cases: its header ``x-request-id``, ``request-id``,
    ``x-goog-request-id``, ``apim-request-id``, ``x-ms-request-id`` or ``x-amzn-requestid``, if present."""
    client_groups: Annotated[tuple[str, ...] | None, About("labels.client_groups", since="0.5.0")] = None
    """The groups of the gateway key, in the order of its settings. Missing if it is in none."""
    tags: Annotated[dict[str, str] | None, About("labels.tags", since="0.5.0")] = None
    """The tags of the key's groups and of the key itself, as an object of names and texts. Missing if there
    are none. A span has an attribute ``mgw.tags.NAME`` for each."""
    tokens_in_estimated: Annotated[
        int | None, About(unit="tokens", page="Input tokens (estimated)", since="0.5.0")
    ] = None
    """An estimate of the tokens of the prompt, if the provider did not report them and a limit of the client
    needs them; see `Token estimate <token-estimate.rst>`_. Also if the request broke off and the provider
    reported fewer."""
    tokens_out_estimated: Annotated[
        int | None, About(unit="tokens", page="Output tokens (estimated)", since="0.5.0")
    ] = None
    """The same for the tokens of the response, as far as it was sent to the client."""
    charged_usd: Annotated[
        float | None,
        About("charged", type=FieldType.MONEY, unit="US dollars", page="Charged", since="0.5.0"),
    ] = None
    """What the request counts against limits in US dollars, with at most 9 decimals: its cost, or an estimate
    where ``cost_usd`` is missing. Missing if no such limit applies to the client."""
    limit_warnings: Annotated[tuple[str, ...] | None, About(since="0.5.0")] = None
    """A text ``HOLDER NAME SHARE`` for each share of a limit that this request reached first in the period,
    such as ``group:research usd_per_month 0.8``; see `Groups, budgets
    and tags <keys.rst#groups-budgets-and-tags>`_."""
    service_tier: Annotated[str | None, About(since="0.5.0", has_few_values=True)] = None
    """The service tier that served the request, in the provider's own word, such as ``default``, ``flex``,
    ``priority`` or ``ON_DEMAND``; ``fast`` for Anthropic's fast mode. Missing if the response does not
    name it."""
    price_tier: Annotated[str | None, About(since="0.5.0", is_ours=True, has_few_values=True)] = None
    """The tier of the row of prices that ``cost_usd`` comes from, such as ``above 200000``, ``priority`` or
    ``priority above 272000``. Missing if the prices of the row itself applied."""

    body_rules: Annotated[int | None, About(since="0.5.0", has_few_values=True, page="Body rules")] = None
    """How many rules in ``body`` of the provider and the alias changed the request body. Missing if none
    applies to the request."""


FIELDS: Final = table_of(UsageEvent)
MONEY: Final = tuple(field.name for field in FIELDS if field.type is FieldType.MONEY)
"""The names of the fields with amounts."""
_READERS: Final = tuple((field, field.reader()) for field in FIELDS)


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
    service_tier: str | None = None
    price_tier: str | None = None
    tokens_in_estimated: int | None = None
    tokens_out_estimated: int | None = None
    charged: int | None = None
    """What limits on money count, in nanodollars; ``None``: there are none."""
    limit_warnings: tuple[str, ...] | None = None
    body_rules: int | None = None

    @property
    def counted_tokens(self) -> int:
        """The tokens that count: those that were told, or estimated where that is more."""
        usage = self.usage
        return max(usage.tokens_in or 0, self.tokens_in_estimated or 0) + max(
            usage.tokens_out or 0, self.tokens_out_estimated or 0
        )

    def event(self) -> UsageEvent:
        """Return the usage event."""
        values = {field.name: read(self) for field, read in _READERS}
        for name in MONEY:
            if values[name] is not None:
                values[name] /= NANODOLLARS
        return UsageEvent(**values)


MILLISECONDS: Final = tuple(f".{number:03d}Z" for number in range(1000))


def timestamp(unix_seconds: float) -> str:
    """Return RFC 3339 in UTC with milliseconds, as ``2026-01-31T12:00:00.250Z``."""
    milliseconds = int(unix_seconds * 1000)
    return second_text(milliseconds // 1000) + MILLISECONDS[milliseconds % 1000]


def timestamps(moments: Iterable[float]) -> list[str]:
    """Return the :func:`timestamp` of each of these Unix seconds, most of which lie near one another."""
    found: list[str] = []
    second, start = -1, ""
    for moment in moments:
        milliseconds = int(moment * 1000)
        if milliseconds // 1000 != second:
            second = milliseconds // 1000
            start = second_text(second)
        found.append(start + MILLISECONDS[milliseconds % 1000])
    return found


def usd_text(nanodollars: int) -> str:
    """Return dollars as a number without an exponent, and with no more decimals than it needs."""
    dollars, rest = divmod(nanodollars, NANODOLLARS)
    return f"{dollars}.{rest:09d}".rstrip("0").rstrip(".") if rest else str(dollars)


def nanodollars_of(dollars: float) -> int:
    """Return the nanodollars that an amount of an event stands for."""
    return round(dollars * NANODOLLARS)


def limit_dropped_names(names: Iterable[str]) -> tuple[str, ...] | None:
    """Return ``dropped_fields``: sorted, unique, at most 256 and then an ellipsis; ``None`` for none."""
    found = tuple(sorted(set(names)))
    if len(found) > MAX_DROPPED_NAMES:
        return (*found[:MAX_DROPPED_NAMES], ELLIPSIS)
    return found or None


@lru_cache(maxsize=64)
def second_text(unix_seconds: int) -> str:
    """Return how the timestamps of a second begin."""
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(unix_seconds))
