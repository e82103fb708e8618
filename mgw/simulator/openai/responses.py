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


def responses(request: Request) -> Response:
    """``POST /v1/responses``."""
    body = request.body
    validate(body, REQUEST, lenient="lenient" in request.faults)
    check_request(body)
    prompt = read_prompt(body)
    completion = complete(prompt, request.faults)
    items = _output_items(request, completion)
    if not body.get("stream"):
        return json_response(_response(request, prompt, completion, items))
    events = list(_events(request, prompt, completion, items))
    pieces = [
        sse_event({**event, "sequence_number": index}, event["type"]) for index, event in enumerate(events)
    ]
    failed = {
        **_response_in_progress(request),
        "status": "failed",
        "error": {"code": "server_error", "message": "The server broke."},
    }
    error = {"type": "response.failed", "sequence_number": len(events), "response": failed}
    return StreamResponse(tuple(pieces), sse_event(error, "response.failed"))


def _status(completion: Completion) -> str:
    return "incomplete" if completion.finish_reason in _INCOMPLETE_REASONS else "completed"


def _output_items(request: Request, completion: Completion) -> list[Json]:
    """The output: reasoning, the message, the calls."""
    items: list[Json] = []
    reasoning = request.body.get("reasoning") or {}
    if completion.thinking:
        summary = [{"type": "summary_text", "text": completion.thinking}] if reasoning.get("summary") else []
        item: Json = {"id": request.id("rs_"), "type": "reasoning", "summary": summary}
        if "reasoning.encrypted_content" in (request.body.get("include") or ()):
            item["encrypted_content"] = f"simulated:{len(completion.thinking)}"
        items.append(item)
    if completion.text or not completion.tool_calls:
        is_refusal = completion.finish_reason is FinishReason.REFUSAL
        text_part: Json = {"type": "output_text", "text": completion.text, "annotations": [], "logprobs": []}
        part: Json = {"type": "refusal", "refusal": completion.text} if is_refusal else text_part
        message = {
            "id": request.id("msg_"),
            "type": "message",
            "role": "assistant",
            "status": _status(completion),
        }
        items.append({**message, "content": [part]})
    for place, tool_call in enumerate(completion.tool_calls):
        status = "completed" if tool_call.whole else "incomplete"
        function_call = {"id": request.id("fc_", f"_{place}"), "type": "function_call", "status": status}
        items.append(
            {
                **function_call,
                "call_id": request.id("call_", f"_{place}"),
                "name": tool_call.name,
                "arguments": tool_call.arguments,
            }
        )
    return items


def _response_in_progress(request: Request) -> Json:
    echoed = {
        name: value if request.body.get(name) is None else request.body[name]
        for name, value in _ECHOED_FIELDS.items()
    }
    return {
        "id": request.id("resp_"),
        "object": "response",
        "created_at": request.now,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": request.model,
        "output": [],
        "usage": None,
        "service_tier": "default",
        **echoed,
    }


def _response(request: Request, prompt: Prompt, completion: Completion, items: list[Json]) -> Json:
    chat_usage = usage(request, prompt, [completion])
    status = _status(completion)
    return {
        **_response_in_progress(request),
        "status": status,
        "completed_at": request.now if status == "completed" else None,
        "incomplete_details": {"reason": _INCOMPLETE_REASONS[completion.finish_reason]}
        if status == "incomplete"
        else None,
        "output": items,
        "usage": {
            "input_tokens": chat_usage["prompt_tokens"],
            "input_tokens_details": {
                "cached_tokens": chat_usage["prompt_tokens_details"]["cached_tokens"],
                "cache_write_tokens": chat_usage["prompt_tokens_details"]["cache_write_tokens"],
            },
            "output_tokens": completion.tokens,
            "output_tokens_details": {"reasoning_tokens": completion.thinking_tokens},
            "total_tokens": chat_usage["total_tokens"],
        },
    }


def _events(request: Request, prompt: Prompt, completion: Completion, items: list[Json]) -> Iterator[Json]:
    """created, in_progress, each item from added to done, and completed or incomplete."""
    for name in ("created", "in_progress"):
        yield {"type": f"response.{name}", "response": _response_in_progress(request)}
    for index, item in enumerate(items):
        yield from _item_events(index, item)
    whole = _response(request, prompt, completion, items)
    yield {"type": f"response.{whole['status']}", "response": whole}


def _item_events(index: int, item: Json) -> Iterator[Json]:
    place = {"output_index": index}
    streamed_field = {"message": "content", "reasoning": "summary", "function_call": "arguments"}[
        item["type"]
    ]
    empty: Any = "" if streamed_field == "arguments" else []
    initial_item = {**item, streamed_field: empty}
    if "status" in item:
        initial_item["status"] = "in_progress"
    yield {"type": "response.output_item.added", **place, "item": initial_item}
    at = {**place, "item_id": item["id"]}
    if item["type"] == "message":
        yield from _message_events(at, item["content"][0])
    elif item["type"] == "reasoning":
        for number, part in enumerate(item["summary"]):
            yield from _summary_events({**at, "summary_index": number}, part)
    else:
        for piece in tokenize(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        fields = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **at, **fields}
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


def responses_and_store(request: Request) -> Response:
    """``POST /v1/responses``."""
    response = responses(request)
    if request.body.get("store") is not False:
        if isinstance(response, UnaryResponse):
            _store_response(request, msgspec.json.decode(response.body))
        elif isinstance(response, StreamResponse) and response.pieces:
            last = response.pieces[-1].partition(b"data: ")[2]
            _store_response(request, msgspec.json.decode(last)["response"])
    return response


def _store_response(request: Request, response: Json) -> None:
    family, name = request.family.value, response["id"]
    request.store.put((family, "/responses", name), response)
    for index, item in enumerate(input_items(request.body)):
        one = {"id": f"{name}_{index}", **item}
        request.store.put((family, f"/responses/{name}/input_items", one["id"]), one)


def cancel_response(request: Request) -> Response:
    """``POST /v1/responses/{}/cancel``: only what runs in the background can be."""
    response = find_resource(request, _RESPONSE_PATH)
    if response.get("background") is False:
        raise ApiError(400, "Cannot cancel a synchronous response.")
    return resource_response(
        request, request.store.put(store_key(request, _RESPONSE_PATH), {**response, "status": "cancelled"})
    )


def compact_conversation(request: Request) -> Response:
    """``POST /v1/responses/compact``: what was said, in one item that only the model understands."""
    body = _validated_body(request)
    items, tokens = input_items(body), read_prompt(body).tokens
    item = {"id": request.id("cmp_"), "type": "compaction", "encrypted_content": f"simulated:{len(items)}"}
    user_items = [one for one in items if one.get("role") == "user"]
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens + 1,
    }
    fields = {"id": request.id("resp_"), "object": "response.compaction", "created_at": request.now}
    return json_response({**fields, "output": [*user_items, item], "usage": usage})


def count_input_tokens(request: Request) -> Response:
    """``POST /v1/responses/input_tokens``."""
    body = _validated_body(request)
    return json_response({"object": "response.input_tokens", "input_tokens": read_prompt(body).tokens})


def _validated_body(request: Request) -> Json:
    """The body, which has the fields of a response's request, with an input."""
    body = {name: value for name, value in request.body.items() if value is not None}
    validate(body, REQUEST, lenient=True)
    check_request({"input": "", **body})
    return body


RESPONSE_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/responses/{}/cancel"): cancel_response,
    ("POST", "/responses/compact"): compact_conversation,
    ("POST", "/responses/input_tokens"): count_input_tokens,
}
