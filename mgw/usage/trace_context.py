"""The client's trace that a request belongs to, from its headers (W3C Trace Context, level 1).

It is read where a sink asks for it, carried beside the usage event, and is no part of that.  Headers that the
recommendation calls invalid say nothing, so the request begins a trace of its own.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from mgw.wire.headers import RawHeaders, values_of

MAX_STATE_BYTES: Final = 512
"""A longer ``tracestate`` is left out: whoever passes one on need not carry more (3.3.1.5)."""
_SAMPLED: Final = 1
# 3.2.2: versions after 00 may add fields behind these four, and ff is no version.
_read: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?"
).fullmatch
_is_state: Final = re.compile(rb"[ -~\t]*").fullmatch


class TraceContext(Struct, frozen=True, gc=False, array_like=True):
    """The span of the client that a request belongs to."""

    trace_id: str
    """The trace's id, 32 hexadecimal digits."""
    span_id: str
    """The parent span's id, 16 hexadecimal digits."""
    is_sampled: bool
    """Whether the client keeps its trace."""
    state: str = ""
    """The state that tracing systems of the client keep in it (``tracestate``)."""


def trace_context_of(headers: RawHeaders) -> TraceContext | None:
    """Return what the headers of a request say; ``None`` where they say nothing valid."""
    parents = values_of(headers, b"traceparent")
    if len(parents) != 1:
        return None
    found = _read(parents[0])
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == b"00" and more is not None:
        return None
    state = b",".join(values_of(headers, b"tracestate"))  # RFC 9110 5.3
    if len(state) > MAX_STATE_BYTES or not _is_state(state):
        state = b""
    return TraceContext(
        trace_id.decode(), span_id.decode(), bool(int(flags, 16) & _SAMPLED), state.decode("ascii")
    )
