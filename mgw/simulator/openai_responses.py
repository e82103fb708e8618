"""OpenAI's responses, unary and with the whole grammar of events (types: ``openai.types.responses`` 3.x)."""

from collections.abc import Iterator
from typing import Any, Final

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Stream, sse, unary
from mgw.simulator.mind import Finish, Outcome, Prompt
from mgw.simulator.openai_errors import require
from mgw.simulator.openai_items import REQUEST, check, read_prompt
from mgw.simulator.openai_stream import usage

_ECHOED: Final[Json] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
}

_UNFINISHED: Final = {Finish.LENGTH: "max_output_tokens", Finish.BLOCKED: "content_filter"}


def responses(call: Call) -> Answer:
    """``POST /v1/responses``."""
    body = call.body
    require(body, REQUEST, lenient="lenient" in call.faults)
    check(body)
    prompt = read_prompt(body)
    outcome = mind.answer(prompt, call.faults)
    items = _items(call, outcome)
    if not body.get("stream"):
        return unary(_response(call, prompt, outcome, items))
    events = list(_events(call, prompt, outcome, items))
    pieces = [sse({**event, "sequence_number": index}, event["type"]) for index, event in enumerate(events)]
    failed = {
        **_started(call),
        "status": "failed",
        "error": {"code": "server_error", "message": "The server broke."},
    }
    broken = {"type": "response.failed", "sequence_number": len(events), "response": failed}
    return Stream(tuple(pieces), sse(broken, "response.failed"))


def _status(outcome: Outcome) -> str:
    return "incomplete" if outcome.finish in _UNFINISHED else "completed"


def _items(call: Call, outcome: Outcome) -> list[Json]:
    """The output: reasoning, the message, the calls."""
    items: list[Json] = []
    reasoning = call.body.get("reasoning") or {}
    if outcome.thinking:
        shown = [{"type": "summary_text", "text": outcome.thinking}] if reasoning.get("summary") else []
        item: Json = {"id": call.id("rs_"), "type": "reasoning", "summary": shown}
        if "reasoning.encrypted_content" in (call.body.get("include") or ()):
            item["encrypted_content"] = f"simulated:{len(outcome.thinking)}"
        items.append(item)
    if outcome.text or not outcome.uses:
        refused = outcome.finish is Finish.REFUSAL
        said: Json = {"type": "output_text", "text": outcome.text, "annotations": [], "logprobs": []}
        part: Json = {"type": "refusal", "refusal": outcome.text} if refused else said
        message = {"id": call.id("msg_"), "type": "message", "role": "assistant", "status": _status(outcome)}
        items.append({**message, "content": [part]})
    for place, use in enumerate(outcome.uses):
        status = "completed" if use.whole else "incomplete"
        made = {"id": call.id("fc_", f"_{place}"), "type": "function_call", "status": status}
        items.append(
            {**made, "call_id": call.id("call_", f"_{place}"), "name": use.name, "arguments": use.arguments}
        )
    return items


def _started(call: Call) -> Json:
    echoed = {
        name: value if call.body.get(name) is None else call.body[name] for name, value in _ECHOED.items()
    }
    return {
        "id": call.id("resp_"),
        "object": "response",
        "created_at": call.now,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": call.model,
        "output": [],
        "usage": None,
        "service_tier": "default",
        **echoed,
    }


def _response(call: Call, prompt: Prompt, outcome: Outcome, items: list[Json]) -> Json:
    counted = usage(call, prompt, [outcome])
    status = _status(outcome)
    return {
        **_started(call),
        "status": status,
        "completed_at": call.now if status == "completed" else None,
        "incomplete_details": {"reason": _UNFINISHED[outcome.finish]} if status == "incomplete" else None,
        "output": items,
        "usage": {
            "input_tokens": counted["prompt_tokens"],
            "input_tokens_details": {
                "cached_tokens": counted["prompt_tokens_details"]["cached_tokens"],
                "cache_write_tokens": counted["prompt_tokens_details"]["cache_write_tokens"],
            },
            "output_tokens": outcome.tokens,
            "output_tokens_details": {"reasoning_tokens": outcome.thinking_tokens},
            "total_tokens": counted["total_tokens"],
        },
    }


def _events(call: Call, prompt: Prompt, outcome: Outcome, items: list[Json]) -> Iterator[Json]:
    """created, in_progress, each item from added to done, and completed or incomplete."""
    for name in ("created", "in_progress"):
        yield {"type": f"response.{name}", "response": _started(call)}
    for index, item in enumerate(items):
        yield from _item_events(index, item)
    whole = _response(call, prompt, outcome, items)
    yield {"type": f"response.{whole['status']}", "response": whole}


def _item_events(index: int, item: Json) -> Iterator[Json]:
    place = {"output_index": index}
    filled = {"message": "content", "reasoning": "summary", "function_call": "arguments"}[item["type"]]
    empty: Any = "" if filled == "arguments" else []
    opened = {**item, filled: empty}
    if "status" in item:
        opened["status"] = "in_progress"
    yield {"type": "response.output_item.added", **place, "item": opened}
    at = {**place, "item_id": item["id"]}
    if item["type"] == "message":
        yield from _message_events(at, item["content"][0])
    elif item["type"] == "reasoning":
        for number, part in enumerate(item["summary"]):
            yield from _summary_events({**at, "summary_index": number}, part)
    else:
        for piece in mind.tokens(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **at, **done}
    yield {"type": "response.output_item.done", **place, "item": item}


def _message_events(at: Json, part: Json) -> Iterator[Json]:
    at = {**at, "content_index": 0}
    word = "text" if part["type"] == "output_text" else "refusal"
    name = "output_text" if word == "text" else "refusal"
    more: Json = {"logprobs": []} if word == "text" else {}
    yield {"type": "response.content_part.added", **at, "part": {**part, word: ""}}
    for piece in mind.tokens(part[word]):
        yield {"type": f"response.{name}.delta", **at, "delta": piece, **more}
    yield {"type": f"response.{name}.done", **at, word: part[word], **more}
    yield {"type": "response.content_part.done", **at, "part": part}


def _summary_events(at: Json, part: Json) -> Iterator[Json]:
    name = "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **at, "part": {**part, "text": ""}}
    for piece in mind.tokens(part["text"]):
        yield {"type": f"{name}_text.delta", **at, "delta": piece}
    yield {"type": f"{name}_text.done", **at, "text": part["text"]}
    yield {"type": f"{name}_part.done", **at, "part": part}
