"""Token counts of responses, both ways."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import (
    Part,
    Text,
)
from mgw.canonical.reply import Candidate, Reply, StopReason, TokenUsage
from mgw.dialects.anthropic.reply import parse_reply, render_reply
from mgw.dialects.dialect import ReplyContext, ReplySource
from tests.support.grammar import check_message

ANSWERING = ReplyContext("req_1", "claude", 0)


def whole(*parts: Part, stop: StopReason = StopReason.END, **fields: Any) -> Reply:
    return Reply((Candidate(parts, stop),), **fields)


COUNTS = st.none() | st.integers(0, 10**6)


@given(tokens_in=COUNTS, tokens_out=COUNTS, cache_read=COUNTS, cache_write=COUNTS, reasoning=COUNTS)
def test_counts_there_and_back_are_the_same(
    tokens_in: int | None,
    tokens_out: int | None,
    cache_read: int | None,
    cache_write: int | None,
    reasoning: int | None,
) -> None:
    cached = (cache_read or 0) + (cache_write or 0)
    usage = TokenUsage(
        None if tokens_in is None else tokens_in + cached,
        tokens_out,
        cache_read,
        cache_write,
        None if reasoning is None or tokens_out is None else min(reasoning, tokens_out),
    )
    body = render_reply(whole(Text("x"), usage=usage), ANSWERING)
    check_message(body)
    back = parse_reply(body, ReplySource("s")).usage
    assert back.tokens_out == (tokens_out or 0)
    assert (back.cache_read, back.cache_write) == (cache_read or 0, cache_write or 0)
    assert back.reasoning == usage.reasoning
    if tokens_in is not None:
        assert back.tokens_in == usage.tokens_in
