"""Of an error, its own message field is told apart from all else that it says, which may repeat a prompt."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import UpstreamError
from mgw.dialects import dialect_of, provider_side_of
from mgw.dialects.refusal import MAX_OWN_MESSAGE, proxy_message
from mgw.nouns.vocabulary import DialectName
from mgw.wire.sse import Event

WORDS = "Rate limit reached"
PROMPT = "canary-prompt"
PROVIDERS = [name for name in DialectName if name is not DialectName.OPENAI]
DEEP: Any = [PROMPT]
for _ in range(50):
    DEEP = {"message": DEEP}


def refused(name: DialectName, body: Any) -> UpstreamError:  # Any: JSON
    return provider_side_of(name).parse_error(429, body if type(body) is bytes else json.dumps(body).encode())


EVERYWHERE: list[Any] = [
    {"error": {"message": WORDS, "code": "x", "param": PROMPT, "input": PROMPT}},
    {"type": "error", "error": {"type": "rate_limit_error", "message": WORDS}, "request": PROMPT},
    {"error": {"code": 429, "message": WORDS, "status": "X", "details": [{"reason": PROMPT}]}},
    [{"error": {"code": 429, "message": WORDS}}],
    {"error": WORDS, "prompt": PROMPT},
    {"message": WORDS, "body": {"messages": PROMPT}},
    {"detail": WORDS},
    {"error": {"message": {"message": WORDS, "input": PROMPT}}},
    {"detail": [{"type": "missing", "loc": ["body", PROMPT], "msg": WORDS, "input": PROMPT}]},
]
NOWHERE: list[Any] = [
    b"<html><title>canary-prompt</title>canary-prompt</html>",
    b"canary-prompt: no healthy upstream",
    b"",
    b"{cut canary-prompt",
    b"[" * 100_000,
    PROMPT,
    [PROMPT],
    {"input": PROMPT},
    {"error": {"type": PROMPT, "param": PROMPT}},
    {"error": {"message": 7, "input": PROMPT}},
    {"error": {"message": {"role": "user", "content": PROMPT}}},
    {"detail": [{"input": PROMPT}]},
    DEEP,
    {"error": {"message": ""}, "messages": [{"content": PROMPT}]},
]


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("body", EVERYWHERE, ids=lambda body: json.dumps(body)[:60])
def test_the_message_field_is_found_in_every_dialect(name: DialectName, body: Any) -> None:
    assert refused(name, body).own_message == WORDS


@pytest.mark.parametrize("name", PROVIDERS)
@pytest.mark.parametrize("body", NOWHERE, ids=lambda body: repr(body)[:40])
def test_a_body_without_one_says_its_status_alone(name: DialectName, body: Any) -> None:
    assert PROMPT not in (refused(name, body).own_message or "")


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (json.dumps({"error": {"message": WORDS, "input": PROMPT}}), f"Provider returned error: {WORDS}"),
        ({"message": WORDS}, f"Provider returned error: {WORDS}"),
        (f"429: {PROMPT}", "Provider returned error"),
        (json.dumps(PROMPT), "Provider returned error"),
        (None, "Provider returned error"),
        (json.dumps({"message": "Provider returned"}), "Provider returned error"),
    ],
    ids=["error", "object", "text", "text in JSON", "nothing", "the same"],
)
def test_of_what_a_host_passes_on_the_message_alone_is_told(raw: Any, found: str) -> None:
    body = {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": raw}}}
    assert refused(DialectName.OPENAI_CHAT, body).own_message == found


EVENTS: dict[DialectName, list[dict[str, Any]]] = {
    DialectName.OPENAI_CHAT: [
        {"error": {"message": WORDS, "code": 429}},
        {"choices": [{"index": 0, "delta": {"content": PROMPT}, "error": {"message": WORDS}}]},
    ],
    DialectName.OPENAI_RESPONSES: [
        {"type": "error", "code": "rate_limit_exceeded", "message": WORDS, "param": PROMPT},
        {"type": "error", "status": 429, "error": {"code": "x", "message": WORDS}},
        {"type": "response.failed", "response": {"error": {"code": "x", "message": WORDS}, "input": PROMPT}},
    ],
    DialectName.ANTHROPIC: [{"type": "error", "error": {"type": "overloaded_error", "message": WORDS}}],
    DialectName.GEMINI: [{"error": {"code": 503, "message": WORDS, "status": "UNAVAILABLE"}}],
}


@pytest.mark.parametrize(
    ("name", "event"), [(name, event) for name, events in EVENTS.items() for event in events]
)
def test_an_error_event_has_its_message(name: DialectName, event: dict[str, Any]) -> None:
    found = dialect_of(name).stream_events.find_error(Event(b"", json.dumps(event).encode()))
    assert found is not None
    assert found.own_message == WORDS


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_is_looked_at_up_to_a_limit_where_a_word_is_not_cut(more: int) -> None:
    message = "m " * (MAX_OWN_MESSAGE // 2 - 8) + "k" * (16 + more)
    found = refused(DialectName.ANTHROPIC, {"error": {"message": message}}).own_message
    assert found == (message if not more else "m " * (MAX_OWN_MESSAGE // 2 - 8) + "…")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 600) | st.text("am ", max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "detail", "msg", "errors", "choices", "metadata", "raw", "fault", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(name=st.sampled_from(PROVIDERS), body=JSON)
def test_no_json_breaks_a_reader(name: DialectName, body: Any) -> None:
    found = refused(name, body).own_message
    assert found is None or found in json.dumps(body) or ": " in found


@pytest.mark.parametrize("page", [b"<title>" + b"a" * 100_000, b"<title" * 20_000, b"<title>a" * 10_000])
def test_a_page_whose_title_does_not_end_is_read_at_once(page: bytes) -> None:
    before = time.process_time()
    proxy_message(page)
    assert time.process_time() - before < 0.1


@pytest.mark.parametrize("title", [b"", b" \n "])
def test_an_empty_title_says_nothing(title: bytes) -> None:
    page = b"<html><title>%b</title><title lang=en>502 Bad Gateway</title><body>nginx" % title
    assert proxy_message(page) == "502 Bad Gateway"
    assert proxy_message(b"<html><title>%b</title><body>nginx" % title) == "nginx"
