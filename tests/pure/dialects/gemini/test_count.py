"""countTokens, both ways."""

from __future__ import annotations

import json
from typing import Final

import pytest
from google.genai.types import CountTokensResponse

from mgw.canonical.conversation import Conversation, Role, Text, Tool, Turn
from mgw.canonical.reply import TokenUsage
from mgw.dialects.dialect import RenderOptions, ReplyContext, ReplySource, RequestContext
from mgw.dialects.gemini.count import CLIENT, PROVIDER
from mgw.nouns.errors import GatewayError
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family, Kind

HELLO: Final = (Turn(Role.USER, (Text("Hello"),)),)
CONTENTS: Final = [{"role": "user", "parts": [{"text": "Hello"}]}]
SETTING: Final = RenderOptions("gemini-x", Kind.GEMINI, ModelRow("*", Family.GEMINI, "x"))


def test_contents_are_counted_bare_or_within_a_request() -> None:
    bare = CLIENT.parse_request(json.dumps({"contents": CONTENTS}).encode(), RequestContext("m"))
    inner = {"model": "models/m", "contents": CONTENTS, "systemInstruction": {"parts": [{"text": "s"}]}}
    body = {"generateContentRequest": {**inner, "tools": [{"functionDeclarations": [{"name": "f"}]}]}}
    whole = CLIENT.parse_request(json.dumps(body).encode(), RequestContext("m"))
    assert bare.request == Conversation(HELLO)
    assert whole.request == Conversation(HELLO, system=(Text("s"),), tools=(Tool("f"),))
    assert not bare.unread
    assert not whole.unread


def test_nothing_to_count_is_refused() -> None:
    with pytest.raises(GatewayError):
        CLIENT.parse_request(b"{}", RequestContext("m"))


def test_contents_alone_go_bare() -> None:
    found = PROVIDER.render_request(Conversation(HELLO), SETTING)
    assert found.target == b"/models/gemini-x:countTokens"
    assert json.loads(found.body) == {"contents": CONTENTS}


def test_instructions_and_tools_go_as_a_request() -> None:
    conversation = Conversation(HELLO, system=(Text("s"),), tools=(Tool("f"),), max_tokens=5)
    assert json.loads(PROVIDER.render_request(conversation, SETTING).body) == {
        "generateContentRequest": {
            "model": "models/gemini-x",
            "systemInstruction": {"parts": [{"text": "s"}]},
            "contents": CONTENTS,
            "tools": [{"functionDeclarations": [{"name": "f"}]}],
        }
    }


@pytest.mark.parametrize(
    ("body", "usage"),
    [
        (b'{"totalTokens":11}', TokenUsage(11)),
        (b'{"totalTokens":"11","cachedContentTokenCount":4}', TokenUsage(11, cache_read=4)),
        (b"{}", TokenUsage(0)),
    ],
)
def test_a_count_is_read(body: bytes, usage: TokenUsage) -> None:
    assert PROVIDER.parse_reply(body, ReplySource("seed")) == usage


@pytest.mark.parametrize("body", [b"", b"[]", b'{"totalTokens":-1}', b"<html>"])
def test_what_is_no_count_is_broken(body: bytes) -> None:
    with pytest.raises(GatewayError):
        PROVIDER.parse_reply(body, ReplySource("seed"))


def test_a_count_is_read_by_googles_sdk() -> None:
    found = CountTokensResponse.model_validate_json(
        CLIENT.render_reply(TokenUsage(11, cache_read=4), ReplyContext("r", "m", 0))
    )
    assert (found.total_tokens, found.cached_content_token_count) == (11, 4)
