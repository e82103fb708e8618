"""OpenAI's chat completions, unary (types: ``openai.types.chat`` 3.x); ``openai_stream`` has the chunks."""

from msgspec.structs import replace

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Refusal, Stream, sse, unary
from mgw.simulator.mind import Finish, Outcome, Prompt
from mgw.simulator.openai_errors import error_value, require
from mgw.simulator.openai_models import check_model
from mgw.simulator.openai_request import REQUEST, check, read_prompt
from mgw.simulator.openai_stream import (
    call_id,
    chunks,
    finish_of,
    logprobs,
    odd_error,
    shows_thoughts,
    usage,
)


def chat(call: Call) -> Answer:
    """``POST /v1/chat/completions``."""
    body = call.body
    require(body, REQUEST, lenient="lenient" in call.faults)
    check(body)
    check_model(call.model, body)
    prompt = _prompt(call)
    outcomes = [
        mind.answer(replace(prompt, candidate=index), call.faults) for index in range(body.get("n") or 1)
    ]
    if not body.get("stream"):
        return unary(_completion(call, prompt, outcomes))
    broken = Refusal(500, "The server broke.")
    said = odd_error(call, broken) if "odd-error" in call.faults else error_value(broken)
    return Stream(tuple(chunks(call, prompt, outcomes)), sse(said))


def _prompt(call: Call) -> Prompt:
    """What the answer depends on; a host that shows its thinking thinks unless it is told not to."""
    prompt = read_prompt(call.body)
    thinks = prompt.thinks or (shows_thoughts(call) and call.body.get("reasoning_effort") is None)
    return replace(prompt, thinks=thinks)


def _completion(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> Json:
    completion: Json = {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion",
        "created": call.now,
        "model": call.model,
        "choices": [_whole(call, index, outcome) for index, outcome in enumerate(outcomes)],
        "usage": usage(call, prompt, outcomes),
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
    }
    if call.faults.text("usage") == "none":
        del completion["usage"]
    return {**completion, "future": {"kind": 1}} if "unknown" in call.faults else completion


def _whole(call: Call, index: int, outcome: Outcome) -> Json:
    refused = outcome.finish is Finish.REFUSAL
    message: Json = {
        "role": "assistant",
        "content": None if refused or (outcome.uses and not outcome.text) else outcome.text,
        "refusal": outcome.text if refused else None,
        "annotations": [],
    }
    if outcome.thinking and shows_thoughts(call):
        message["reasoning_content"] = outcome.thinking
    if "unknown" in call.faults:
        message["future"] = {"kind": 1}
    if outcome.uses:
        message["tool_calls"] = [
            {
                "id": call_id(call, index, place),
                "type": "function",
                "function": {"name": use.name, "arguments": use.arguments},
            }
            for place, use in enumerate(outcome.uses)
        ]
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs(call, mind.tokens(outcome.text), refused=refused),
        "finish_reason": finish_of(call, outcome),
    }
