"""Anthropic's messages and its token counts: the blocks of an answer, and the events that carry them.

A stream is ``message_start``, for each block its start, its deltas and its stop, then ``message_delta`` with
the stop reason and the cumulative usage, and ``message_stop``.  A ``ping`` may stand between any two (types:
``anthropic.types`` 2.x).
"""

from typing import Final

from mgw_sim.anthropic.conversation import prompt_tokens, redact, sign, text_of, tool_results
from mgw_sim.anthropic.errors import error_value, validate
from mgw_sim.anthropic.fields import VERSIONS, count_shape, messages_shape
from mgw_sim.anthropic.request import check_model, check_request
from mgw_sim.api import ApiError, Json, Request, Response, StreamResponse, json_response, sse_event
from mgw_sim.model import (
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


def messages(request: Request) -> Response:
    """``POST /v1/messages``."""
    body, lenient = request.body, "lenient" in request.faults
    if body.get("thread") is not None:
        raise ApiError(400, "thread: threads are not stored here", code="thread_unsupported_request")
    betas = request.headers.get("anthropic-beta")
    validate(body, messages_shape(_version(request), betas), lenient=lenient)
    check_request(body, interleaved="interleaved-thinking" in (betas or ""))
    check_model(request.model, body)
    prompt = _prompt(body)
    completion = complete(prompt, request.faults)
    if not body.get("stream"):
        return json_response(_message(request, prompt, completion))
    error = error_value(ApiError(529, "Overloaded"), request.id("req_"))
    return StreamResponse(tuple(_events(request, prompt, completion)), sse_event(error, "error"))


def count_tokens(request: Request) -> Response:
    """``POST /v1/messages/count_tokens``."""
    _version(request)
    validate(
        request.body, count_shape(request.headers.get("anthropic-beta")), lenient="lenient" in request.faults
    )
    check_request(request.body)
    return json_response({"input_tokens": prompt_tokens(request.body)})


def _version(request: Request) -> str:
    version = request.headers.get("anthropic-version")
    if version is None:
        raise ApiError(400, "anthropic-version: header is required")
    if version not in VERSIONS:
        raise ApiError(400, f'anthropic-version: "{version}" is not a valid version')
    return version


def _prompt(body: Json) -> Prompt:
    choice = body.get("tool_choice") or {"type": "auto"}
    last_text = next(
        (text_of(one) for one in reversed(body["messages"]) if one["role"] == "user" and text_of(one)),
        "",
    )
    return Prompt(
        text=last_text,
        tokens=prompt_tokens(body),
        tools=tuple(
            Tool(tool["name"], tool["input_schema"])
            for tool in body.get("tools") or ()
            if "input_schema" in tool
        ),
        tool_choice={"none": ToolChoice.NONE, "auto": ToolChoice.AUTO}.get(choice["type"], ToolChoice.ANY),
        allowed_tools=(choice["name"],) if choice["type"] == "tool" else (),
        parallel=not choice.get("disable_parallel_tool_use"),
        results=tool_results(body["messages"]),
        schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
        max_tokens=body["max_tokens"],
        stop_sequences=tuple(body.get("stop_sequences") or ()),
        wants_thinking=_wants_thinking(body),
    )


def _wants_thinking(body: Json) -> bool:
    kind = (body.get("thinking") or {"type": "disabled"})["type"]
    return kind in {"enabled", "adaptive"} or (
        kind == "between_tools" and bool(tool_results(body["messages"]))
    )


def _usage(request: Request, prompt: Prompt, tokens_out: int, thinking: int) -> Json:
    """Input tokens here are those that were neither read from nor written to the cache."""
    faults = request.faults
    tokens_in, tokens_out = faults.counts(prompt.tokens, tokens_out)
    read = min(faults.number("cached") or 0, tokens_in)
    minutes = min(faults.number("cache-write") or 0, tokens_in - read)
    hour = min(faults.number("cache-1h") or 0, tokens_in - read - minutes)
    searches, tier = faults.number("searches"), faults.text("served") or "standard"
    usage: Json = {
        "input_tokens": tokens_in - read - minutes - hour,
        "cache_creation_input_tokens": minutes + hour,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": minutes, "ephemeral_1h_input_tokens": hour},
        "output_tokens": tokens_out,
        "output_tokens_details": {"thinking_tokens": min(thinking, tokens_out)},
        "server_tool_use": searches and {"web_search_requests": searches, "web_fetch_requests": 0},
        "service_tier": "standard" if tier == "fast" else tier,
    }
    if tier == "fast":
        usage["speed"] = tier
    if faults.text("geo") is not None:
        usage["inference_geo"] = faults.text("geo")
    return usage


def _message(request: Request, prompt: Prompt, completion: Completion) -> Json:
    """The whole answer."""
    blocks = [block for block, _ in _blocks(request, completion)]
    token_usage = _usage(request, prompt, completion.tokens, completion.thinking_tokens)
    message: Json = {**_frame(request), "content": blocks, **_stop_fields(request, completion)}
    return message if "untold" in request.faults else {**message, "usage": token_usage}


def _events(request: Request, prompt: Prompt, completion: Completion) -> list[bytes]:
    """The answer as a stream."""
    events: list[Json] = [
        {"type": "message_start", "message": {**_frame(request), "usage": _usage(request, prompt, 1, 0)}}
    ]
    tokens_sent = 0
    for index, (block, pieces) in enumerate(_blocks(request, completion)):
        empty, deltas = _deltas(block, ["", *pieces] if pieces and "noise" in request.faults else pieces)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        if index == 0 or "noise" in request.faults:
            events.append(_PING)
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
        tokens_sent += len(pieces)
        if request.faults.usage == "each":
            events.append(_message_delta(request, prompt, min(tokens_sent, completion.tokens)))
    if "unknown" in request.faults:
        events.append({"type": "future_event", "payload": {"kind": 1}})
    if "noise" in request.faults:
        events.append(_PING)
    last_delta = _message_delta(request, prompt, completion.tokens, completion.thinking_tokens)
    events.append({**last_delta, "delta": {**_stop_fields(request, completion), "container": None}})
    events.append({"type": "message_stop"})
    if "untold" in request.faults:
        del events[0]["message"]["usage"]
        events = [{key: value for key, value in event.items() if key != "usage"} for event in events]
    encoded = [sse_event(event, event["type"]) for event in events]
    return [_COMMENT, *encoded[:2], _COMMENT, *encoded[2:]] if "noise" in request.faults else encoded


def _message_delta(request: Request, prompt: Prompt, tokens_out: int, thinking: int = 0) -> Json:
    token_usage = _usage(request, prompt, tokens_out, thinking)
    for name in ("cache_creation", "service_tier", "speed", "inference_geo"):
        token_usage.pop(name, None)
    delta = {"stop_reason": None, "stop_sequence": None, "stop_details": None, "container": None}
    return {"type": "message_delta", "delta": delta, "usage": token_usage}


def _frame(request: Request) -> Json:
    frame: Json = {
        "id": request.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
    }
    return {**frame, "future": {"kind": 1}} if "unknown" in request.faults else frame


def _stop_fields(request: Request, completion: Completion) -> Json:
    reason = request.faults.text("stop") or _STOP_REASONS[completion.finish_reason]
    explanation = "This request was declined because it could cause harm."
    refusal = {"type": "refusal", "category": "general_harms", "explanation": explanation}
    return {
        "stop_reason": reason,
        "stop_sequence": completion.stop_sequence,
        "stop_details": refusal if reason == "refusal" else None,
    }


def _blocks(request: Request, completion: Completion) -> list[tuple[Json, list[str]]]:
    """The blocks, each with the pieces in which its text comes; ``sim-unknown`` puts one more first."""
    blocks: list[tuple[Json, list[str]]] = [(_FUTURE_BLOCK, [])] if "unknown" in request.faults else []
    place = 0
    for part in completion.parts:
        match part:
            case Thinking():
                blocks.append(_thinking_block(request, part))
            case Text():
                text = {"type": "text", "text": part.text}
                blocks.append((text, tokenize(part.text)))
            case ToolCall():
                tool_use = {"type": "tool_use", "id": request.id("toolu_", f"_{place}"), "name": part.name}
                block = {**tool_use, "input": part.value, "caller": {"type": "direct"}}
                blocks.append((block, tokenize(part.arguments)))
                place += 1
    return blocks


def _thinking_block(request: Request, thinking: Thinking) -> tuple[Json, list[str]]:
    if thinking.hidden:
        return {"type": "redacted_thinking", "data": redact(thinking.text)}, []
    text = "" if (request.body.get("thinking") or {}).get("display") == "omitted" else thinking.text
    return {"type": "thinking", "thinking": text, "signature": sign(text)}, tokenize(text)


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
            input_deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
            return {**block, "input": {}}, input_deltas
        case "redacted_thinking":
            return block, []
    return block, [{"type": "future_delta", "payload": {"kind": 1}}]
