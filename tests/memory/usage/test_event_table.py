"""A new field of the event is a row of its table: every form of an event then has it."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, Literal

import msgspec
import pytest
from msgspec.structs import asdict
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mgw.dashboard.openapi import event_schema
from mgw.ops.json_lines import json_form, usage_json
from mgw.ops.logs import usage_writer
from mgw.usage.event import FIELDS, SettledExchange, UsageEvent
from mgw.usage.event_field import About, EventField, FieldType, table_of
from mgw.usage.event_search import EventSearch, find_events
from mgw.usage.otlp_span import SpanWriter
from mgw.usage.record import block_encoder, encode_settled, settled_encoder
from mgw.usage.usage_table import SCHEMA, UsageTable, schema_of
from mgw.workers.messages import AnyMessage, ChannelMessage, Rows
from mgw.workers.rows import RowReader, RowWriter
from tests.support.otlp import attributes_of
from tests.support.usage import ended_of, event, exchange

KEY: Final = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


class WiderEvent(UsageEvent, frozen=True, kw_only=True, omit_defaults=True):
    """The event with a field of each type, as a later version may have them."""

    region: Annotated[str | None, About(since="9.0.0")] = None
    """Where the request was answered."""
    checked: Annotated[bool | None, About(since="9.0.0")] = None
    retries_saved: Annotated[int | None, About(unit="requests", since="9.0.0")] = None
    waited_ms: Annotated[float | None, About(unit="milliseconds", since="9.0.0")] = None
    saved_usd: Annotated[float | None, About("saved", FieldType.MONEY, since="9.0.0")] = None
    until: Annotated[float | None, About(type=FieldType.TIME, since="9.0.0", span=None)] = None
    marks: Annotated[tuple[str, ...] | None, About(since="9.0.0")] = None
    level: Annotated[Literal["low", "high"] | None, About(since="9.0.0", is_ours=True, log="grade")] = None


class WiderExchange(SettledExchange, frozen=True, gc=False):
    """What such a version keeps of an exchange."""

    region: str | None = None
    checked: bool | None = None
    retries_saved: int | None = None
    waited_ms: float | None = None
    saved: int | None = None
    until: float | None = None
    marks: tuple[str, ...] | None = None
    level: str | None = None


WIDER: Final = table_of(WiderEvent)
NEW: Final = {
    "region": "eu west",
    "checked": True,
    "retries_saved": 3,
    "waited_ms": 12.346,
    "saved_usd": 0.00000125,
    "until": "2025-11-24T16:00:00.250Z",
    "marks": ["a", "b"],
    "level": "low",
}
"""The new fields as JSON has them."""
WIDE: Final = WiderExchange(
    **asdict(exchange()),
    region="eu west",
    checked=True,
    retries_saved=3,
    waited_ms=12.3456,
    saved=1250,
    until=1_764_000_000.25,
    marks=("a", "b"),
    level="low",
)
encode_wide = settled_encoder(WIDER)


def test_the_table_of_a_longer_event_begins_with_that_of_the_event() -> None:
    assert WIDER[: len(FIELDS)] == FIELDS
    assert [field.name for field in WIDER[len(FIELDS) :]] == list(NEW)


def test_the_line_of_json_ends_with_the_new_fields() -> None:
    line = encode_wide(WIDE)
    assert line.startswith(encode_settled(exchange())[:-2] + b",")
    assert json.loads(line) == json.loads(encode_settled(exchange())) | NEW


def test_the_lines_of_many_have_them_as_well() -> None:
    rows = [WIDE, WiderExchange(**asdict(exchange())), WIDE]
    assert block_encoder(WIDER)(rows) == b"".join(map(encode_wide, rows))


def test_a_session_and_a_text_that_is_too_long_have_them_too() -> None:
    session = exchange(session_minutes=1.5, bytes_in=3)
    wide = WiderExchange(**asdict(session), region="r" * 100_000)
    found = json.loads(encode_wide(wide))
    assert (found["session_minutes"], found["region"]) == (1.5, "r" * 512 + "…")


def test_an_exchange_without_them_has_the_line_of_before() -> None:
    assert encode_wide(WiderExchange(**asdict(exchange()))) == encode_settled(exchange())


def test_the_plain_line_ends_with_them() -> None:
    (plain,) = usage_writer(FIELDS)([exchange()])
    assert next(usage_writer(WIDER)([WIDE])) == plain[:-1] + (
        b' region="eu west" checked=true retries_saved=3 waited_ms=12.346 saved_usd=0.00000125 '
        b"until=2025-11-24T16:00:00.250Z marks=a,b grade=low\n"
    )


def count_calls(write: Callable[[SettledExchange], bytes], settled: SettledExchange) -> int:
    """How many functions in Python one line calls."""
    called: list[str] = []

    def on_event(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    write(settled)  # labels are rendered once
    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        write(settled)
    finally:
        sys.setprofile(before)
    return len(called)


def test_a_count_that_every_exchange_has_costs_a_line_no_call() -> None:
    counted = WiderExchange(**asdict(exchange()), retries_saved=3)
    further = [field for field in WIDER if field.name == "retries_saved"]

    def line_writer(fields: Sequence[EventField]) -> Callable[[SettledExchange], bytes]:
        write_all = usage_writer(fields)
        return lambda settled: next(write_all([settled]))

    for writer in (line_writer, settled_encoder):
        assert count_calls(writer([*FIELDS, *further]), counted) == count_calls(writer(FIELDS), counted)


def test_the_log_shows_no_credential_in_them() -> None:
    form = json_form(WIDER)
    found = json.loads(usage_json(WIDE, form))
    assert {name: found[name] for name in NEW} == NEW
    careless = WiderExchange(**asdict(exchange()), region=f"at {KEY}", marks=(f"of {KEY}", "b"))
    assert KEY not in usage_json(careless, form).decode()
    assert KEY not in next(usage_writer(WIDER)([careless])).decode()


@dataclass
class Channel:
    """A channel whose other side reads at once."""

    reader: RowReader
    waiting_bytes: int = 0
    read: list[SettledExchange | None] = field(default_factory=list)

    def tell(self, message: ChannelMessage) -> None:
        rows = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=AnyMessage)
        assert isinstance(rows, Rows)
        self.read += [ended.settled for ended in self.reader.read(rows)]


def test_workers_send_them() -> None:
    channel = Channel(RowReader(WiderExchange))
    RowWriter(channel).record_all([ended_of(WIDE)])
    (read,) = channel.read
    assert isinstance(read, WiderExchange)
    assert encode_wide(read) == encode_wide(WIDE)


def test_a_span_has_them_as_attributes() -> None:
    span, before = Span(), Span()
    stored = b'{"event":%b}'
    SpanWriter(WIDER).write(stored % encode_wide(WIDE), span)
    SpanWriter().write(stored % encode_settled(exchange()), before)
    said = {f"mgw.{name}": value for name, value in NEW.items() if name != "until"}
    assert attributes_of(span.attributes) == attributes_of(before.attributes) | said


def test_a_span_of_a_line_that_a_newer_version_stored_has_what_is_known_here() -> None:
    span, before = Span(), Span()
    SpanWriter().write(b'{"event":%b}' % encode_wide(WIDE), span)
    SpanWriter().write(b'{"event":%b}' % encode_settled(exchange()), before)
    assert span == before


def events_in(path: Path, fields: tuple[EventField, ...]) -> list[dict[str, Any]]:
    """The events of a file, the oldest first, as a version with these fields shows them."""
    connection = sqlite3.connect(path)
    try:
        return list(find_events(connection, EventSearch(limit=9), fields))[::-1]
    finally:
        connection.close()


def wide(request_id: str, seconds: float) -> bytes:
    return encode_wide(msgspec.structs.replace(WIDE, request_id=request_id, time=1e9 + seconds))


@pytest.mark.parametrize("versions", ["old new", "new old", "new old new", "old new old"])
def test_an_older_and_a_newer_version_write_into_each_others_files(tmp_path: Path, versions: str) -> None:
    path = tmp_path / "usage.db"
    for number, version in enumerate(versions.split()):
        is_new = version == "new"
        table = UsageTable(str(path), schema_of(WIDER) if is_new else SCHEMA)
        assert table.add([wide(f"req_{number}", number)]) == 0
        table.close()
    for is_new, found in zip(
        [version == "new" for version in versions.split()], events_in(path, WIDER), strict=True
    ):
        assert {name: found[name] for name in NEW if name in found} == (NEW if is_new else {})
        assert found["tokens_in"] == 12
    assert [found.keys() & NEW.keys() for found in events_in(path, FIELDS)] == [set()] * len(versions.split())


def test_each_version_completes_the_file_of_the_one_before_and_leaves_its_events(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    versions = sorted({one.about.since for one in WIDER})
    assert versions == ["0.4.0", "0.5.0", "9.0.0"]
    settled = exchange(client="alice", error="dns", error_message="no", upstream_request_id="up")
    line = encode_wide(WiderExchange(**asdict(settled), region="eu"))
    for version in versions:
        known = tuple(one for one in WIDER if one.about.since <= version)
        table = UsageTable(str(path), schema_of(known))
        assert table.add([line.replace(b"req_1", version.encode())]) == 0
        table.close()
    connection = sqlite3.connect(path)
    columns = {row[1]: row[2] for row in connection.execute("PRAGMA table_info(usage_events)")}
    connection.close()
    assert columns == {one.name: one.type.sql for one in WIDER}
    for version, found in zip(versions, events_in(path, WIDER), strict=True):
        named = {one.name for one in WIDER if one.about.since <= version}
        said = json.loads(line) | {"request_id": version}
        assert found == {name: value for name, value in said.items() if name in named}


def test_the_api_describes_them() -> None:
    before, after = event_schema(FIELDS), event_schema(WIDER)
    assert after["required"] == before["required"]
    assert after["properties"] == before["properties"] | {
        "region": {"type": "string"},
        "checked": {"type": "boolean"},
        "retries_saved": {"type": "integer", "minimum": 0},
        "waited_ms": {"type": "number"},
        "saved_usd": {"type": "number"},
        "until": {"type": "string", "format": "date-time"},
        "marks": {"type": "array", "items": {"type": "string"}},
        "level": {"type": "string", "enum": ["low", "high"]},
    }


def test_the_event_has_every_value_of_its_exchange() -> None:
    assert exchange().event() == event()
