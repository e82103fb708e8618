"""OpenAI's chat completions, whole and as a stream of chunks (types: ``openai.types.chat`` 3.x).

The order of a choice: the role, then the parts of the answer as they come, then an empty delta with the
finish reason.  ``sim-interleave`` lets calls that stand together take turns, and choices as well.  A chat is
stored, with its messages, where ``store`` says so.
"""

from itertools import groupby
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mgw.simulator.api import (
    ApiError,
    Json,
    Request,
    Response,
    StreamResponse,
    UnaryResponse,
    json_response,
    sse_event,
)
from mgw.simulator.model import Completion, FinishReason, Prompt, Text, Thinking, ToolCall, complete, tokenize
from mgw.simulator.openai.chat_request import REQUEST, check_model, check_request, read_prompt
from mgw.simulator.openai.errors import error_value, validate

DONE: Final = b"data: [DONE]\n\n"
_COMMENT: Final = b": still here\n\n"
_FINISH_REASONS: Final = {
    FinishReason.END: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.LENGTH: "length",
    FinishReason.TOOLS: "tool_calls",
    FinishReason.REFUSAL: "stop",
    FinishReason.BLOCKED: "content_filter",
}


def chat(call: Request) -> Response:
    """``POST /v1/chat/completions``."""
    body = call.body
    validate(body, REQUEST, lenient="lenient" in call.faults)
    check_request(body)
    check_model(call.model, body)
    prompt = _prompt(call)
    outcomes = [
        complete(replace(prompt, candidate=index), call.faults) for index in range(body.get("n") or 1)
    ]
    if not body.get("stream"):
        return json_response(_completion(call, prompt, outcomes))
    broken = ApiError(500, "The server broke.")
    said = error_chunk(call, broken) if "odd-error" in call.faults else error_value(broken)
    return StreamResponse(tuple(chunks(call, prompt, outcomes)), sse_event(said))


def _prompt(call: Request) -> Prompt:
    """What the answer depends on; a host that shows its thinking thinks unless it is told not to."""
    prompt = read_prompt(call.body)
    thinks = prompt.thinks or (shows_thinking(call) and call.body.get("reasoning_effort") is None)
    return replace(prompt, thinks=thinks)


def _completion(call: Request, prompt: Prompt, outcomes: list[Completion]) -> Json:
    completion: Json = {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion",
        "created": call.now,
        "model": call.model,
        "choices": [_choice(call, index, outcome) for index, outcome in enumerate(outcomes)],
        "usage": usage(call, prompt, outcomes),
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
    }
    if call.faults.text("usage") == "none":
        del completion["usage"]
    return {**completion, "future": {"kind": 1}} if "unknown" in call.faults else completion


def _choice(call: Request, index: int, outcome: Completion) -> Json:
    refused = outcome.finish is FinishReason.REFUSAL
    message: Json = {
        "role": "assistant",
        "content": None if refused or (outcome.uses and not outcome.text) else outcome.text,
        "refusal": outcome.text if refused else None,
        "annotations": [],
    }
    if outcome.thinking and shows_thinking(call):
        message["reasoning_content"] = outcome.thinking
    if "unknown" in call.faults:
        message["future"] = {"kind": 1}
    if outcome.uses:
        message["tool_calls"] = [
            {
                "id": tool_call_id(call, index, place),
                "type": "function",
                "function": {"name": use.name, "arguments": use.arguments},
            }
            for place, use in enumerate(outcome.uses)
        ]
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs(call, tokenize(outcome.text), refused=refused),
        "finish_reason": finish_reason(call, outcome),
    }


def chat_and_store(call: Request) -> Response:
    """``POST /v1/chat/completions``."""
    answer = chat(call)
    if call.body.get("store") is True:
        whole = answer
        if isinstance(answer, StreamResponse):
            unstreamed = {name: value for name, value in call.body.items() if not name.startswith("stream")}
            whole = chat(msgspec.structs.replace(call, body=unstreamed))
        if isinstance(whole, UnaryResponse):
            _store_chat(call, msgspec.json.decode(whole.body))
    return answer


def _store_chat(call: Request, made: Json) -> None:
    family, name = call.family.value, made["id"]
    made["metadata"] = call.body.get("metadata") or {}
    call.store.put((family, "/chat/completions", name), made)
    for index, message in enumerate(call.body["messages"]):
        one = {"id": f"{name}-{index}", "name": None, "content_parts": None, **message}
        call.store.put((family, f"/chat/completions/{name}/messages", one["id"]), one)


def finish_reason(call: Request, outcome: Completion) -> str:
    """Why a choice ends, or what ``sim-stop`` says."""
    return call.faults.text("stop") or _FINISH_REASONS[outcome.finish]


def shows_thinking(call: Request) -> bool:
    """Whether this host has ``reasoning_content``; OpenAI itself has not."""
    return "reasoning" in call.faults


def tool_call_id(call: Request, index: int, place: int) -> str:
    """The identifier of a choice's call."""
    return call.id("call_", f"_{index}_{place}")


def error_chunk(call: Request, refusal: ApiError) -> Json:
    """An error in a stream as aggregators write it: a chunk without choices that has an ``error``."""
    return {**_frame(call), "choices": [], **error_value(refusal)}


def usage(call: Request, prompt: Prompt, outcomes: list[Completion]) -> Json:
    """Tokens; those read from the cache are part of the prompt's."""
    thought = sum(outcome.thinking_tokens for outcome in outcomes)
    return _usage(call, prompt, sum(outcome.tokens for outcome in outcomes), thought)


def _usage(call: Request, prompt: Prompt, out: int, thought: int) -> Json:
    return {
        "prompt_tokens": prompt.tokens,
        "completion_tokens": out,
        "total_tokens": prompt.tokens + out,
        "prompt_tokens_details": {
            "cached_tokens": min(call.faults.number("cached") or 0, prompt.tokens),
            "cache_write_tokens": call.faults.number("cache-write") or 0,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": thought,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def logprobs(call: Request, words: list[str], *, refused: bool = False) -> Json | None:
    """Made-up probabilities, one per token, with as many alternatives as are asked for."""
    if not call.body.get("logprobs"):
        return None
    most = call.body.get("top_logprobs") or 0
    told = [
        {**_logprob(word, 0), "top_logprobs": [_logprob(word, place) for place in range(most)]}
        for word in words
    ]
    return {"content": None, "refusal": told} if refused else {"content": told, "refusal": None}


def _logprob(word: str, place: int) -> Json:
    token = f"{word}~{place}" if place else word
    return {"token": token, "logprob": -0.25 - place, "bytes": list(token.encode())}


def chunks(call: Request, prompt: Prompt, outcomes: list[Completion]) -> list[bytes]:
    """The stream."""
    told = [_choices(call, index, outcome) for index, outcome in enumerate(outcomes)]
    choices = _interleave(told) if "interleave" in call.faults else [one for turn in told for one in turn]
    way = call.faults.text("usage")
    asked = bool((call.body.get("stream_options") or {}).get("include_usage")) and way is None
    total = usage(call, prompt, outcomes)
    found = [sse_event({**_frame(call), "choices": [], "prompt_filter_results": []})] * (
        "noise" in call.faults
    )
    for place, choice in enumerate(choices):
        chunk: Json = {**_frame(call), "choices": [choice]}
        if asked:
            chunk["usage"] = None
        if way == "each" and place < len(choices) - 1:
            chunk["usage"] = _usage(call, prompt, min(place, total["completion_tokens"]), 0)
        if way in {"each", "last"} and place == len(choices) - 1:
            chunk["usage"] = total
        found.append(sse_event(chunk))
    if asked:
        found.append(sse_event({**_frame(call), "choices": [], "usage": total}))
    if "unknown" in call.faults:
        found.insert(1, sse_event({**_frame(call), "object": "chat.completion.future", "choices": []}))
    return [*_with_comments(call, found), DONE]


def _with_comments(call: Request, found: list[bytes]) -> list[bytes]:
    return [_COMMENT, *found[:2], _COMMENT, *found[2:]] if "noise" in call.faults else found


def _frame(call: Request) -> Json:
    frame: Json = {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": call.now,
        "model": call.model,
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
    }
    return {**frame, "future": {"kind": 1}} if "unknown" in call.faults else frame


def _choices(call: Request, index: int, outcome: Completion) -> list[Json]:
    refused = outcome.finish is FinishReason.REFUSAL
    found: list[Json] = [
        {
            "index": index,
            "delta": delta,
            "logprobs": logprobs(call, [_word(delta)], refused=refused) if _word(delta) else None,
            "finish_reason": None,
        }
        for delta in _deltas(call, index, outcome)
    ]
    found[-1]["finish_reason"] = finish_reason(call, outcome)
    return found


def _word(delta: Json) -> str:
    return delta.get("content") or delta.get("refusal") or ""


def _deltas(call: Request, index: int, outcome: Completion) -> list[Json]:
    """The deltas of one choice: the role first, an empty one last."""
    content = None if outcome.uses and not outcome.text else ""
    deltas: list[Json] = [{"role": "assistant", "content": content, "refusal": None}]
    if "unknown" in call.faults:
        deltas.append({"future": {"kind": 1}})
    place = 0
    for kind, group in groupby(outcome.parts, type):
        parts = list(group)
        if kind is ToolCall:
            deltas += _tool_deltas(call, index, place, parts)
            place += len(parts)
        else:
            deltas += [delta for part in parts for delta in _text_deltas(call, outcome, part)]
    quiet: list[Json] = [{"content": ""}, {}] if "noise" in call.faults else []
    return [*deltas, *quiet, {}]


def _text_deltas(call: Request, outcome: Completion, part: Any) -> list[Json]:  # a Thought or a Speech
    match part:
        case Thinking(hidden=False) if shows_thinking(call):
            name = "reasoning_content"
        case Text():
            name = "refusal" if outcome.finish is FinishReason.REFUSAL else "content"
        case _:
            return []
    return [{name: word} for word in tokenize(part.text)]


def _tool_deltas(call: Request, index: int, first: int, uses: list[Any]) -> list[Json]:  # of ToolUse
    """Each call is opened with empty arguments, which then come in pieces."""
    told: list[list[Json]] = []
    for place, use in enumerate(uses, first):
        opened: Json = {"index": place, "id": tool_call_id(call, index, place), "type": "function"}
        pieces = [{"index": place, "function": {"arguments": piece}} for piece in tokenize(use.arguments)]
        told.append([{**opened, "function": {"name": use.name, "arguments": ""}}, *pieces])
    turns = _interleave(told) if "interleave" in call.faults else [one for turn in told for one in turn]
    return [{"tool_calls": [one]} for one in turns]


def _interleave(rows: list[list[Json]]) -> list[Json]:
    """The first of each row, then the second of each, and so on."""
    return [row[step] for step in range(max(map(len, rows), default=0)) for row in rows if step < len(row)]
