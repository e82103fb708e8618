"""Requests of clients of chat completions, parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.conversation import Conversation, Turn
from mgw.dialects.dialect import Parsed, RequestContext
from mgw.dialects.openai.request import parse_request
from mgw.nouns.errors import GatewayError, Reason

Json = Any  # Any: JSON as a client writes it

HI = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


def parsed(*messages: Json, **fields: Json) -> Parsed[Conversation]:
    body = {"model": "m", "messages": list(messages) or [HI], **fields}
    return parse_request(json.dumps(body).encode(), RequestContext("m"))


def turns(*messages: Json) -> tuple[Turn, ...]:
    return parsed(*messages).request.turns


def refused(*messages: Json, **fields: Json) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        parsed(*messages, **fields)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value
