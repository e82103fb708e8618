"""Anthropic's messages and its token counts: the blocks of an answer, and the events that carry them.

A stream is ``message_start``, for each block its start, its deltas and its stop, then ``message_delta`` with
the stop reason and the cumulative usage, and ``message_stop``.  A ``ping`` may stand between any two (types:
``anthropic.types`` 2.x).
"""

from typing import Final

from mgw.simulator.anthropic.conversation import prompt_tokens, redact, sign, text_of, tool_results
from mgw.simulator.anthropic.errors import error_value, validate
from mgw.simulator.anthropic.fields import VERSIONS, count_shape, messages_shape
from mgw.simulator.anthropic.request import check_model, check_request
from mgw.simulator.api import ApiError, Json, Request, Response, StreamResponse, json_response, sse_event
from mgw.simulator.model import (
    Completion,
    FinishReason,
    Prompt,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    complete,
    tokenize,
)

_STOP_REASONS: Final = {
    FinishReason.END: "end_turn",
    FinishReason.STOP_SEQUENCE: "stop_sequence",
    FinishReason.LENGTH: "max_tokens",
    FinishReason.TOOLS: "tool_use",
    FinishReason.REFUSAL: "refusal",
    FinishReason.BLOCKED: "refusal",
}
_COMMENT: Final = b": still here\n\n"
_PING: Final[Json] = {"type": "ping"}
_FUTURE_BLOCK: Final[Json] = {"type": "future_block", "payload": {"kind": 1}}


def messages(call: Request) -> Response:
    """``POST /v1/messages``."""
    body, lenient = call.body, "lenient" in call.faults
    if body.get("thread") is not None:
        raise ApiError(400, "thread: no threads are held here", code="thread_unsupported_request")
    betas = call.headers.get("anthropic-beta")
    validate(body, messages_shape(_version(call), betas), lenient=lenient)
    check_request(body, interleaved="interleaved-thinking" in (betas or ""))
    check_model(call.model, body)
    prompt = _prompt(body)
    outcome = complete(prompt, call.faults)
    if not body.get("stream"):
        return json_response(_message(call, prompt, outcome))
    broken = error_value(ApiError(529, "Overloaded"), call.id("req_"))
    return StreamResponse(tuple(_events(call, prompt, outcome)), sse_event(broken, "error"))


def count_tokens(call: Request) -> Response:
    """``POST /v1/messages/count_tokens``."""
    _version(call)
    validate(call.body, count_shape(call.headers.get("anthropic-beta")), lenient="lenient" in call.faults)
    check_request(call.body)
    return json_response({"input_tokens": prompt_tokens(call.body)})


def _version(call: Request) -> str:
    version = call.headers.get("anthropic-version")
    if version is None:
        raise ApiError(400, "anthropic-version: header is required")
    if version not in VERSIONS:
        raise ApiError(400, f'anthropic-version: "{version}" is not a valid version')
    return version


def _prompt(body: Json) -> Prompt:
    choice = body.get("tool_choice") or {"type": "auto"}
    said = next(
        (text_of(one) for one in reversed(body["messages"]) if one["role"] == "user" and text_of(one)),
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
        choice={"none": ToolChoice.NONE, "auto": ToolChoice.AUTO}.get(choice["type"], ToolChoice.ANY),
        allowed=(choice["name"],) if choice["type"] == "tool" else (),
        parallel=not choice.get("disable_parallel_tool_use"),
        results=tool_results(body["messages"]),
        schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
        max_tokens=body["max_tokens"],
        stops=tuple(body.get("stop_sequences") or ()),
        thinks=_wants_thinking(body),
    )


def _wants_thinking(body: Json) -> bool:
    kind = (body.get("thinking") or {"type": "disabled"})["type"]
    return kind in {"enabled", "adaptive"} or (
        kind == "between_tools" and bool(tool_results(body["messages"]))
    )


def _usage(call: Request, prompt: Prompt, tokens_out: int, thinking: int) -> Json:
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


def _message(call: Request, prompt: Prompt, outcome: Completion) -> Json:
    """The whole answer."""
    blocks = [block for block, _ in _blocks(call, outcome)]
    counted = _usage(call, prompt, outcome.tokens, outcome.thinking_tokens)
    return {**_frame(call), "content": blocks, **_stop_fields(call, outcome), "usage": counted}


def _events(call: Request, prompt: Prompt, outcome: Completion) -> list[bytes]:
    """The answer as a stream."""
    told: list[Json] = [
        {"type": "message_start", "message": {**_frame(call), "usage": _usage(call, prompt, 1, 0)}}
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
            told.append(_message_delta(call, prompt, min(said, outcome.tokens)))
    if "unknown" in call.faults:
        told.append({"type": "future_event", "payload": {"kind": 1}})
    if "noise" in call.faults:
        told.append(_PING)
    ended = _message_delta(call, prompt, outcome.tokens, outcome.thinking_tokens)
    told.append({**ended, "delta": {**_stop_fields(call, outcome), "container": None}})
    told.append({"type": "message_stop"})
    found = [sse_event(event, event["type"]) for event in told]
    return [_COMMENT, *found[:2], _COMMENT, *found[2:]] if "noise" in call.faults else found


def _message_delta(call: Request, prompt: Prompt, tokens_out: int, thinking: int = 0) -> Json:
    counted = _usage(call, prompt, tokens_out, thinking)
    del counted["cache_creation"], counted["service_tier"]
    delta = {"stop_reason": None, "stop_sequence": None, "stop_details": None, "container": None}
    return {"type": "message_delta", "delta": delta, "usage": counted}


def _frame(call: Request) -> Json:
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


def _stop_fields(call: Request, outcome: Completion) -> Json:
    reason = call.faults.text("stop") or _STOP_REASONS[outcome.finish]
    explanation = "This request was declined because it could cause harm."
    refused = {"type": "refusal", "category": "general_harms", "explanation": explanation}
    return {
        "stop_reason": reason,
        "stop_sequence": outcome.stop,
        "stop_details": refused if reason == "refusal" else None,
    }


def _blocks(call: Request, outcome: Completion) -> list[tuple[Json, list[str]]]:
    """The blocks, each with the pieces in which its text comes; ``sim-unknown`` puts one more first."""
    found: list[tuple[Json, list[str]]] = [(_FUTURE_BLOCK, [])] if "unknown" in call.faults else []
    place = 0
    for part in outcome.parts:
        match part:
            case Thinking():
                found.append(_thinking_block(call, part))
            case Text():
                text = {"type": "text", "text": part.text}
                found.append((text, tokenize(part.text)))
            case ToolCall():
                made = {"type": "tool_use", "id": call.id("toolu_", f"_{place}"), "name": part.name}
                block = {**made, "input": part.value, "caller": {"type": "direct"}}
                found.append((block, tokenize(part.arguments)))
                place += 1
    return found


def _thinking_block(call: Request, thought: Thinking) -> tuple[Json, list[str]]:
    if thought.hidden:
        return {"type": "redacted_thinking", "data": redact(thought.text)}, []
    shown = "" if (call.body.get("thinking") or {}).get("display") == "omitted" else thought.text
    return {"type": "thinking", "thinking": shown, "signature": sign(shown)}, tokenize(shown)


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
