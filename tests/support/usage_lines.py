"""The usage line of an event, written plainly from the event: what the fast way must agree with."""

from __future__ import annotations

from decimal import Decimal

from mgw.ops.logs import UNKNOWN, format_value
from mgw.usage.event import UsageEvent, timestamp

_COUNT_FIELDS = (
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "attempts",
    "bytes_in",
    "bytes_out",
    "frames_in",
    "frames_out",
)


def plain_usage_line(event: UsageEvent) -> bytes:
    """Return the line of an event."""
    tokens_in, tokens_out, status = event.tokens_in, event.tokens_out, event.http_status
    line = (
        f"usage time={timestamp(event.time)} status={UNKNOWN if status is None else status} "
        f"outcome={event.status.value} dialect={event.dialect} route={event.route} "
        f"provider={format_value(event.provider)} model={format_value(event.model)} "
        f"upstream_model={format_value(event.upstream_model)} "
        f"tokens_in={UNKNOWN if tokens_in is None else tokens_in} "
        f"tokens_out={UNKNOWN if tokens_out is None else tokens_out} "
        f"latency_ms={event.latency_ms:.1f} request_id={format_value(event.request_id)}"
    )
    if event.error is not None:
        line += f" error={format_value(event.error)}"
    if event.ttft_ms is not None:
        line += f" ttft_ms={event.ttft_ms:.1f}"
    if event.stream:
        line += " stream=true"
    for name in _COUNT_FIELDS:
        value = getattr(event, name)
        if value is not None:
            line += f" {name}={value}"
    if event.session_minutes is not None:
        line += f" session_minutes={event.session_minutes:.3f}"
    line += _cost_field(event.cost_usd)
    for name in ("key_hash", "client", "upstream_request_id"):
        value = getattr(event, name)
        if value is not None:
            line += f" {name}={format_value(value)}"
    if event.dropped_fields:
        line += f" dropped_fields={format_value(','.join(event.dropped_fields))}"
    return f"{line}\n".encode()


def _cost_field(dollars: float | None) -> str:
    if dollars is None:
        return ""
    return f" cost_usd={Decimal(dollars).quantize(Decimal(1).scaleb(-9)).normalize():f}"
