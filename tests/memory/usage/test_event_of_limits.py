"""What an event says of its client's groups, tags and limits, in every form."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, Final

from msgspec.structs import replace
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from mgw.ops.json_lines import usage_json
from mgw.ops.logs import usage_line
from mgw.usage.event import FIELDS
from mgw.usage.event_search import EventSearch, encode_event, find_events
from mgw.usage.otlp_span import SpanWriter
from mgw.usage.record import encode, encode_block, encode_settled
from mgw.usage.usage_table import create_table, insert_lines
from tests.support.otlp import attributes_of
from tests.support.usage import exchange

KEY: Final = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
NEW: Final[dict[str, Any]] = {  # Any: JSON
    "client_groups": ["research", "ops"],
    "tags": {"cost_center": "4711", "team": "nlp"},
    "tokens_in_estimated": 9,
    "tokens_out_estimated": 4,
    "charged_usd": 0.000000012,
    "limit_warnings": ["group:research usd_per_month 0.8"],
    "service_tier": "flex",
    "price_tier": "flex",
    "body_rules": 2,
}
SETTLED: Final = exchange(
    client="alice",
    **{name: tuple(value) if isinstance(value, list) else value for name, value in NEW.items()},
)


def test_the_table_ends_with_them_in_this_order() -> None:
    assert [field.name for field in FIELDS][-len(NEW) :] == list(NEW)


def test_the_line_of_json_ends_with_them() -> None:
    line = encode_settled(SETTLED)
    assert list(json.loads(line).items())[-len(NEW) :] == list(NEW.items())
    assert b'"charged_usd":0.000000012' in line, "without an exponent"
    assert encode(SETTLED.event()) == line
    assert encode_block([SETTLED, SETTLED]) == line + line


def test_a_line_that_is_too_long_has_its_tags_cut() -> None:
    long = replace(SETTLED, labels=replace_tags(SETTLED, {f"t{at}": "x" * 256 for at in range(300)}))
    found = json.loads(encode_settled(long))
    assert len(found["tags"]) == 300
    assert found["tags"]["t7"] == "x" * 128 + "…"


def replace_tags(settled: Any, tags: dict[str, str]) -> Any:  # Any: an exchange, and its labels
    names = settled.labels.__match_args__
    return type(settled.labels)(**{name: getattr(settled.labels, name) for name in names} | {"tags": tags})


def test_the_plain_line_has_them() -> None:
    line = usage_line(SETTLED).decode()
    assert line.endswith(
        ' client=alice client_groups=research,ops tags="cost_center=4711,team=nlp" tokens_in_estimated=9 '
        "tokens_out_estimated=4 charged_usd=0.000000012 estimated=true "
        'limit_warnings="group:research usd_per_month 0.8" service_tier=flex price_tier=flex body_rules=2\n'
    )
    for absent in ("client_groups", "tags", "charged_usd", "limit_warnings", "estimated"):
        assert f" {absent}=" not in usage_line(exchange()).decode()


def test_the_log_shows_no_credential_in_a_tag() -> None:
    assert json.loads(usage_json(SETTLED))["tags"] == NEW["tags"]
    careless = replace(SETTLED, labels=replace_tags(SETTLED, {"team": KEY, KEY: "nlp"}))
    assert KEY not in usage_json(careless).decode()
    assert KEY not in usage_line(careless).decode()


def test_a_file_has_a_column_for_each_and_returns_them() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_table(connection)
    insert_lines(connection, [encode_settled(SETTLED), encode_settled(replace(exchange(), request_id="x"))])
    (row,) = connection.execute(f"SELECT {', '.join(NEW)} FROM usage_events WHERE request_id = 'req_1'")
    texts = [
        json.dumps(value, separators=(",", ":")) for value in NEW.values() if isinstance(value, list | dict)
    ]
    assert [cell for cell in row if isinstance(cell, str) and cell[0] in "[{"] == texts
    first, second = sorted(find_events(connection, EventSearch(limit=9)), key=lambda one: one["request_id"])
    assert {name: first.get(name) for name in NEW} == NEW
    assert not NEW.keys() & second.keys()
    assert b'"charged_usd":0.000000012' in encode_event(first)
    connection.close()


def test_a_span_has_an_attribute_for_each_tag() -> None:
    span = Span()
    SpanWriter().write(b'{"event":%b}' % encode_settled(SETTLED), span)
    found = attributes_of(span.attributes)
    assert found["mgw.client_groups"] == NEW["client_groups"]
    assert (found["mgw.tags.cost_center"], found["mgw.tags.team"]) == ("4711", "nlp")
    assert found["mgw.charged_usd"] == NEW["charged_usd"]
    assert found["mgw.limit_warnings"] == NEW["limit_warnings"]
    assert "mgw.tags" not in found
