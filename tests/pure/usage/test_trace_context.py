"""Which trace a request belongs to, as its headers say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mgw.usage.trace_context import MAX_STATE_BYTES, TraceContext, trace_context_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()


def test_a_traceparent_names_a_trace_and_a_span() -> None:
    found = trace_context_of(
        [(b"Host", b"x"), (b"TraceParent", PARENT), (b"tracestate", b"vendor=1,other=2")]
    )
    assert found == TraceContext(TRACE, SPAN, True, "vendor=1,other=2")


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("ff", True)])
def test_only_the_last_bit_says_whether_the_client_keeps_its_trace(flags: str, sampled: bool) -> None:
    found = trace_context_of([(b"traceparent", f"00-{TRACE}-{SPAN}-{flags}".encode())])
    assert found is not None
    assert found.is_sampled is sampled


@pytest.mark.parametrize(
    "value",
    [
        "",
        "canary",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-0g",
        f"cc-{TRACE}-{SPAN}-01.more",
    ],
)
def test_what_is_invalid_says_nothing(value: str) -> None:
    assert trace_context_of([(b"traceparent", value.encode())]) is None


def test_a_later_version_may_say_more() -> None:
    found = trace_context_of([(b"traceparent", f"cc-{TRACE}-{SPAN}-01-what-ever".encode())])
    assert found == TraceContext(TRACE, SPAN, True)


def test_two_traceparents_say_nothing() -> None:
    assert trace_context_of([(b"traceparent", PARENT), (b"Traceparent", PARENT)]) is None


def test_without_headers_there_is_no_trace() -> None:
    assert trace_context_of([]) is None
    assert trace_context_of([(b"tracestate", b"vendor=1")]) is None


def test_states_are_put_together_and_one_that_is_too_long_is_left_out() -> None:
    half = b"a=" + b"x" * (MAX_STATE_BYTES // 2 - 3)
    headers = [(b"traceparent", PARENT), (b"tracestate", half), (b"tracestate", half)]
    found = trace_context_of(headers)
    assert found is not None
    assert found.state == (half + b"," + half).decode()
    found = trace_context_of([*headers, (b"tracestate", b"b=1")])
    assert found == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize("state", [b"a=\x00", b"a=\xe9", b"a=\x7f"])
def test_a_state_that_is_no_text_is_left_out(state: bytes) -> None:
    found = trace_context_of([(b"traceparent", PARENT), (b"tracestate", state)])
    assert found == TraceContext(TRACE, SPAN, True)


@given(
    version=st.sampled_from(["00", "01", "cc", "ff"]),
    trace=st.text("0a", min_size=31, max_size=33),
    span=st.text("0a", min_size=15, max_size=17),
    flags=st.text("01", min_size=2, max_size=2),
)
def test_the_sdk_reads_the_same(version: str, trace: str, span: str, flags: str) -> None:
    value = f"{version}-{trace}-{span}-{flags}"
    found = trace_context_of([(b"traceparent", value.encode())])
    context = get_current_span(
        TraceContextTextMapPropagator().extract({"traceparent": value})
    ).get_span_context()
    assert (found is not None) is context.is_valid
    if found is not None:
        assert (int(found.trace_id, 16), int(found.span_id, 16)) == (context.trace_id, context.span_id)
        assert found.is_sampled is context.trace_flags.sampled
