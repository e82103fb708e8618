"""What a request leaves behind says the same in every form: as an event, as JSON, as a line."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.ops.logs import UNKNOWN, format_value, usage_line, usage_lines
from mgw.routing.routes import ROUTES
from mgw.usage.event import MAX_LINE_BYTES, Outcome, UsageEvent, timestamp, timestamps
from mgw.usage.labels import MAX_SHARED_CHARS, labels_of
from mgw.usage.record import encode, encode_block, encode_settled
from tests.support.usage import event, settled_as

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
    """Return the line of an event, written plainly: what the fast way must agree with."""
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


WILD = st.one_of(st.text(st.sampled_from('a -="\\\n\x00\x9b\u2028\ud800\udfff')), st.text(), st.just("gpt-5"))
MAYBE_TEXT = st.none() | WILD
COUNTS = st.none() | st.integers(0, 2**40)
TIMES = st.floats(0, 1e9) | st.sampled_from([0.0005, 0.0015, 2.675, 1e-9, 0.25])
WITHOUT_SESSION = st.fixed_dictionaries(
    {
        "request_id": st.binary(min_size=12, max_size=12).map(lambda unique: f"req_{unique.hex()}"),
        "time": st.floats(0, 4e9),
        "dialect": st.sampled_from(["openai", "anthropic"]),
        "route": st.just("chat"),
        "provider": MAYBE_TEXT,
        "model": MAYBE_TEXT,
        "upstream_model": MAYBE_TEXT,
        "modality": st.just("text"),
        "transport": st.sampled_from(["http", "websocket"]),
        "tokens_in": COUNTS,
        "tokens_out": COUNTS,
        "cache_read_tokens": COUNTS,
        "cache_write_tokens": COUNTS,
        "reasoning_tokens": COUNTS,
        "stream": st.none() | st.booleans(),
        "status": st.sampled_from(Outcome),
        "http_status": st.none() | st.integers(100, 599),
        "latency_ms": TIMES,
        "ttft_ms": st.none() | TIMES,
        "attempts": st.none() | st.integers(0, 9),
        "key_hash": MAYBE_TEXT,
        "dropped_fields": st.none() | st.lists(WILD, min_size=1, max_size=3).map(tuple),
        "client": MAYBE_TEXT,
        "error": MAYBE_TEXT,
        "error_message": MAYBE_TEXT,
        "upstream_request_id": MAYBE_TEXT,
        "cost_usd": st.none() | st.integers(0, 10**15).map(lambda nanodollars: nanodollars / 10**9),
    }
)
SESSION = st.fixed_dictionaries(
    {
        "session_minutes": st.none() | TIMES,
        "bytes_in": COUNTS,
        "bytes_out": COUNTS,
        "frames_in": COUNTS,
        "frames_out": COUNTS,
    }
)
EVENTS = st.builds(lambda one, session: UsageEvent(**one, **session), WITHOUT_SESSION, st.just({}) | SESSION)
LONG = "m" * MAX_LINE_BYTES


@given(wanted=EVENTS)
@example(wanted=event(model="m\ud800"))
@example(wanted=event(model=LONG))
@example(wanted=event(upstream_request_id=LONG, dropped_fields=(LONG, "b")))
def test_every_form_says_what_the_event_says(wanted: UsageEvent) -> None:
    settled = settled_as(wanted)
    for _ in range(2):  # what the labels keep from the first time is used the second time
        assert settled.event() == wanted
        assert encode_settled(settled) == encode(wanted)
        assert usage_line(settled) == plain_usage_line(wanted)


@given(wanted=st.lists(EVENTS, max_size=5))
@example(wanted=[event(), event(model="m\ud800"), event()])
@example(wanted=[event(), event(model=LONG), event()])
@example(wanted=[event(), event(upstream_request_id=LONG), event()])
@example(wanted=[event(error_message="m" * 500)] * 200)
@example(wanted=[event(), event(session_minutes=1.5), event()])
def test_many_lines_made_at_once_are_those_of_each(wanted: list[UsageEvent]) -> None:
    rows = [settled_as(one) for one in wanted]
    for _ in range(2):
        assert encode_block(rows) == b"".join(map(encode_settled, rows))
        assert b"".join(usage_lines(rows)) == b"".join(map(plain_usage_line, wanted))


@given(moments=st.lists(st.floats(0, 4e9) | st.floats(1e9, 1e9 + 3)))
def test_many_times_are_written_as_each_is(moments: list[float]) -> None:
    assert timestamps(moments) == list(map(timestamp, moments))


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_line_is_shortened_from_the_same_length_on(more: int) -> None:
    room = MAX_LINE_BYTES - len(encode(event(model="")))
    wanted = event(model="m" * (room + more))
    assert len(encode(wanted)) == MAX_LINE_BYTES + more or more == 1
    assert encode_settled(settled_as(wanted)) == encode(wanted)
    assert encode_block([settled_as(event()), settled_as(wanted)]) == encode(event()) + encode(wanted)


@pytest.mark.parametrize("name", ["gemini_live_v1beta", "batch_embed_contents", "chat"])
def test_the_prefix_of_gemini_is_no_part_of_the_providers_model(name: str) -> None:
    route = next(route for route in ROUTES if route.name == name)
    for asked in ("models/gem/pro", "m" * (MAX_SHARED_CHARS + 1)):
        labels = labels_of(route, "gem", asked, "models/pro", None)
        assert (labels.model, labels.upstream_model) == (asked, "pro")
