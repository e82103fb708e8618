"""Long loops of tool use with thinking: each provider gets its own back through all other wires."""

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
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import DialectName, Kind

STEPS: Final = 12
CHAT: Final = DialectName.OPENAI_CHAT
RESPONSES: Final = DialectName.OPENAI_RESPONSES
ANTHROPIC: Final = DialectName.ANTHROPIC
GEMINI: Final = DialectName.GEMINI
DIALECTS: Final = (CHAT, RESPONSES, ANTHROPIC, GEMINI)
MODELS: Final = {
    CHAT: ("gpt-oss-120b", Kind.OPENAI_COMPAT),
    RESPONSES: ("gpt-5.6", Kind.OPENAI),
    ANTHROPIC: ("claude-opus-5-5", Kind.ANTHROPIC),
    GEMINI: ("gemini-3-pro", Kind.GEMINI),
}
PAIRS: Final = [(client, provider) for client in DIALECTS for provider in DIALECTS if client is not provider]
SCHEMA: Final = {"type": "object", "properties": {"n": {"type": "integer"}}}


def signed(step: int) -> str:
    return base64.b64encode(b"signature %03d" % step).decode()


def signature(provider: DialectName, step: int) -> Signature:
    if provider is RESPONSES:
        return Signature(provider.family, f"rs_{step}:{signed(step)}")
    if provider is CHAT:  # a host's entry without its words
        entry = {"type": "reasoning.text", "signature": signed(step), "format": "host-v1"}
        return Signature(provider.family, json.dumps(entry))
    return Signature(provider.family, signed(step))


def reply(provider: DialectName, step: int) -> Reply:
    """A step of the loop: a thought, every other time some words, one call or two."""
    parts: list[Any] = [Thinking(f"Thought {step}.\n", signature(provider, step))]
    if step % 2:
        parts.append(Text(f"Words {step}."))
    parts.append(ToolCall(f"call_{step}", "look", json.dumps({"n": step})))
    if step % 3 == 0:
        parts.append(ToolCall(f"call_{step}b", "look", "{}"))
    return Reply((Candidate(tuple(parts), StopReason.TOOL_USE),), f"id{step}", "m")


def row_of(model: str, provider: DialectName) -> ModelRow:
    row = Models().row(model, provider.family)
    return row.on_responses if provider is RESPONSES else row


class History:
    """What a client of a dialect keeps, and sends."""

    def __init__(self, dialect: DialectName) -> None:
        self.dialect = dialect
        self.turns: list[Any] = []

    def begin(self) -> None:
        if self.dialect is GEMINI:
            self.turns.append({"role": "user", "parts": [{"text": "go"}]})
        else:
            self.turns.append({"role": "user", "content": "go"})

    def hear(self, body: dict[str, Any]) -> None:
        """Keep an answer, and answer its calls."""
        if self.dialect is RESPONSES:
            self.turns += body["output"]
            calls = [item["call_id"] for item in body["output"] if item["type"] == "function_call"]
            self.turns += [{"type": "function_call_output", "call_id": one, "output": "42"} for one in calls]
            return
        if self.dialect is CHAT:
            message = body["choices"][0]["message"]
            self.turns.append(message)
            self.turns += [
                {"role": "tool", "tool_call_id": call["id"], "content": "42"}
                for call in message["tool_calls"]
            ]
        elif self.dialect is ANTHROPIC:
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
        if self.dialect is CHAT:
            tools = [{"type": "function", "function": {"name": "look", "parameters": SCHEMA}}]
            return json.dumps({"model": "m", "messages": self.turns, "tools": tools}).encode()
        if self.dialect is RESPONSES:
            function = {"type": "function", "name": "look", "parameters": SCHEMA}
            return json.dumps({"model": "m", "input": self.turns, "tools": [function]}).encode()
        if self.dialect is ANTHROPIC:
            tools = [{"name": "look", "input_schema": SCHEMA}]
            asked = {"model": "m", "max_tokens": 9000, "messages": self.turns, "tools": tools}
            return json.dumps(asked).encode()
        functions = [{"name": "look", "parametersJsonSchema": SCHEMA}]
        return json.dumps({"contents": self.turns, "tools": [{"functionDeclarations": functions}]}).encode()


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_every_thought_of_a_long_loop_comes_back_as_it_was(
    client: DialectName, provider: DialectName
) -> None:
    model, kind = MODELS[provider]
    setting = RenderOptions(model, kind, row_of(model, provider))
    asking, asked = client_side_of(client).text, provider_side_of(provider).text
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
        if provider not in {GEMINI, RESPONSES}:  # which take the signature alone
            words = [sent.find(f"Thought {one}.") for one in range(step + 1)]
            assert -1 not in words


@pytest.mark.parametrize(("client", "provider"), PAIRS)
def test_no_thought_reaches_another_provider(client: DialectName, provider: DialectName) -> None:
    asking = client_side_of(client).text
    history = History(client)
    history.begin()
    history.hear(json.loads(asking.render_reply(reply(provider, 1), ReplyContext("r1", "m", 0))))
    parsed = asking.parse_request(history.body(), RequestContext("m"))
    for other in DIALECTS:
        model, kind = MODELS[other]
        setting = RenderOptions(model, kind, row_of(model, other))
        rendered = provider_side_of(other).text.render_request(parsed.request, setting)
        assert (signed(1) in rendered.body.decode()) is (other is provider)
        if other is provider or other.family is not provider.family:  # which may take the words alone
            assert bool(parsed.dropped(rendered)) is (other is not provider)


ALTERED: Final = {
    CHAT: "messages[].reasoning_details",
    ANTHROPIC: "messages[].content[thinking]",
    GEMINI: "contents[].parts[thought]",
}


ALTERABLE: Final = [pair for pair in PAIRS if pair[0] in ALTERED and pair != (GEMINI, RESPONSES)]
"""Where words and signature go together: calls of Gemini's clients carry those of OpenAI's thoughts alone."""


def altered(dialect: DialectName, turn: dict[str, Any], words: str, others: str) -> None:
    """Let a client put other words in place of a thought's, wherever it keeps them."""
    if dialect is CHAT:
        turn["reasoning_content"] = turn["reasoning_content"].replace(words, others)
        for detail in turn["reasoning_details"]:
            detail["text"] = detail["text"].replace(words, others)
    elif dialect is ANTHROPIC:
        for block in turn["content"]:
            if block["type"] == "thinking":
                block["thinking"] = block["thinking"].replace(words, others)
    else:
        for part in turn["parts"]:
            if part.get("thought"):
                part["text"] = part["text"].replace(words, others)


@pytest.mark.parametrize(("client", "provider"), ALTERABLE)
@pytest.mark.parametrize("others", ["", "A thought", "Though", "Thought 1. ", "I never thought that.\n"])
def test_a_thought_that_its_client_altered_is_left_out_and_told(
    client: DialectName, provider: DialectName, others: str
) -> None:
    model, kind = MODELS[provider]
    setting = RenderOptions(model, kind, row_of(model, provider))
    asking, asked = client_side_of(client).text, provider_side_of(provider).text
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
