"""Anthropic's messages, unary and as a stream, and its token counts (types: ``anthropic.types`` 2.x)."""

import json
from typing import Final

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Refusal, Stream, sse, unary
from mgw.simulator.anthropic_errors import error_value, require
from mgw.simulator.anthropic_fields import VERSIONS, count_shape, messages_shape
from mgw.simulator.anthropic_turns import check, prompt_tokens, results, sign, text_of
from mgw.simulator.mind import Choice, Finish, Outcome, Prompt, Tool

_STOPS: Final = {
    Finish.END: "end_turn",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
    Finish.TOOLS: "tool_use",
    Finish.REFUSAL: "refusal",
}


def messages(call: Call) -> Answer:
    """``POST /v1/messages``."""
    body, lenient = call.body, "lenient" in call.faults
    require(body, messages_shape(_version(call), beta="anthropic-beta" in call.headers), lenient=lenient)
    check(body)
    prompt = _prompt(body)
    outcome = mind.answer(prompt, call.faults)
    if not body.get("stream"):
        return unary(_message(call, prompt, outcome))
    broken = error_value(Refusal(529, "Overloaded"), call.id("req_"))
    return Stream(tuple(_events(call, prompt, outcome)), sse(broken, "error"))


def count_tokens(call: Call) -> Answer:
    """``POST /v1/messages/count_tokens``."""
    _version(call)
    require(call.body, count_shape(beta="anthropic-beta" in call.headers), lenient="lenient" in call.faults)
    check(call.body)
    return unary({"input_tokens": prompt_tokens(call.body)})


def _version(call: Call) -> str:
    version = call.headers.get("anthropic-version")
    if version is None:
        raise Refusal(400, "anthropic-version: header is required")
    if version not in VERSIONS:
        raise Refusal(400, f'anthropic-version: "{version}" is not a valid version')
    return version


def _prompt(body: Json) -> Prompt:
    choice = body.get("tool_choice") or {"type": "auto"}
    said = next(
        (
            text_of(message)
            for message in reversed(body["messages"])
            if message["role"] == "user" and text_of(message)
        ),
        "",
    )
    return Prompt(
        text=said,
        tokens=prompt_tokens(body),
        tools=tuple(
            Tool(tool["name"], tool["input_schema"])
            for tool in body.get("tools") or ()
            if "input_schema" in tool
        ),
        choice={"none": Choice.NONE, "auto": Choice.AUTO}.get(choice["type"], Choice.ANY),
        allowed=(choice["name"],) if choice["type"] == "tool" else (),
        parallel=not choice.get("disable_parallel_tool_use"),
        results=results(body["messages"]),
        schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
        max_tokens=body["max_tokens"],
        stops=tuple(body.get("stop_sequences") or ()),
        thinks=_thinks(body),
    )


def _thinks(body: Json) -> bool:
    return (body.get("thinking") or {"type": "disabled"})["type"] in {"enabled", "adaptive"}


def _usage(call: Call, prompt: Prompt, tokens_out: int, thinking: int) -> Json:
    """Input tokens here are those that were neither read from nor written to the cache."""
    read = min(call.faults.number("cached") or 0, prompt.tokens)
    written = min(call.faults.number("cache-write") or 0, prompt.tokens - read)
    return {
        "input_tokens": prompt.tokens - read - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"thinking_tokens": thinking},
        "server_tool_use": None,
        "service_tier": "standard",
    }


def _blocks(call: Call, outcome: Outcome) -> list[Json]:
    blocks: list[Json] = []
    if _thinks(call.body) and outcome.finish is not Finish.REFUSAL:
        shown = "" if call.body["thinking"].get("display") == "omitted" else outcome.thinking
        blocks.append({"type": "thinking", "thinking": shown, "signature": sign(shown)})
    if outcome.text:
        blocks.append({"type": "text", "text": outcome.text, "citations": None})
    for place, use in enumerate(outcome.uses):
        made = {"type": "tool_use", "id": call.id("toolu_", f"_{place}"), "name": use.name}
        blocks.append({**made, "input": json.loads(use.arguments), "caller": {"type": "direct"}})
    return blocks


def _frame(call: Call) -> Json:
    return {
        "id": call.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }


def _ending(outcome: Outcome) -> Json:
    refused = {"type": "refusal", "category": None, "explanation": None}
    return {
        "stop_reason": _STOPS[outcome.finish],
        "stop_sequence": outcome.stop,
        "stop_details": refused if outcome.finish is Finish.REFUSAL else None,
    }


def _message(call: Call, prompt: Prompt, outcome: Outcome) -> Json:
    usage = _usage(call, prompt, outcome.tokens, outcome.thinking_tokens)
    return {**_frame(call), "content": _blocks(call, outcome), **_ending(outcome), "usage": usage}


def _events(call: Call, prompt: Prompt, outcome: Outcome) -> list[bytes]:
    """message_start, the blocks with a ping after the first start, message_delta, message_stop."""
    started = {**_frame(call), "usage": _usage(call, prompt, 1, 0)}
    events: list[Json] = [{"type": "message_start", "message": started}]
    for index, block in enumerate(_blocks(call, outcome)):
        empty, deltas = _deltas(block, outcome)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        if index == 0:
            events.append({"type": "ping"})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    usage = _usage(call, prompt, outcome.tokens, outcome.thinking_tokens)
    del usage["cache_creation"], usage["service_tier"]
    events.append({"type": "message_delta", "delta": {**_ending(outcome), "container": None}, "usage": usage})
    events.append({"type": "message_stop"})
    return [sse(event, event["type"]) for event in events]


def _deltas(block: Json, outcome: Outcome) -> tuple[Json, list[Json]]:
    """How a block starts, and the deltas that fill it."""
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": word} for word in mind.tokens(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "text":
            return {**block, "text": ""}, [
                {"type": "text_delta", "text": word} for word in mind.tokens(block["text"])
            ]
    place = int(block["id"].rpartition("_")[2])
    pieces = ["", *mind.tokens(outcome.uses[place].arguments)]  # the vendor's first piece is empty, too
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
