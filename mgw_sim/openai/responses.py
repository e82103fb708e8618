"""OpenAI's responses, whole and with the whole grammar of events (types: ``openai.types.responses`` 3.x).

A response is stored, with its input items and its own, unless ``store`` says no (source: the resource
``responses`` of ``openai`` 3.54).  Its items stand in the order in which the model thought, spoke and called.
"""

from collections.abc import Collection, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from mgw_sim.api import (
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
from mgw_sim.model import Completion, Prompt, complete, tokenize
from mgw_sim.openai.chat import COMMENT, service_tier, usage
from mgw_sim.openai.errors import validate
from mgw_sim.openai.responses_history import keep_items, recall_items
from mgw_sim.openai.responses_items import check_calls, input_items
from mgw_sim.openai.responses_models import check_model
from mgw_sim.openai.responses_output import INCOMPLETE, output_items
from mgw_sim.openai.responses_request import REQUEST, check_request, read_prompt
from mgw_sim.openai.responses_tools import taken_tools
from mgw_sim.platform.resources import find_resource, resource_response, store_key

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
_STREAMED_FIELDS: Final[Json] = {
    "message": ("content", []),
    "reasoning": ("summary", []),
    "function_call": ("arguments", ""),
    "custom_tool_call": ("input", ""),
    "web_search_call": ("status", "in_progress"),
}
"""What an item has not yet when it is added."""
_CALL_EVENTS: Final = {
    "function_call": "response.function_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
}
_RESPONSE_PATH: Final = "/v1/responses/{}"


def responses(request: Request, known: Collection[str] = ()) -> Response:
    """``POST /v1/responses``; ``known`` are the identifiers of the items that a connection has had."""
    request = _checked(request, known)
    body = request.body
    check_model(request.model, body)
    prompt = read_prompt(body)
    completion = complete(prompt, request.faults)
    items = output_items(request, completion)
    if not body.get("stream"):
        return json_response(_response(request, prompt, completion, items))
    events = list(_events(request, prompt, completion, items))
    pieces = [
        sse_event({**event, "sequence_number": index}, event["type"]) for index, event in enumerate(events)
    ]
    if "noise" in request.faults:
        pieces = [COMMENT, *pieces[:2], COMMENT, *pieces[2:]]
    return StreamResponse(tuple(pieces), _error_piece(request, len(events)))


def _checked(request: Request, known: Collection[str] = ()) -> Request:
    """The request as its conversation is read: stored items in the place of references.  Raises ApiError."""
    lenient = "lenient" in request.faults
    validate(request.body, REQUEST, lenient=lenient)
    check_request(request.body, lenient=lenient)
    items = recall_items(request, known)
    check_calls(items, continued=bool(request.body.get("previous_response_id")))
    return replace(request, body={**request.body, "input": items})


def _error_piece(request: Request, count: int) -> bytes:
    """What ends a stream of so many events in which an error was asked for.

    A response that failed; with ``sim-odd-error`` the event ``error``, which stands beside all responses.
    """
    after = request.faults.number("error-in-stream-after")
    code = request.faults.text("error-code") or "server_error"
    error: Json = {"code": code, "message": "The server broke."}
    number = count if after is None else min(after, count)
    if "odd-error" in request.faults:
        return sse_event({"type": "error", "sequence_number": number, **error, "param": None}, "error")
    failed = {**_response_in_progress(request), "status": "failed", "error": error}
    event = {"type": "response.failed", "sequence_number": number, "response": failed}
    return sse_event(event, "response.failed")


def _status(completion: Completion) -> str:
    return "incomplete" if completion.finish_reason in INCOMPLETE else "completed"


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
        "service_tier": service_tier(request),
        **echoed,
        "tools": taken_tools(request.body.get("tools") or []),
    }


def _response(request: Request, prompt: Prompt, completion: Completion, items: list[Json]) -> Json:
    chat_usage = usage(request, prompt, [completion])
    status = _status(completion)
    response: Json = {
        **_response_in_progress(request),
        "status": status,
        "completed_at": request.now if status == "completed" else None,
        "incomplete_details": {"reason": INCOMPLETE[completion.finish_reason]}
        if status == "incomplete"
        else None,
        "output": items,
        "usage": {
            "input_tokens": chat_usage["prompt_tokens"],
            "input_tokens_details": {
                "cached_tokens": chat_usage["prompt_tokens_details"]["cached_tokens"],
                "cache_write_tokens": chat_usage["prompt_tokens_details"]["cache_write_tokens"],
            },
            "output_tokens": chat_usage["completion_tokens"],
            "output_tokens_details": {
                "reasoning_tokens": chat_usage["completion_tokens_details"]["reasoning_tokens"]
            },
            "total_tokens": chat_usage["total_tokens"],
        },
    }
    return {**response, "usage": None} if "untold" in request.faults else response


def _events(request: Request, prompt: Prompt, completion: Completion, items: list[Json]) -> Iterator[Json]:
    """created, in_progress, each item from added to done, and completed or incomplete."""
    for name in ("created", "in_progress"):
        yield {"type": f"response.{name}", "response": _response_in_progress(request)}
    if "unknown" in request.faults:
        yield {"type": "response.future", "future": {"kind": 1}}
    for index, item in enumerate(items):
        yield from _item_events(index, item, is_noisy="noise" in request.faults)
    whole = _response(request, prompt, completion, items)
    yield {"type": f"response.{whole['status']}", "response": whole}


def _item_events(index: int, item: Json, *, is_noisy: bool) -> Iterator[Json]:
    """An item from added to done; noise is a delta of nothing behind each delta."""
    place = {"output_index": index}
    field, empty = _STREAMED_FIELDS.get(item["type"], ("future", None))
    yield {"type": "response.output_item.added", **place, "item": _added(item, field, empty)}
    for event in _inner_events({**place, "item_id": item["id"]}, item, field):
        yield event
        if is_noisy and "delta" in event:
            yield {**event, "delta": ""}
    yield {"type": "response.output_item.done", **place, "item": item}


def _inner_events(at: Json, item: Json, field: str) -> Iterator[Json]:
    if item["type"] == "message":
        yield from _message_events(at, item["content"][0])
    elif item["type"] == "reasoning":
        for number, part in enumerate(item["summary"]):
            yield from _summary_events({**at, "summary_index": number}, part)
    elif item["type"] in _CALL_EVENTS:
        name = _CALL_EVENTS[item["type"]]
        for piece in tokenize(item[field]):
            yield {"type": f"{name}.delta", **at, "delta": piece}
        yield {"type": f"{name}.done", **at, field: item[field]}


def _added(item: Json, field: str, empty: Any) -> Json:  # an empty text or list
    """An item at its begin; of encrypted content only a part, which is good for nothing."""
    added = {**item, field: empty}
    if "status" in item:
        added["status"] = "in_progress"
    if "encrypted_content" in item:
        added["encrypted_content"] = item["encrypted_content"][:20]
    return added


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


def responses_and_store(request: Request, known: Collection[str] = ()) -> Response:
    """``POST /v1/responses``; ``known`` as for ``responses``."""
    response = responses(request, known)
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
    keep_items(request, response["output"])
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
    body = _checked_body(request)
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
    body = _checked_body(request)
    return json_response({"object": "response.input_tokens", "input_tokens": read_prompt(body).tokens})


def _checked_body(request: Request) -> Json:
    """The body, which has the fields of a response's request; the input may be missing."""
    body = {name: value for name, value in request.body.items() if value is not None}
    validate(body, REQUEST, lenient=True)
    return _checked(replace(request, body={"input": [], **body})).body


RESPONSE_HANDLERS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/responses/{}/cancel"): cancel_response,
    ("POST", "/responses/compact"): compact_conversation,
    ("POST", "/responses/input_tokens"): count_input_tokens,
}
