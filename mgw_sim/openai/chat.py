"""OpenAI's chat completions, whole and as a stream of chunks (types: ``openai.types.chat`` 3.x).

The order of a choice: the role, then the parts of the answer as they come, then an empty delta with the
finish reason.  ``sim-interleave`` lets calls that stand together take turns, and choices as well.  A chat is
stored, with its messages, where ``store`` says so.
"""

from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mgw_sim.api import (
    ApiError,
    Json,
    Request,
    Response,
    StreamResponse,
    UnaryResponse,
    json_response,
    sse_event,
)
from mgw_sim.model import Completion, FinishReason, Prompt, Text, Thinking, ToolCall, complete, tokenize
from mgw_sim.openai.chat_request import REQUEST, check_model, check_request, read_prompt
from mgw_sim.openai.chat_templates import check_template
from mgw_sim.openai.errors import error_value, validate

DONE: Final = b"data: [DONE]\n\n"
COMMENT: Final = b": still here\n\n"
_FINISH_REASONS: Final = {
    FinishReason.END: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOLS: "tool_calls",
    FinishReason.REFUSAL: "stop",
    FinishReason.BLOCKED: "content_filter",
}


def chat(request: Request) -> Response:
    """``POST /v1/chat/completions``."""
    body = request.body
    validate(body, REQUEST, lenient="lenient" in request.faults)
    check_request(body)
    if "template-strict" in request.faults:
        check_template(request.model, body["messages"])
    check_model(request.model, body)
    prompt = _prompt(request)
    completions = [
        complete(replace(prompt, candidate=index), request.faults) for index in range(body.get("n") or 1)
    ]
    if not body.get("stream"):
        return json_response(_completion(request, prompt, completions))
    error = ApiError(500, "The server broke.")
    error_body = error_chunk(request, error) if "odd-error" in request.faults else error_value(error)
    return StreamResponse(tuple(chunks(request, prompt, completions)), sse_event(error_body))


def _prompt(request: Request) -> Prompt:
    """What the answer depends on; a host that shows its thinking thinks unless it is told not to."""
    prompt = read_prompt(request.body)
    wants_thinking = prompt.wants_thinking or (
        shows_thinking(request) and request.body.get("reasoning_effort") is None
    )
    return replace(prompt, wants_thinking=wants_thinking)


def _completion(request: Request, prompt: Prompt, completions: list[Completion]) -> Json:
    body: Json = {
        "id": request.id("chatcmpl-"),
        "object": "chat.completion",
        "created": request.now,
        "model": request.model,
        "choices": [_choice(request, index, completion) for index, completion in enumerate(completions)],
        "usage": usage(request, prompt, completions),
        "service_tier": service_tier(request),
        "system_fingerprint": "fp_sim",
    }
    if request.faults.usage == "none":
        del body["usage"]
    return {**body, "future": {"kind": 1}} if "unknown" in request.faults else body


def _choice(request: Request, index: int, completion: Completion) -> Json:
    is_refusal = completion.finish_reason is FinishReason.REFUSAL
    message: Json = {
        "role": "assistant",
        "content": None if is_refusal or (completion.tool_calls and not completion.text) else completion.text,
        "refusal": completion.text if is_refusal else None,
        "annotations": [],
    }
    if completion.thinking and shows_thinking(request):
        message["reasoning_content"] = completion.thinking
    if "unknown" in request.faults:
        message["future"] = {"kind": 1}
    if completion.tool_calls:
        message["tool_calls"] = [
            {
                "id": tool_call_id(request, index, place),
                "type": "function",
                "function": {"name": tool_call.name, "arguments": tool_call.arguments},
            }
            for place, tool_call in enumerate(completion.tool_calls)
        ]
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs(request, tokenize(completion.text), is_refusal=is_refusal),
        "finish_reason": finish_reason(request, completion),
    }


def chat_and_store(request: Request) -> Response:
    """``POST /v1/chat/completions``."""
    response = chat(request)
    if request.body.get("store") is True:
        whole_response = response
        if isinstance(response, StreamResponse):
            unstreamed = {
                name: value for name, value in request.body.items() if not name.startswith("stream")
            }
            whole_response = chat(msgspec.structs.replace(request, body=unstreamed))
        if isinstance(whole_response, UnaryResponse):
            _store_chat(request, msgspec.json.decode(whole_response.body))
    return response


def _store_chat(request: Request, chat_completion: Json) -> None:
    family, name = request.family.value, chat_completion["id"]
    chat_completion["metadata"] = request.body.get("metadata") or {}
    request.store.put((family, "/chat/completions", name), chat_completion)
    for index, message in enumerate(request.body["messages"]):
        one = {"id": f"{name}-{index}", "name": None, "content_parts": None, **message}
        request.store.put((family, f"/chat/completions/{name}/messages", one["id"]), one)


def finish_reason(request: Request, completion: Completion) -> str:
    """Why a choice ends, or what ``sim-stop`` says."""
    return request.faults.text("stop") or _FINISH_REASONS[completion.finish_reason]


def shows_thinking(request: Request) -> bool:
    """Whether this host has ``reasoning_content``; OpenAI itself has not."""
    return "reasoning" in request.faults


def tool_call_id(request: Request, index: int, place: int) -> str:
    """The identifier of a choice's call."""
    return request.id("call_", f"_{index}_{place}")


def error_chunk(request: Request, api_error: ApiError) -> Json:
    """An error in a stream as aggregators write it: a chunk without choices that has an ``error``."""
    return {**_frame(request), "choices": [], **error_value(api_error)}


def usage(request: Request, prompt: Prompt, completions: list[Completion]) -> Json:
    """Tokens; those read from the cache are part of the prompt's."""
    thinking_tokens = sum(completion.thinking_tokens for completion in completions)
    tokens_in, tokens_out = request.faults.counts(
        prompt.tokens, sum(completion.tokens for completion in completions)
    )
    return _usage(request, replace(prompt, tokens=tokens_in), tokens_out, min(thinking_tokens, tokens_out))


def service_tier(request: Request) -> str:
    """The tier that serves a request."""
    return request.faults.text("served") or "default"


def _usage(request: Request, prompt: Prompt, output_tokens: int, thinking_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt.tokens,
        "completion_tokens": output_tokens,
        "total_tokens": prompt.tokens + output_tokens,
        "prompt_tokens_details": {
            "cached_tokens": min(request.faults.number("cached") or 0, prompt.tokens),
            "cache_write_tokens": request.faults.number("cache-write") or 0,
            "audio_tokens": request.faults.number("audio") or 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": thinking_tokens,
            "audio_tokens": request.faults.number("audio", place=1) or 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def logprobs(request: Request, words: list[str], *, is_refusal: bool = False) -> Json | None:
    """Made-up probabilities, one per token, with as many alternatives as are asked for."""
    if not request.body.get("logprobs"):
        return None
    alternatives = request.body.get("top_logprobs") or 0
    tokens = [
        {**_logprob(word, 0), "top_logprobs": [_logprob(word, place) for place in range(alternatives)]}
        for word in words
    ]
    return {"content": None, "refusal": tokens} if is_refusal else {"content": tokens, "refusal": None}


def _logprob(word: str, place: int) -> Json:
    token = f"{word}~{place}" if place else word
    return {"token": token, "logprob": -0.25 - place, "bytes": list(token.encode())}


def chunks(request: Request, prompt: Prompt, completions: list[Completion]) -> list[bytes]:
    """The stream."""
    by_choice = [_choices(request, index, completion) for index, completion in enumerate(completions)]
    choices = (
        _interleave(by_choice)
        if "interleave" in request.faults
        else [one for turn in by_choice for one in turn]
    )
    usage_mode = request.faults.usage
    wants_usage = bool((request.body.get("stream_options") or {}).get("include_usage")) and usage_mode is None
    total = usage(request, prompt, completions)
    events = [sse_event({**_frame(request), "choices": [], "prompt_filter_results": []})] * (
        "noise" in request.faults
    )
    for place, choice in enumerate(choices):
        chunk: Json = {**_frame(request), "choices": [choice]}
        if wants_usage:
            chunk["usage"] = None
        if usage_mode == "each" and place < len(choices) - 1:
            chunk["usage"] = _usage(request, prompt, min(place, total["completion_tokens"]), 0)
        if usage_mode in {"each", "last"} and place == len(choices) - 1:
            chunk["usage"] = total
        events.append(sse_event(chunk))
    if wants_usage:
        events.append(sse_event({**_frame(request), "choices": [], "usage": total}))
    if "unknown" in request.faults:
        events.insert(1, sse_event({**_frame(request), "object": "chat.completion.future", "choices": []}))
    return [*_with_comments(request, events), DONE]


def _with_comments(request: Request, events: list[bytes]) -> list[bytes]:
    return [COMMENT, *events[:2], COMMENT, *events[2:]] if "noise" in request.faults else events


def _frame(request: Request) -> Json:
    frame: Json = {
        "id": request.id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": request.now,
        "model": request.model,
        "service_tier": service_tier(request),
        "system_fingerprint": "fp_sim",
    }
    return {**frame, "future": {"kind": 1}} if "unknown" in request.faults else frame


def _choices(request: Request, index: int, completion: Completion) -> list[Json]:
    is_refusal = completion.finish_reason is FinishReason.REFUSAL
    choices: list[Json] = [
        {
            "index": index,
            "delta": delta,
            "logprobs": logprobs(request, [_word(delta)], is_refusal=is_refusal) if _word(delta) else None,
            "finish_reason": None,
        }
        for delta in _deltas(request, index, completion)
    ]
    choices[-1]["finish_reason"] = finish_reason(request, completion)
    return choices


def _word(delta: Json) -> str:
    return delta.get("content") or delta.get("refusal") or ""


def _deltas(request: Request, index: int, completion: Completion) -> list[Json]:
    """The deltas of one choice: the role first, an empty one last."""
    content = None if completion.tool_calls and not completion.text else ""
    deltas: list[Json] = [{"role": "assistant", "content": content, "refusal": None}]
    if "unknown" in request.faults:
        deltas.append({"future": {"kind": 1}})
    place = 0
    for kind, group in groupby(completion.parts, type):
        parts = list(group)
        if kind is ToolCall:
            deltas += _tool_deltas(request, index, place, parts)
            place += len(parts)
        else:
            deltas += [delta for part in parts for delta in _text_deltas(request, completion, part)]
    quiet: list[Json] = [{"content": ""}, {}] if "noise" in request.faults else []
    return [*deltas, *quiet, {}]


def _text_deltas(request: Request, completion: Completion, part: Any) -> list[Json]:  # a Thought or a Speech
    match part:
        case Thinking(hidden=False) if shows_thinking(request):
            name = "reasoning_content"
        case Text():
            name = "refusal" if completion.finish_reason is FinishReason.REFUSAL else "content"
        case _:
            return []
    return [{name: word} for word in tokenize(part.text)]


def _tool_deltas(request: Request, index: int, first: int, tool_calls: list[Any]) -> list[Json]:  # of ToolUse
    """Each call is opened with empty arguments, which then come in pieces."""
    by_call: list[list[Json]] = []
    for place, tool_call in enumerate(tool_calls, first):
        first_delta: Json = {"index": place, "id": tool_call_id(request, index, place), "type": "function"}
        pieces = [
            {"index": place, "function": {"arguments": piece}} for piece in tokenize(tool_call.arguments)
        ]
        by_call.append([{**first_delta, "function": {"name": tool_call.name, "arguments": ""}}, *pieces])
    turns = (
        _interleave(by_call) if "interleave" in request.faults else [one for turn in by_call for one in turn]
    )
    return [{"tool_calls": [one]} for one in turns]


def _interleave(sequences: list[list[Json]]) -> list[Json]:
    """The first of each row, then the second of each, and so on."""
    return [
        sequence[step]
        for step in range(max(map(len, sequences), default=0))
        for sequence in sequences
        if step < len(sequence)
    ]
