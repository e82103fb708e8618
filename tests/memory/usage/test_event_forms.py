"""Every form of two usage events, byte for byte: a request that failed, and a realtime session."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from msgspec.structs import replace
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mgw.ops.json_lines import usage_json
from mgw.ops.logs import usage_line
from mgw.usage.event import Outcome, SettledExchange
from mgw.usage.genai import ProviderFacts
from mgw.usage.otlp_span import SpanWriter
from mgw.usage.record import encode_settled
from mgw.usage.sinks.otlp import line_of
from mgw.usage.trace_context import TraceContext
from mgw.usage.usage_table import create_table, insert_lines
from mgw.workers.messages import ChannelMessage, Rows
from mgw.workers.rows import RowWriter
from tests.support.usage import ended_of, exchange

GOLDEN: Final[dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "golden" / "usage-events.json").read_text(encoding="utf-8")
)
FACTS: Final = ProviderFacts("main", "openai", "api.openai.com", 443).json_fields()
TRACE: Final = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", True, "vendor=1")
FULL: Final = exchange(
    cache_read_tokens=3,
    cache_write_tokens=4,
    reasoning_tokens=5,
    cost_usd=0.00123,
    client="alice",
    dropped_fields=("logit_bias", "seed"),
    status=Outcome.UPSTREAM_ERROR,
    error="truncated",
    error_message="The server had an error",
    upstream_request_id="up-1",
)
SESSION: Final = exchange(
    route="realtime_ws",
    modality="realtime",
    transport="websocket",
    stream=None,
    ttft_ms=None,
    session_minutes=1.50049,
    bytes_in=10,
    bytes_out=20,
    frames_in=1,
    frames_out=2,
    http_status=101,
)
EVENTS: Final = {"full": replace(FULL, trace=TRACE), "session": SESSION}


@dataclass
class Channel:
    """A channel that keeps what is sent."""

    waiting_bytes: int = 0
    sent: list[ChannelMessage] = field(default_factory=list)

    def tell(self, message: ChannelMessage) -> None:
        self.sent.append(message)


def row_of(settled: SettledExchange) -> dict[str, Any]:
    """What goes from one process to another, as JSON."""
    channel = Channel()
    RowWriter(channel).record_all([ended_of(settled)])
    (rows,) = channel.sent
    assert isinstance(rows, Rows)
    ((_, labels),) = rows.labels
    ((*_, fields),) = msgspec.msgpack.decode(rows.requests)
    found = msgspec.json.encode(fields)  # names of fields in base64
    return {"labels": [text and text.decode() for text in labels], "fields": json.loads(found)}


def cells_of(settled: SettledExchange) -> list[Any]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_table(connection)
    insert_lines(connection, [encode_settled(settled)])
    (row,) = connection.execute("SELECT * FROM usage_events")
    connection.close()
    return list(row)


def span_of(settled: SettledExchange) -> str:
    """The span in hexadecimal digits, with its attributes by name: their order has no meaning."""
    span = Span()
    SpanWriter().write(line_of(settled, FACTS), span)
    attributes = [
        KeyValue.FromString(found.SerializeToString())
        for found in sorted(span.attributes, key=lambda one: one.key)
    ]
    del span.attributes[:]
    span.attributes.extend(attributes)
    data: bytes = span.SerializeToString(deterministic=True)
    return data.hex()


@pytest.mark.parametrize("name", GOLDEN)
def test_every_form_of_an_event_is_as_it_always_was(name: str) -> None:
    settled, golden = EVENTS[name], GOLDEN[name]
    for _ in range(2):  # what the labels keep from the first time is used the second time
        assert encode_settled(settled).decode() == golden["line"] + "\n"
        assert usage_line(settled).decode() == golden["plain line"] + "\n"
        assert usage_json(settled).decode() == golden["log line"] + "\n"
    assert span_of(settled) == golden["span"]


@pytest.mark.parametrize("name", GOLDEN)
def test_rows_and_cells_begin_as_they_always_did(name: str) -> None:
    """New fields come behind the others."""
    settled, golden = EVENTS[name], GOLDEN[name]
    cells, row = cells_of(settled), row_of(settled)
    assert cells[: len(golden["cells"])] == golden["cells"]
    assert row["labels"][: len(golden["row"]["labels"])] == golden["row"]["labels"]
    assert row["fields"][: len(golden["row"]["fields"])] == golden["row"]["fields"]
