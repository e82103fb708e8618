"""Long loops of tool use with thinking: each family gets its own thoughts back through every other's wire."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

import pytest

from mgw.canonical.conversation import Signature, Text, Thinking, ToolCall
from mgw.canonical.reply import Candidate, Reply, StopReason
from mgw.dialects import client_side_of, provider_side_of
from mgw.dialects.dialect import RenderOptions, ReplyContext, RequestContext
from mgw.dialects.models import Models
from mgw.families import text_dialect
from mgw.vocabulary import Family, Kind

STEPS: Final = 12
MODELS: Final = {
    Family.OPENAI: ("gpt-oss-120b", Kind.OPENAI_COMPAT),
    Family.ANTHROPIC: ("claude-opus-5-5", Kind.ANTHROPIC),
    Family.GEMINI: ("gemini-3-pro", Kind.GEMINI),
}
PAIRS: Final = [(client, provider) for client in Family for provider in Family if client is not provider]
SCHEMA: Final = {"type": "object", "properties": {"n": {"type": "integer"}}}


def signed(step: int) -> str:
    return base64.b64encode(b"signature %03d" % step).decode()


def signature(provider: Family, step: int) -> Signature:
    if provider is Family.OPENAI:  # a host's entry without its words
        entry = {"type": "reasoning.text", "signature": signed(step), "format": "host-v1"}
        return Signature(provider, json.dumps(entry))
    return Signature(provider, signed(step))


def reply(provider: Family, step: int) -> Reply:
    """A step of the loop: a thought, every other time some words, one call or two."""
    parts: list[Any] = [Thinking(f"Thought {step}.\n", signature(provider, step))]
    if step % 2:
        parts.append(Text(f"Words {step}."))
    parts.append(ToolCall(f"call_{step}", "look", json.dumps({"n": step})))
    if step % 3 == 0:
        parts.append(ToolCall(f"call_{step}b", "look", "{}"))
    return Reply((Candidate(tuple(parts), StopReason.TOOL_USE),), f"id{step}", "m")


class History:
    """What a client of a family keeps, and sends."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.turns: list[Any] = []

    def begin(self) -> None:
        if self.family is Family.GEMINI:
            self.turns.append({"role": "user", "parts": [{"text": "go"}]})
        else:
            self.turns.append({"role": "user", "content": "go"})

    def hear(self, body: dict[str, Any]) -> None:
        """Keep an answer, and answer its calls."""
        if self.family is Family.OPENAI:
            message = body["choices"][0]["message"]
            self.turns.append(message)
            self.turns += [
                {"role": "tool", "tool_call_id": call["id"], "content": "42"}
                for call in message["tool_calls"]
            ]
        elif self.family is Family.ANTHROPIC:
            self.turns.append({"role": "assistant", "content": body["content"]})
            calls = [block["id"] for block in body["content"] if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": one, "content": "42"} for one in calls]
            self.turns.append({"role": "user", "content": results})
        else:
            content = body["candidates"][0]["content"]
            self.turns.append(content)
            calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
            results = [
                {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"result": "42"}}}
                for call in calls
            ]
            self.turns.append({"role": "user", "parts": results})

    def body(self) -> bytes:
        if self.family is Family.OPENAI:
            tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
            return json.dumps({"model": "m", "messages": self.turns, "tools": tools}).encode()
        if self.family is Family.ANTHROPIC:
            tools = [{"name": "look", "input_schema": SCHEMA}]
            asked = {"model": "m", "max_tokens": 9000, "messages": self.turns, "tools": tools}
            return json.dumps(asked).encode()
        functions = [{"name": "look", "parametersJsonSchema": SCHEMA}]
        return json.dumps({"contents": self.turns, "tools": [{"functionDeclarations": functions}]}).encode()


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_every_thought_of_a_long_loop_comes_back_as_it_was(client: Family, provider: Family) -> None:
    model, kind = MODELS[provider]
    setting = RenderOptions(model, kind, Models().row(model, provider))
    asking, asked = client_side_of(text_dialect(client)).text, provider_side_of(text_dialect(provider)).text
    history = History(client)
    history.begin()
    for step in range(STEPS):
        answer = asking.render_reply(reply(provider, step), ReplyContext(f"r{step}", "m", 0))
        history.hear(json.loads(answer))
        parsed = asking.parse_request(history.body(), RequestContext("m"))
        rendered = asked.render_request(parsed.request, setting)
        assert not parsed.dropped(rendered)
        sent = rendered.body.decode()
        places = [sent.find(signed(one)) for one in range(step + 1)]
        assert -1 not in places
        assert places == sorted(places)
        if provider is not Family.GEMINI:  # which keeps a signature with the call that it is for
            words = [sent.find(f"Thought {one}.") for one in range(step + 1)]
            assert -1 not in words


ALTERED: Final = {
    Family.OPENAI: "messages[].reasoning_details",
    Family.ANTHROPIC: "messages[].content[thinking]",
    Family.GEMINI: "contents[].parts[thought]",
}


def altered(family: Family, turn: dict[str, Any], words: str, others: str) -> None:
    """Let a client put other words in place of a thought's, wherever it keeps them."""
    if family is Family.OPENAI:
        turn["reasoning_content"] = turn["reasoning_content"].replace(words, others)
        for detail in turn["reasoning_details"]:
            detail["text"] = detail["text"].replace(words, others)
    elif family is Family.ANTHROPIC:
        for block in turn["content"]:
            if block["type"] == "thinking":
                block["thinking"] = block["thinking"].replace(words, others)
    else:
        for part in turn["parts"]:
            if part.get("thought"):
                part["text"] = part["text"].replace(words, others)


@pytest.mark.parametrize(("client", "provider"), PAIRS)
@pytest.mark.parametrize("others", ["", "A thought", "Though", "Thought 1. ", "I never thought that.\n"])
def test_a_thought_that_its_client_altered_is_left_out_and_told(
    client: Family, provider: Family, others: str
) -> None:
    model, kind = MODELS[provider]
    setting = RenderOptions(model, kind, Models().row(model, provider))
    asking, asked = client_side_of(text_dialect(client)).text, provider_side_of(text_dialect(provider)).text
    history = History(client)
    history.begin()
    for step in range(4):
        answer = asking.render_reply(reply(provider, step), ReplyContext(f"r{step}", "m", 0))
        history.hear(json.loads(answer))
    spoken = [turn for turn in history.turns if turn["role"] in {"assistant", "model"}]
    altered(client, spoken[1], "Thought 1.\n", others)
    parsed = asking.parse_request(history.body(), RequestContext("m"))
    rendered = asked.render_request(parsed.request, setting)
    sent = rendered.body.decode()
    assert [signed(step) in sent for step in range(4)] == [True, False, True, True]
    assert "never thought" not in sent
    assert ALTERED[client] in parsed.dropped(rendered)
