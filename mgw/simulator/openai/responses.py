"""OpenAI's responses, whole and with the whole grammar of events (types: ``openai.types.responses`` 3.x).

A response is stored, with its input items, unless ``store`` says no (source: the resource ``responses`` of
``openai`` 3.54).
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from mgw.simulator.api import (
    ApiError,
    Handler,
    Json,
    Request,
    Response,
    StreamResponse,
    UnaryResponse,
    json_response,
    sse_event,
)
from mgw.simulator.model import Completion, FinishReason, Prompt, complete, tokenize
from mgw.simulator.openai.chat import usage
from mgw.simulator.openai.errors import validate
from mgw.simulator.openai.responses_request import REQUEST, check_request, input_items, read_prompt
from mgw.simulator.platform.resources import find_resource, resource_response, store_key

_ECHOED_FIELDS: Final[Json] = {
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
_INCOMPLETE_REASONS: Final = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.BLOCKED: "content_filter",
}
_RESPONSE_PATH: Final = "/v1/responses/{}"


def responses(call: Request) -> Response:
    """``POST /v1/responses``."""
    body = call.body
    validate(body, REQUEST, lenient="lenient" in call.faults)
    check_request(body)
    prompt = read_prompt(body)
    outcome = complete(prompt, call.faults)
    items = _output_items(call, outcome)
    if not body.get("stream"):
        return json_response(_response(call, prompt, outcome, items))
    events = list(_events(call, prompt, outcome, items))
    pieces = [
        sse_event({**event, "sequence_number": index}, event["type"]) for index, event in enumerate(events)
    ]
    failed = {
        **_response_in_progress(call),
        "status": "failed",
        "error": {"code": "server_error", "message": "The server broke."},
    }
    broken = {"type": "response.failed", "sequence_number": len(events), "response": failed}
    return StreamResponse(tuple(pieces), sse_event(broken, "response.failed"))


def _status(outcome: Completion) -> str:
    return "incomplete" if outcome.finish in _INCOMPLETE_REASONS else "completed"


def _output_items(call: Request, outcome: Completion) -> list[Json]:
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
        refused = outcome.finish is FinishReason.REFUSAL
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


def _response_in_progress(call: Request) -> Json:
    echoed = {
        name: value if call.body.get(name) is None else call.body[name]
        for name, value in _ECHOED_FIELDS.items()
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


def _response(call: Request, prompt: Prompt, outcome: Completion, items: list[Json]) -> Json:
    counted = usage(call, prompt, [outcome])
    status = _status(outcome)
    return {
        **_response_in_progress(call),
        "status": status,
        "completed_at": call.now if status == "completed" else None,
        "incomplete_details": {"reason": _INCOMPLETE_REASONS[outcome.finish]}
        if status == "incomplete"
        else None,
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


def _events(call: Request, prompt: Prompt, outcome: Completion, items: list[Json]) -> Iterator[Json]:
    """created, in_progress, each item from added to done, and completed or incomplete."""
    for name in ("created", "in_progress"):
        yield {"type": f"response.{name}", "response": _response_in_progress(call)}
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
        for piece in tokenize(item["arguments"]):
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
    for piece in tokenize(part[word]):
        yield {"type": f"response.{name}.delta", **at, "delta": piece, **more}
    yield {"type": f"response.{name}.done", **at, word: part[word], **more}
    yield {"type": "response.content_part.done", **at, "part": part}


def _summary_events(at: Json, part: Json) -> Iterator[Json]:
    name = "response.reasoning_summary"
    yield {"type": f"{name}_part.added", **at, "part": {**part, "text": ""}}
    for piece in tokenize(part["text"]):
        yield {"type": f"{name}_text.delta", **at, "delta": piece}
    yield {"type": f"{name}_text.done", **at, "text": part["text"]}
    yield {"type": f"{name}_part.done", **at, "part": part}


def responses_and_store(call: Request) -> Response:
    """``POST /v1/responses``."""
    answer = responses(call)
    if call.body.get("store") is not False:
        if isinstance(answer, UnaryResponse):
            _store_response(call, msgspec.json.decode(answer.body))
        elif isinstance(answer, StreamResponse) and answer.pieces:
            last = answer.pieces[-1].partition(b"data: ")[2]
            _store_response(call, msgspec.json.decode(last)["response"])
    return answer


def _store_response(call: Request, made: Json) -> None:
    family, name = call.family.value, made["id"]
    call.store.put((family, "/responses", name), made)
    for index, item in enumerate(input_items(call.body)):
        one = {"id": f"{name}_{index}", **item}
        call.store.put((family, f"/responses/{name}/input_items", one["id"]), one)


def cancel_response(call: Request) -> Response:
    """``POST /v1/responses/{}/cancel``: only what runs in the background can be."""
    found = find_resource(call, _RESPONSE_PATH)
    if found.get("background") is False:
        raise ApiError(400, "Cannot cancel a synchronous response.")
    return resource_response(
        call, call.store.put(store_key(call, _RESPONSE_PATH), {**found, "status": "cancelled"})
    )


def compact_conversation(call: Request) -> Response:
    """``POST /v1/responses/compact``: what was said, in one item that only the model understands."""
    body = _validated_body(call)
    items, tokens = input_items(body), read_prompt(body).tokens
    item = {"id": call.id("cmp_"), "type": "compaction", "encrypted_content": f"simulated:{len(items)}"}
    kept = [one for one in items if one.get("role") == "user"]
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 1,
    }
    made = {"id": call.id("resp_"), "object": "response.compaction", "created_at": call.now}
    return json_response({**made, "output": [*kept, item], "usage": usage})


def count_input_tokens(call: Request) -> Response:
    """``POST /v1/responses/input_tokens``."""
    body = _validated_body(call)
    return json_response({"object": "response.input_tokens", "input_tokens": read_prompt(body).tokens})


def _validated_body(call: Request) -> Json:
    """The body, which has the fields of a response's request, with an input."""
    body = {name: value for name, value in call.body.items() if value is not None}
    validate(body, REQUEST, lenient=True)
    check_request({"input": "", **body})
    return body


RESPONSE_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/responses/{}/cancel"): cancel_response,
    ("POST", "/responses/compact"): compact_conversation,
    ("POST", "/responses/input_tokens"): count_input_tokens,
}
