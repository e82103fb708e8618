"""OpenAI's chat completions as a stream of chunks, and what both forms of an answer share.

The order of a choice: the role, then the parts of the answer as they come, then an empty delta with the
finish reason.  ``sim-interleave`` lets calls that stand together take turns, and choices as well.
"""

from itertools import groupby
from typing import Any, Final

from mgw.simulator import mind
from mgw.simulator.answer import Call, Json, Refusal, sse
from mgw.simulator.mind import Finish, Outcome, Prompt, Speech, Thought, ToolUse
from mgw.simulator.openai_errors import error_value

DONE: Final = b"data: [DONE]\n\n"
_COMMENT: Final = b": still here\n\n"
FINISHES: Final = {
    Finish.END: "stop",
    Finish.STOP_SEQUENCE: "stop",
    Finish.LENGTH: "length",
    Finish.TOOLS: "tool_calls",
    Finish.REFUSAL: "stop",
    Finish.BLOCKED: "content_filter",
}


def finish_of(call: Call, outcome: Outcome) -> str:
    """Why a choice ends, or what ``sim-stop`` says."""
    return call.faults.text("stop") or FINISHES[outcome.finish]


def shows_thoughts(call: Call) -> bool:
    """Whether this host has ``reasoning_content``; OpenAI itself has not."""
    return "reasoning" in call.faults


def call_id(call: Call, index: int, place: int) -> str:
    """The identifier of a choice's call."""
    return call.id("call_", f"_{index}_{place}")


def odd_error(call: Call, refusal: Refusal) -> Json:
    """An error in a stream as aggregators write it: a chunk without choices that has an ``error``."""
    return {**_frame(call), "choices": [], **error_value(refusal)}


def usage(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> Json:
    """Tokens; those read from the cache are part of the prompt's."""
    thought = sum(outcome.thinking_tokens for outcome in outcomes)
    return _counted(call, prompt, sum(outcome.tokens for outcome in outcomes), thought)


def _counted(call: Call, prompt: Prompt, out: int, thought: int) -> Json:
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


def logprobs(call: Call, words: list[str], *, refused: bool = False) -> Json | None:
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


def chunks(call: Call, prompt: Prompt, outcomes: list[Outcome]) -> list[bytes]:
    """The stream."""
    told = [_choices(call, index, outcome) for index, outcome in enumerate(outcomes)]
    choices = _by_turns(told) if "interleave" in call.faults else [one for turn in told for one in turn]
    way = call.faults.text("usage")
    asked = bool((call.body.get("stream_options") or {}).get("include_usage")) and way is None
    total = usage(call, prompt, outcomes)
    found = [sse({**_frame(call), "choices": [], "prompt_filter_results": []})] * ("noise" in call.faults)
    for place, choice in enumerate(choices):
        chunk: Json = {**_frame(call), "choices": [choice]}
        if asked:
            chunk["usage"] = None
        if way == "each" and place < len(choices) - 1:
            chunk["usage"] = _counted(call, prompt, min(place, total["completion_tokens"]), 0)
        if way in {"each", "last"} and place == len(choices) - 1:
            chunk["usage"] = total
        found.append(sse(chunk))
    if asked:
        found.append(sse({**_frame(call), "choices": [], "usage": total}))
    if "unknown" in call.faults:
        found.insert(1, sse({**_frame(call), "object": "chat.completion.future", "choices": []}))
    return [*_with_comments(call, found), DONE]


def _with_comments(call: Call, found: list[bytes]) -> list[bytes]:
    return [_COMMENT, *found[:2], _COMMENT, *found[2:]] if "noise" in call.faults else found


def _frame(call: Call) -> Json:
    frame: Json = {
        "id": call.id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": call.now,
        "model": call.model,
        "service_tier": "default",
        "system_fingerprint": "fp_sim",
    }
    return {**frame, "future": {"kind": 1}} if "unknown" in call.faults else frame


def _choices(call: Call, index: int, outcome: Outcome) -> list[Json]:
    refused = outcome.finish is Finish.REFUSAL
    found: list[Json] = [
        {
            "index": index,
            "delta": delta,
            "logprobs": logprobs(call, [_word(delta)], refused=refused) if _word(delta) else None,
            "finish_reason": None,
        }
        for delta in _deltas(call, index, outcome)
    ]
    found[-1]["finish_reason"] = finish_of(call, outcome)
    return found


def _word(delta: Json) -> str:
    return delta.get("content") or delta.get("refusal") or ""


def _deltas(call: Call, index: int, outcome: Outcome) -> list[Json]:
    """The deltas of one choice: the role first, an empty one last."""
    content = None if outcome.uses and not outcome.text else ""
    deltas: list[Json] = [{"role": "assistant", "content": content, "refusal": None}]
    if "unknown" in call.faults:
        deltas.append({"future": {"kind": 1}})
    place = 0
    for kind, group in groupby(outcome.parts, type):
        parts = list(group)
        if kind is ToolUse:
            deltas += _tool_deltas(call, index, place, parts)
            place += len(parts)
        else:
            deltas += [delta for part in parts for delta in _text_deltas(call, outcome, part)]
    quiet: list[Json] = [{"content": ""}, {}] if "noise" in call.faults else []
    return [*deltas, *quiet, {}]


def _text_deltas(call: Call, outcome: Outcome, part: Any) -> list[Json]:  # a Thought or a Speech
    match part:
        case Thought(hidden=False) if shows_thoughts(call):
            name = "reasoning_content"
        case Speech():
            name = "refusal" if outcome.finish is Finish.REFUSAL else "content"
        case _:
            return []
    return [{name: word} for word in mind.tokens(part.text)]


def _tool_deltas(call: Call, index: int, first: int, uses: list[Any]) -> list[Json]:  # of ToolUse
    """Each call is opened with empty arguments, which then come in pieces."""
    told: list[list[Json]] = []
    for place, use in enumerate(uses, first):
        opened: Json = {"index": place, "id": call_id(call, index, place), "type": "function"}
        pieces = [{"index": place, "function": {"arguments": piece}} for piece in mind.tokens(use.arguments)]
        told.append([{**opened, "function": {"name": use.name, "arguments": ""}}, *pieces])
    turns = _by_turns(told) if "interleave" in call.faults else [one for turn in told for one in turn]
    return [{"tool_calls": [one]} for one in turns]


def _by_turns(rows: list[list[Json]]) -> list[Json]:
    """The first of each row, then the second of each, and so on."""
    return [row[step] for step in range(max(map(len, rows), default=0)) for row in rows if step < len(row)]
