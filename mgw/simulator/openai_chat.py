"""OpenAI's chat completions, unary and as a stream (types: ``openai.types.chat`` 3.x)."""

from typing import Final

from msgspec.structs import replace

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Refusal, Stream, sse, unary
from mgw.simulator.mind import Finish, Outcome, Prompt
from mgw.simulator.openai_errors import error_value, require
from mgw.simulator.openai_request import REQUEST, check, read_prompt

DONE: Final = b"data: [DONE]\n\n"
FINISHES: Final = {
    Finish.END: "stop",
    Finish.STOP_SEQUENCE: "stop",
    Finish.LENGTH: "length",
    Finish.TOOLS: "tool_calls",
    Finish.REFUSAL: "stop",
}


def chat(call: Call) -> Answer:
    """``POST /v1/chat/completions``."""
    body = call.body
    require(body, REQUEST, lenient="lenient" in call.faults)
    check(body)
    prompt = read_prompt(body)
    outcomes = [
        mind.answer(replace(prompt, candidate=index), call.faults) for index in range(body.get("n") or 1)
    ]
    if not body.get("stream"):
        return unary(_completion(call, prompt, outcomes))
    return Stream(tuple(_chunks(call, prompt, outcomes)), sse(error_value(Refusal(500, "The server broke."))))


def usage(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> Json:
    """Tokens; those read from the cache are part of the prompt's."""
    out = sum(outcome.tokens for outcome in outcomes)
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
            "reasoning_tokens": sum(outcome.thinking_tokens for outcome in outcomes),
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def logprobs(words: list[str]) -> Json:
    """Made-up probabilities, one per token."""
    return {
        "content": [
            {"token": word, "logprob": -0.25, "bytes": list(word.encode()), "top_logprobs": []}
            for word in words
        ],
        "refusal": None,
    }


def _completion(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> Json:
    return {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion",
        "created": call.now,
        "model": call.model,
        "choices": [_whole(call, index, outcome) for index, outcome in enumerate(outcomes)],
        "usage": usage(call, prompt, outcomes),
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
    }


def _whole(call: Call, index: int, outcome: Outcome) -> Json:
    refused = outcome.finish is Finish.REFUSAL
    message: Json = {
        "role": "assistant",
        "content": None if refused or (outcome.uses and not outcome.text) else outcome.text,
        "refusal": outcome.text if refused else None,
        "annotations": [],
    }
    if outcome.thinking and "reasoning" in call.faults:
        message["reasoning_content"] = outcome.thinking
    if outcome.uses:
        message["tool_calls"] = [
            {
                "id": call.id("call_", f"_{index}_{place}"),
                "type": "function",
                "function": {"name": use.name, "arguments": use.arguments},
            }
            for place, use in enumerate(outcome.uses)
        ]
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs(mind.tokens(outcome.text)) if call.body.get("logprobs") else None,
        "finish_reason": FINISHES[outcome.finish],
    }


def _chunks(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> list[bytes]:
    counted = bool((call.body.get("stream_options") or {}).get("include_usage"))
    frame: Json = {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": call.now,
        "model": call.model,
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
    }
    unused = {"usage": None} if counted else {}
    found = []
    for index, outcome in enumerate(outcomes):
        deltas = _deltas(call, index, outcome)
        for place, delta in enumerate(deltas):
            last = place == len(deltas) - 1
            choice: Json = {
                "index": index,
                "delta": delta,
                "logprobs": logprobs([delta["content"]])
                if call.body.get("logprobs") and delta.get("content")
                else None,
                "finish_reason": FINISHES[outcome.finish] if last else None,
            }
            found.append(sse({**frame, "choices": [choice], **unused}))
    if counted:
        found.append(sse({**frame, "choices": [], "usage": usage(call, prompt, outcomes)}))
    return [*found, DONE]


def _deltas(call: Call, index: int, outcome: Outcome) -> list[Json]:
    """The deltas of one choice: the role first, an empty one last."""
    refused = outcome.finish is Finish.REFUSAL
    first: Json = {
        "role": "assistant",
        "content": None if outcome.uses and not outcome.text else "",
        "refusal": None,
    }
    deltas: list[Json] = [first]
    if "reasoning" in call.faults:
        deltas += [{"reasoning_content": word} for word in mind.tokens(outcome.thinking)]
    deltas += [{"refusal" if refused else "content": word} for word in mind.tokens(outcome.text)]
    told = []
    for place, use in enumerate(outcome.uses):
        function: Json = {"name": use.name, "arguments": ""}
        opened: Json = {"index": place, "id": call.id("call_", f"_{index}_{place}"), "type": "function"}
        told.append([{**opened, "function": function}])
        told[-1] += [
            {"index": place, "function": {"arguments": piece}} for piece in mind.tokens(use.arguments)
        ]
    if "interleave" in call.faults:
        told = [
            [turn[step] for turn in told if step < len(turn)]
            for step in range(max(map(len, told), default=0))
        ]
    return [*deltas, *({"tool_calls": [delta]} for turn in told for delta in turn), {}]
