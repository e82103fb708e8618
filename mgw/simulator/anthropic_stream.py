"""The blocks of Anthropic's answers, and the events that carry them (types: ``anthropic.types`` 2.x).

A stream is ``message_start``, for each block its start, its deltas and its stop, then ``message_delta`` with
the stop reason and the cumulative usage, and ``message_stop``.  A ``ping`` may stand between any two.
"""

from typing import Final

from mgw.simulator import mind
from mgw.simulator.answer import Call, Json, sse
from mgw.simulator.anthropic_turns import redact, sign
from mgw.simulator.mind import Finish, Outcome, Prompt, Speech, Thought, ToolUse

_STOPS: Final = {
    Finish.END: "end_turn",
    Finish.STOP_SEQUENCE: "stop_sequence",
    Finish.LENGTH: "max_tokens",
    Finish.TOOLS: "tool_use",
    Finish.REFUSAL: "refusal",
    Finish.BLOCKED: "refusal",
}
_COMMENT: Final = b": still here\n\n"
_PING: Final[Json] = {"type": "ping"}
_FUTURE: Final[Json] = {"type": "future_block", "payload": {"kind": 1}}


def usage(call: Call, prompt: Prompt, tokens_out: int, thinking: int) -> Json:
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


def message(call: Call, prompt: Prompt, outcome: Outcome) -> Json:
    """The whole answer."""
    blocks = [block for block, _ in _blocks(call, outcome)]
    counted = usage(call, prompt, outcome.tokens, outcome.thinking_tokens)
    return {**_frame(call), "content": blocks, **_ending(call, outcome), "usage": counted}


def events(call: Call, prompt: Prompt, outcome: Outcome) -> list[bytes]:
    """The answer as a stream."""
    told: list[Json] = [
        {"type": "message_start", "message": {**_frame(call), "usage": usage(call, prompt, 1, 0)}}
    ]
    said = 0
    for index, (block, pieces) in enumerate(_blocks(call, outcome)):
        empty, deltas = _deltas(block, ["", *pieces] if pieces and "noise" in call.faults else pieces)
        told.append({"type": "content_block_start", "index": index, "content_block": empty})
        if index == 0 or "noise" in call.faults:
            told.append(_PING)
        told += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        told.append({"type": "content_block_stop", "index": index})
        said += len(pieces)
        if call.faults.text("usage") == "each":
            told.append(_counting(call, prompt, min(said, outcome.tokens)))
    if "unknown" in call.faults:
        told.append({"type": "future_event", "payload": {"kind": 1}})
    if "noise" in call.faults:
        told.append(_PING)
    ended = _counting(call, prompt, outcome.tokens, outcome.thinking_tokens)
    told.append({**ended, "delta": {**_ending(call, outcome), "container": None}})
    told.append({"type": "message_stop"})
    found = [sse(event, event["type"]) for event in told]
    return [_COMMENT, *found[:2], _COMMENT, *found[2:]] if "noise" in call.faults else found


def _counting(call: Call, prompt: Prompt, tokens_out: int, thinking: int = 0) -> Json:
    counted = usage(call, prompt, tokens_out, thinking)
    del counted["cache_creation"], counted["service_tier"]
    delta = {"stop_reason": None, "stop_sequence": None, "stop_details": None, "container": None}
    return {"type": "message_delta", "delta": delta, "usage": counted}


def _frame(call: Call) -> Json:
    frame: Json = {
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
    return {**frame, "future": {"kind": 1}} if "unknown" in call.faults else frame


def _ending(call: Call, outcome: Outcome) -> Json:
    reason = call.faults.text("stop") or _STOPS[outcome.finish]
    explanation = "This request was declined because it could cause harm."
    refused = {"type": "refusal", "category": "general_harms", "explanation": explanation}
    return {
        "stop_reason": reason,
        "stop_sequence": outcome.stop,
        "stop_details": refused if reason == "refusal" else None,
    }


def _blocks(call: Call, outcome: Outcome) -> list[tuple[Json, list[str]]]:
    """The blocks, each with the pieces in which its text comes; ``sim-unknown`` puts one more first."""
    found: list[tuple[Json, list[str]]] = [(_FUTURE, [])] if "unknown" in call.faults else []
    place = 0
    for part in outcome.parts:
        match part:
            case Thought():
                found.append(_thinking(call, part))
            case Speech():
                text = {"type": "text", "text": part.text}
                found.append((text, mind.tokens(part.text)))
            case ToolUse():
                made = {"type": "tool_use", "id": call.id("toolu_", f"_{place}"), "name": part.name}
                block = {**made, "input": part.value, "caller": {"type": "direct"}}
                found.append((block, mind.tokens(part.arguments)))
                place += 1
    return found


def _thinking(call: Call, thought: Thought) -> tuple[Json, list[str]]:
    if thought.hidden:
        return {"type": "redacted_thinking", "data": redact(thought.text)}, []
    shown = "" if (call.body.get("thinking") or {}).get("display") == "omitted" else thought.text
    return {"type": "thinking", "thinking": shown, "signature": sign(shown)}, mind.tokens(shown)


def _deltas(block: Json, pieces: list[str]) -> tuple[Json, list[Json]]:
    """How a block starts, and the deltas that fill it."""
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces]
        case "tool_use":  # the vendor's first piece is empty, too
            told = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
            return {**block, "input": {}}, told
        case "redacted_thinking":
            return block, []
    return block, [{"type": "future_delta", "payload": {"kind": 1}}]
