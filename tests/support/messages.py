"""Requests of the Messages API, parsed and rendered, and the simulated vendor that takes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mgw.canonical.conversation import (
    Conversation,
    Media,
    MediaKind,
    Part,
    Role,
    Signature,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.dialects.anthropic.request import parse_request, render_request
from mgw.dialects.dialect import Parsed, Rendered, RenderOptions, RequestContext
from mgw.dialects.models import Models
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Family, Kind
from mgw_sim.anthropic.conversation import redact, sign
from mgw_sim.anthropic.messages import messages as answer_of
from mgw_sim.api import Request
from mgw_sim.faults import Faults

CONTEXT = RequestContext("claude")
OLD, NEW = "2023-06-01", "2026-10-21"
MODELS = Models(())
EXTENDED, ADAPTIVE, NEWEST, FIXED = "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-5-5", "claude-opus-5"
OWN = Signature(Family.ANTHROPIC, sign("Hm."))
REDACTED = redact("Ach.")
FOREIGN = Signature(Family.GEMINI, "Zm9v")
USER, ASSISTANT, SYSTEM = Role.USER, Role.ASSISTANT, Role.SYSTEM
PNG = Media(MediaKind.IMAGE, "image/png", data="iVBORw0KGgo=")
LOOK = Tool("look", schema={"type": "object", "properties": {}})


def setting(model: str, version: str | None = None) -> RenderOptions:
    return RenderOptions(model, Kind.ANTHROPIC, MODELS.row(model, Family.ANTHROPIC), version=version)


def asked(rendered: Rendered) -> Request:
    """The request as the simulated vendor gets it, which refuses what the real one would."""
    body = json.loads(rendered.body)
    headers = {name.decode(): value.decode() for name, value in rendered.headers}
    return Request("/v1" + rendered.target.decode(), {}, headers, body, body["model"], Faults({}), 1, 0)


def parse(**changes: object) -> Parsed[Conversation]:
    """A request of one message, with these fields in addition or instead."""
    whole = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}], **changes}
    return parse_request(json.dumps(whole).encode(), CONTEXT)


def refusal(**changes: object) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        parse(**changes)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def parse_or_refuse(body: bytes) -> Parsed[Conversation] | GatewayError:
    """The request, or its refusal; nothing else may happen."""
    found: Parsed[Conversation] | GatewayError
    try:
        found = parse_request(body, CONTEXT)
    except GatewayError as error:
        found = error
    assert isinstance(found, Parsed) or found.reason is Reason.MALFORMED
    return found


def turn(role: Role, *parts: Part | str) -> Turn:
    return Turn(role, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def render(
    *turns: Turn, model: str = ADAPTIVE, version: str | None = None, **fields: Any
) -> tuple[dict[str, Any], Rendered]:
    """The body, which the vendor takes, and all the rest."""
    conversation = Conversation(turns or (turn(USER, "Hi"),), **fields)
    rendered = render_request(conversation, setting(model, version))
    body: dict[str, Any] = json.loads(rendered.body)
    answer_of(asked(rendered))
    return body, rendered


def messages(*turns: Turn, model: str = ADAPTIVE, **fields: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    body, _ = render(*turns, model=model, **fields)
    return [(message["role"], message["content"]) for message in body["messages"]]


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def call(call_id: str, arguments: str = "{}", name: str = "look") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def result(call_id: str, *parts: Text | Media | str) -> ToolResult:
    return ToolResult(call_id, tuple(Text(part) if isinstance(part, str) else part for part in parts))


def loop(*begin: Part) -> tuple[Turn, ...]:
    return (turn(USER, "go"), turn(ASSISTANT, *begin, call("1")), turn(USER, result("1", "x")))
