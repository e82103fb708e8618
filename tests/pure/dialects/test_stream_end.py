"""What the events of passing streams mean: errors, ends, beginnings that say nothing, of whatever shape."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from mgw.dialects import dialect_of
from mgw.dialects.stream_end import StreamEnd
from mgw.nouns.vocabulary import DialectName
from mgw.wire.sse import Event

DIALECTS: Final = list(DialectName)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
NAMES: Final = st.sampled_from([b"", b"error", b"message_start", b"response.failed", b"\xff"])
KEYS: Final = st.sampled_from(
    [
        *(
            "error",
            "choices",
            "type",
            "message",
            "delta",
            "finish_reason",
            "response",
            "candidates",
            "n",
            "index",
        ),
        *(
            "promptFeedback",
            "blockReason",
            "content",
            "x_groq",
            "text",
            "role",
            "stop_reason",
            "code",
            "status",
        ),
    ]
)
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.sampled_from(
        [0, -1, 2**70, 1.5, "", "x", "stop", "error", "message_start", "message_delta", "response.failed"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS: Final = VALUES.map(json.dumps).map(str.encode) | st.binary(max_size=30)
DEEP: Final = b'{"error":' + b"[" * 20_000 + b"]" * 20_000 + b"}"


def event(document: Any, name: bytes = b"") -> Event:
    return Event(name, json.dumps(document).encode())


@given(name=NAMES, data=DOCUMENTS)
def test_no_event_is_too_strange(name: bytes, data: bytes) -> None:
    for dialect in DIALECTS:
        note(dialect)
        rows, found = dialect_of(dialect).stream_events, Event(name, data)
        error = rows.find_error(found)
        assert error is None or 400 <= error.status < 600
        assert type(rows.says_nothing(found)) is bool
        assert all(type(choice) is int for choice in rows.ended_choices(found))
        assert 1 <= rows.count_choices(data) <= 128
        if error is not None:
            assert type(rows.error_body(found, error)) is bytes
        end = StreamEnd(rows)
        end.read(found)
        assert end.complete or end.error is None


@each_dialect
def test_no_event_is_nested_too_deeply(dialect: DialectName) -> None:
    rows = dialect_of(dialect).stream_events
    assert rows.find_error(Event(b"", DEEP)) is None
    assert not rows.says_nothing(Event(b"", DEEP))
    assert rows.count_choices(DEEP.replace(b"error", b"n")) == 1


@each_dialect
def test_an_error_that_is_null_or_empty_is_none(dialect: DialectName) -> None:
    rows = dialect_of(dialect).stream_events
    nothings: list[Any] = [None, False, {}, []]
    for nothing in nothings:
        assert rows.find_error(event({"error": nothing, "type": "x", "choices": [{"index": 0}]})) is None


STATUSES: Final = {
    "chat": (DialectName.OPENAI_CHAT, {"error": {"message": "x", "code": 429}}, 429),
    "chat, a string": (DialectName.OPENAI_CHAT, {"error": "x"}, 502),
    "chat, in a choice": (
        DialectName.OPENAI_CHAT,
        {"choices": [{"error": {"code": 503, "message": "x"}}]},
        503,
    ),
    "chat of groq": (DialectName.OPENAI_CHAT, {"choices": [], "x_groq": {"error": "over_capacity"}}, 502),
    "completions": (DialectName.OPENAI, {"error": {"message": "x", "type": "server_error"}}, 500),
    "messages": (DialectName.ANTHROPIC, {"type": "error", "error": {"type": "rate_limit_error"}}, 429),
    "messages, no type": (DialectName.ANTHROPIC, {"error": {"type": "api_error", "message": "x"}}, 500),
    "responses": (DialectName.OPENAI_RESPONSES, {"type": "error", "code": "rate_limit_exceeded"}, 429),
    "responses, failed": (
        DialectName.OPENAI_RESPONSES,
        {"type": "response.failed", "response": {"status": "failed", "error": {"code": "server_error"}}},
        500,
    ),
    "responses, failed without words": (DialectName.OPENAI_RESPONSES, {"type": "response.failed"}, 502),
    "gemini": (DialectName.GEMINI, {"error": {"code": 503, "status": "UNAVAILABLE"}}, 503),
    "gemini, in an array": (DialectName.GEMINI, [{"error": {"code": 429, "message": "x"}}], 429),
}


@pytest.mark.parametrize(("dialect", "document", "status"), STATUSES.values(), ids=STATUSES)
def test_an_error_stands_for_a_status(dialect: DialectName, document: Any, status: int) -> None:
    found = dialect_of(dialect).stream_events.find_error(event(document))
    assert found is not None
    assert found.status == status


@pytest.mark.parametrize(
    ("body", "count"),
    [
        (b'{"n":3}', 3),
        (b'{"n":1}', 1),
        (b'{"n":0}', 1),
        (b'{"n":null}', 1),
        (b'{"n":"3"}', 1),
        (b'{"n":true}', 1),
        (b'{"n":1000}', 128),
        (b'{"tools":[{"n":5}]}', 1),
        (b'{"n":2', 1),
        (b"", 1),
    ],
)
def test_a_request_says_how_many_choices_it_asks_for(body: bytes, count: int) -> None:
    assert dialect_of(DialectName.OPENAI_CHAT).stream_events.count_choices(body) == count
    assert dialect_of(DialectName.ANTHROPIC).stream_events.count_choices(body) == 1


def test_what_comes_behind_an_error_changes_nothing() -> None:
    end = StreamEnd(dialect_of(DialectName.OPENAI_CHAT).stream_events, 2)
    end.read(event({"error": {"message": "x", "code": 503}}))
    end.read(event({"choices": [{"index": 0, "finish_reason": "stop"}]}))
    assert end.error is not None
    assert (end.error.status, end.complete) == (503, True)


def test_as_many_choices_end_as_were_asked_for() -> None:
    end = StreamEnd(dialect_of(DialectName.OPENAI_CHAT).stream_events, 2)
    for index in (0, 0, 7):
        assert not end.complete
        end.read(event({"choices": [{"index": index, "finish_reason": "stop"}]}))
    assert end.complete
