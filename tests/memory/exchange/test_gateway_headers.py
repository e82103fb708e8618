"""What the head of a translated answer says."""

from __future__ import annotations

from urllib.parse import unquote

from mgw.exchange.response_translation import MAX_HEADER_BYTES, format_dropped_fields, gateway_headers_for
from mgw.nouns.vocabulary import Family


def test_names_stand_as_they_are_where_they_can() -> None:
    assert format_dropped_fields(["logit_bias", "messages[].name"]) == b"logit_bias, messages[].name"


def test_what_is_no_visible_ascii_or_would_cut_the_list_is_percent_encoded() -> None:
    value = format_dropped_fields(["a,b", "c d", "é", "50%", "x\r\ny"]).decode()
    assert value == "a%2Cb, c%20d, %C3%A9, 50%25, x%0D%0Ay"
    assert [unquote(name) for name in value.split(", ")] == ["a,b", "c d", "é", "50%", "x\r\ny"]


def test_half_a_surrogate_pair_is_no_error() -> None:
    assert format_dropped_fields(["\ud800"]) == b"?"


def test_there_are_at_most_so_many_names() -> None:
    value = format_dropped_fields([f"f{number}" for number in range(65)])
    assert value.count(b", ") == 64
    assert value.endswith(b", f63, %E2%80%A6")
    assert format_dropped_fields([f"f{number}" for number in range(64)]).endswith(b", f63")


def test_the_value_keeps_within_its_size() -> None:
    value = format_dropped_fields(["n" * 300] * 30)
    assert len(value) <= MAX_HEADER_BYTES
    assert value.endswith(b", %E2%80%A6")


def test_a_head_says_only_what_there_is_to_say() -> None:
    assert gateway_headers_for(Family.GEMINI, "r") == []
    assert gateway_headers_for(Family.ANTHROPIC, "r", ["x"], ("system", "tools")) == [
        (b"request-id", b"r"),
        (b"X-Gateway-Dropped-Fields", b"x"),
        (b"X-Gateway-Cache-Auto", b"system, tools"),
    ]
