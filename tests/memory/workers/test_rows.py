"""What a worker's requests leave behind is the same on the other side of its channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import replace

from mgw.canonical.reply import NO_USAGE, Billed, TokenUsage
from mgw.ops.logs import usage_line
from mgw.usage.event import FIELDS, MAX_LINE_BYTES, Outcome, SessionCounts, SettledExchange
from mgw.usage.event_field import FieldType
from mgw.usage.labels import MAX_SHARED_CHARS, ExchangeLabels
from mgw.usage.price_row import Unpriced
from mgw.usage.record import EndedRequest, encode_settled, exchanges_of
from mgw.usage.trace_context import TraceContext
from mgw.workers.messages import AnyMessage, ChannelMessage, Rows
from mgw.workers.rows import MAX_LABELS, MAX_MESSAGE_BYTES, MAX_WAITING_BYTES, RowReader, RowWriter
from tests.support.laws import examples
from tests.support.usage import ended_of, event, settled_as

ENCODER = Encoder()
DECODER = Decoder(AnyMessage)
WILD = st.text(st.sampled_from('a -="\\\n\x00\x9b\u2028\ud800\udfff')) | st.text() | st.just("gpt-5")
PLAIN = st.none() | st.text(st.characters(codec="ascii"))
COUNTS = st.none() | st.integers(0, 2**53)
TIMES = st.floats(0, 4e9)
LABELS = st.builds(
    ExchangeLabels,
    dialect=st.sampled_from(["openai", "gemini"]),
    route=st.just("chat"),
    provider=st.none() | WILD,
    model=st.none() | WILD,
    upstream_model=st.none() | WILD,
    modality=st.just("text"),
    transport=st.sampled_from(["http", "websocket"]),
    key_hash=PLAIN,
    client=st.none() | WILD,
    client_groups=st.none() | st.lists(st.text(), min_size=1, max_size=2).map(tuple),
    tags=st.none() | st.dictionaries(st.text(), st.text(), min_size=1, max_size=2),
)


def settled_from(**fields: Any) -> SettledExchange:  # Any: the fields by name
    """Return an exchange; its own types cannot be looked up while a program runs."""
    return SettledExchange(**fields)


def ended_from(**fields: Any) -> EndedRequest:  # Any: as above
    """Return a request, as above."""
    return EndedRequest(**fields)


USAGE = st.builds(TokenUsage, *[COUNTS] * 5, st.none() | st.builds(Billed, COUNTS, COUNTS, COUNTS))
RECORDS = st.builds(
    settled_from,
    labels=LABELS,
    request_id=st.text(st.characters(codec="ascii")),
    time=TIMES,
    outcome=st.sampled_from(Outcome),
    latency_ms=TIMES,
    http_status=st.none() | st.integers(100, 599),
    ttft_ms=st.none() | TIMES,
    usage=st.just(NO_USAGE) | USAGE,
    stream=st.none() | st.booleans(),
    attempts=st.none() | st.integers(0, 9),
    dropped_fields=st.none() | st.lists(WILD, min_size=1, max_size=3).map(tuple),
    error=PLAIN,
    error_message=PLAIN,
    upstream_request_id=PLAIN,
    session=st.none() | st.builds(SessionCounts, st.none() | TIMES, *[COUNTS] * 4),
    cost=st.none() | st.integers(0, 2**63),
    unpriced=st.none() | st.sampled_from(Unpriced),
    trace=st.none()
    | st.builds(TraceContext, st.just("a" * 32), st.just("b" * 16), st.booleans(), st.just("x=y")),
    charged=st.none() | st.integers(0, 2**63),
    limit_warnings=st.none() | st.lists(st.text(), min_size=1, max_size=3).map(tuple),
)
REQUESTS = st.builds(
    ended_from,
    time=TIMES,
    method=st.none() | st.binary(),
    raw_path=st.none() | st.binary(),
    status=st.integers(100, 599),
    seconds=TIMES,
    request_id=st.text(st.characters(codec="ascii")),
    error=PLAIN,
    settled=st.none() | RECORDS,
)


@dataclass(slots=True)
class Wire:
    """A channel whose messages are read at once, or wait."""

    waiting_bytes: int = 0
    reader: RowReader = field(default_factory=RowReader)
    read: list[EndedRequest] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    labels_sent: int = 0

    def tell(self, message: ChannelMessage) -> None:
        data = ENCODER.encode(message)
        self.sizes.append(len(data))
        rows = DECODER.decode(data)
        assert isinstance(rows, Rows)
        self.labels_sent += len(rows.labels)
        self.read += self.reader.read(rows)


def labels_of(model: str) -> ExchangeLabels:
    return ExchangeLabels("openai", "chat", "main", model, model, "text", "http", None)


def settled_with(labels: ExchangeLabels) -> SettledExchange:
    return replace(settled_as(event()), labels=labels)


KNOWN = [settled_with(labels_of(f"model-{number}")) for number in range(MAX_LABELS + 5)]


def transfer(*batches: Sequence[SettledExchange]) -> tuple[list[SettledExchange], Wire]:
    wire = Wire()
    writer = RowWriter(wire)
    for batch in batches:
        writer.record_all([*map(ended_of, batch)])
    assert writer.dropped == 0
    return exchanges_of(wire.read), wire


def assert_same(sent: Sequence[SettledExchange], read: Sequence[SettledExchange]) -> None:
    assert len(read) == len(sent)
    for there, here in zip(sent, read, strict=True):
        assert here.event() == there.event()
        assert usage_line(here) == usage_line(there)
        assert encode_settled(here) == encode_settled(there)
        assert replace(here, labels=there.labels) == there
        assert here.labels.client_label == there.labels.client_label


@examples(50)
@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_any_exchange_survives_as_it_is(records: list[SettledExchange]) -> None:
    read, _ = transfer(records, records[::-1])
    assert_same([*records, *records[::-1]], read)
    assert [one.usage is NO_USAGE for one in read[: len(records)]] == [
        one.usage is NO_USAGE for one in records
    ]
    assert all(type(one.outcome) is Outcome for one in read)


@examples(30)
@given(st.lists(REQUESTS, min_size=1, max_size=4))
def test_any_request_survives_as_it_is_with_its_exchange(requests: list[EndedRequest]) -> None:
    wire = Wire()
    RowWriter(wire).record_all(requests)
    assert [replace(one, settled=None) for one in wire.read] == [
        replace(one, settled=None) for one in requests
    ]
    for sent, read in zip(requests, wire.read, strict=True):
        assert (sent.settled is None) == (read.settled is None)
    assert_same(exchanges_of(requests), exchanges_of(wire.read))


@example([1, *range(2, MAX_LABELS + 1), 1, MAX_LABELS + 1, 1])
@example([*range(MAX_LABELS + 5), 0, 3, MAX_LABELS])
@given(st.lists(st.integers(0, 3), max_size=30))
def test_labels_are_the_right_ones_however_many_there_are(order: list[int]) -> None:
    records = [KNOWN[number] for number in order]
    for size in (len(order) or 1, 7):
        batches = [records[at : at + size] for at in range(0, len(records), size)]
        read, wire = transfer(*batches)
        assert [one.labels.model for one in read] == [one.labels.model for one in records]
        assert len(wire.reader._labels) <= MAX_LABELS


def test_labels_are_sent_once_and_shared_by_the_records_that_shared_them() -> None:
    shared = [labels_of("a"), labels_of("b")]
    records = [settled_with(shared[at % 2]) for at in range(64)]
    read, wire = transfer(records, records)
    assert wire.labels_sent == 2
    assert len({id(one.labels) for one in read}) == 2
    usage_line(read[0])
    assert read[-2].labels.log_text is not None


def test_labels_with_a_long_name_are_remembered_by_neither_end() -> None:
    long = settled_with(labels_of("m" * (MAX_SHARED_CHARS + 1)))
    read, wire = transfer([long, long], [long])
    assert_same([long, long, long], read)
    assert wire.labels_sent == 3
    assert not wire.reader._labels


def test_a_text_longer_than_any_line_is_cut_and_gives_the_same_line() -> None:
    names = tuple(f"{number}-" + "n" * 4000 for number in range(200))
    huge = replace(settled_with(labels_of("m" * 3 * MAX_LINE_BYTES)), dropped_fields=names)
    read, wire = transfer([huge])
    assert encode_settled(read[0]) == encode_settled(huge)
    assert max(wire.sizes) < 5 * MAX_LINE_BYTES


def test_a_batch_that_is_too_large_is_sent_in_several_messages() -> None:
    records = [settled_with(labels_of(f"{at:02d}" + "m" * 60_000)) for at in range(3)]
    names = tuple("n" * 250 for _ in range(256))
    records += [replace(settled_with(labels_of("a")), dropped_fields=names)] * 61
    read, wire = transfer(records)
    assert_same(records, read)
    assert 1 < len(wire.sizes) < 16
    assert max(wire.sizes) < MAX_MESSAGE_BYTES * 1.5


def test_what_the_other_side_does_not_take_is_dropped_and_counted() -> None:
    wire = Wire(waiting_bytes=MAX_WAITING_BYTES + 1)
    writer = RowWriter(wire)
    requests = [ended_of(settled_with(labels_of("a")))] * 5
    writer.record_all([*requests, EndedRequest(1.0, b"GET", b"/", 200, 0.1, "req_1")])
    assert (wire.read, writer.dropped) == ([], 6)
    wire.waiting_bytes = 0
    writer.record_all(requests)
    assert len(wire.read) == 5


def test_a_record_that_msgpack_does_not_have_costs_no_other_one() -> None:
    good, shared = settled_with(labels_of("a")), labels_of("b")
    bad = replace(good, cost=2**70, labels=shared)
    wire = Wire()
    writer = RowWriter(wire)
    batch = [good, bad, settled_with(shared), replace(good, error="\ud800"), good]
    writer.record_all([*map(ended_of, batch)])
    writer.record_all([ended_of(settled_with(shared))])
    assert writer.dropped == 1
    read = exchanges_of(wire.read)
    assert [one.labels.model for one in read] == ["a", "b", "a", "a", "b"]
    assert [one.error for one in read] == [None, None, "?", None, None]


@pytest.mark.parametrize(
    "name", [field.source for field in FIELDS if field.type is FieldType.TEXT and "." not in field.source]
)
def test_half_a_surrogate_pair_gives_the_same_line_as_in_one_process(name: str) -> None:
    half = replace(settled_with(labels_of("a")), **{name: "a\ud800b"})
    wire = Wire()
    writer = RowWriter(wire)
    writer.record_all([ended_of(half)])
    (read,) = exchanges_of(wire.read)
    assert writer.dropped == 0
    assert encode_settled(read) == encode_settled(half)
