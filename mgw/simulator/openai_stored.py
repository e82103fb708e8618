"""OpenAI's chat completions and responses once more, as things that are kept: with their messages and items.

Sources: the resources ``chat.completions`` and ``responses`` of ``openai`` 3.54.  A chat is kept where
``store`` says so, a response unless it says no.
"""

from typing import Final

import msgspec

from mgw.simulator import openai_chat, openai_responses
from mgw.simulator.answer import Answer, Call, Handler, Json, Refusal, Stream, Unary, unary
from mgw.simulator.openai_errors import require
from mgw.simulator.openai_items import REQUEST, check, items_of, read_prompt
from mgw.simulator.resources import item_at, key_at, said

_RESPONSE: Final = "/v1/responses/{}"


def chat(call: Call) -> Answer:
    """``POST /v1/chat/completions``."""
    answer = openai_chat.chat(call)
    if call.body.get("store") is True:
        whole = answer
        if isinstance(answer, Stream):
            unstreamed = {name: value for name, value in call.body.items() if not name.startswith("stream")}
            whole = openai_chat.chat(msgspec.structs.replace(call, body=unstreamed))
        if isinstance(whole, Unary):
            _keep_chat(call, msgspec.json.decode(whole.body))
    return answer


def _keep_chat(call: Call, made: Json) -> None:
    family, name = call.family.value, made["id"]
    made["metadata"] = call.body.get("metadata") or {}
    call.store.put((family, "/chat/completions", name), made)
    for index, message in enumerate(call.body["messages"]):
        one = {"id": f"{name}-{index}", "name": None, "content_parts": None, **message}
        call.store.put((family, f"/chat/completions/{name}/messages", one["id"]), one)


def responses(call: Call) -> Answer:
    """``POST /v1/responses``."""
    answer = openai_responses.responses(call)
    if call.body.get("store") is not False:
        if isinstance(answer, Unary):
            _keep_response(call, msgspec.json.decode(answer.body))
        elif isinstance(answer, Stream) and answer.pieces:
            last = answer.pieces[-1].partition(b"data: ")[2]
            _keep_response(call, msgspec.json.decode(last)["response"])
    return answer


def _keep_response(call: Call, made: Json) -> None:
    family, name = call.family.value, made["id"]
    call.store.put((family, "/responses", name), made)
    for index, item in enumerate(items_of(call.body)):
        one = {"id": f"{name}_{index}", **item}
        call.store.put((family, f"/responses/{name}/input_items", one["id"]), one)


def cancel(call: Call) -> Answer:
    """``POST /v1/responses/{}/cancel``: only what runs in the background can be."""
    found = item_at(call, _RESPONSE)
    if found.get("background") is False:
        raise Refusal(400, "Cannot cancel a synchronous response.")
    return said(call, call.store.put(key_at(call, _RESPONSE), {**found, "status": "cancelled"}))


def compact(call: Call) -> Answer:
    """``POST /v1/responses/compact``: what was said, in one item that only the model understands."""
    body = _checked(call)
    items, tokens = items_of(body), read_prompt(body).tokens
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
    return unary({**made, "output": [*kept, item], "usage": usage})


def input_tokens(call: Call) -> Answer:
    """``POST /v1/responses/input_tokens``."""
    body = _checked(call)
    return unary({"object": "response.input_tokens", "input_tokens": read_prompt(body).tokens})


def _checked(call: Call) -> Json:
    """The body, which has the fields of a response's request, with an input."""
    body = {name: value for name, value in call.body.items() if value is not None}
    require(body, REQUEST, lenient=True)
    check({"input": "", **body})
    return body


CLAIMS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/responses/{}/cancel"): cancel,
    ("POST", "/responses/compact"): compact,
    ("POST", "/responses/input_tokens"): input_tokens,
}
