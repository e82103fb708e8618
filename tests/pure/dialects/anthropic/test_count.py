"""Token counts of prompts, both ways."""

from __future__ import annotations

import pytest

from mgw.canonical.reply import TokenUsage
from mgw.dialects.anthropic import CLIENT, PROVIDER
from mgw.dialects.dialect import ReplyContext, ReplySource
from mgw.nouns.errors import GatewayError


def test_counts_of_a_prompt_are_parsed_and_rendered() -> None:
    assert CLIENT.count is not None
    assert PROVIDER.count is not None
    context, source = ReplyContext("r", "m", 0), ReplySource("seed")
    assert CLIENT.count.render_reply(TokenUsage(42), context) == b'{"input_tokens":42}'
    assert PROVIDER.count.parse_reply(b'{"input_tokens": 42}', source) == TokenUsage(42)
    with pytest.raises(GatewayError):
        PROVIDER.count.parse_reply(b"<html>", source)
