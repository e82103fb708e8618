"""The items of OpenAI's responses: a thought, a message or a call for each part of the model's answer.

A call is of the kind of its tool: a ``function_call``, or a ``custom_tool_call``, whose input is any text; of
a tool in a namespace it has the ``namespace``, too.  A thought has a summary where ``reasoning.summary`` asks
for one, and its encrypted content where ``include`` does.
"""

from typing import Final

from mgw_sim.api import Json, Request
from mgw_sim.model import Completion, FinishReason, Text, Thinking, ToolCall
from mgw_sim.openai.responses_history import seal
from mgw_sim.openai.responses_tools import DeclaredTool, declared_tools

INCOMPLETE: Final = {
    FinishReason.LENGTH: "max_output_tokens",
    FinishReason.BLOCKED: "content_filter",
}
"""Why a response is not complete, by why the answer ends."""
_ENCRYPTED: Final = "reasoning.encrypted_content"


def output_items(request: Request, completion: Completion) -> list[Json]:
    """The items of an answer; an empty message where it has nothing to say and was not cut short."""
    tools = declared_tools(request.body)
    items = [_search(request, number) for number in range(request.faults.number("searches") or 0)]
    for part in completion.parts:
        number = sum(item["type"] == _TYPES.get(type(part)) for item in items)
        match part:
            case Thinking():
                items.append(_thought(request, number, part))
            case Text():
                items.append(_message(request, number, part.text, completion))
            case ToolCall():
                place = sum("call_id" in item for item in items)
                items.append(_call(request, place, part, tools[part.name]))
    if (
        not completion.tool_calls
        and not completion.text
        and completion.finish_reason is not FinishReason.LENGTH
    ):
        items.append(_message(request, 0, "", completion))
    if items and completion.finish_reason in INCOMPLETE and "status" in items[-1]:
        items[-1]["status"] = "incomplete"
    if _ENCRYPTED in (request.body.get("include") or ()):
        _encrypt(items)
    unknown: Json = {"id": request.id("fut_"), "type": "future_call", "future": {"kind": 1}}
    return [*items, unknown] if "unknown" in request.faults else items


_TYPES: Final = {Thinking: "reasoning", Text: "message"}


def _name(request: Request, prefix: str, number: int) -> str:
    return request.id(prefix, f"_{number}" if number else "")


def _search(request: Request, number: int) -> Json:
    return {
        "id": _name(request, "ws_", number),
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "news"},
    }


def _thought(request: Request, number: int, part: Thinking) -> Json:
    wanted = (request.body.get("reasoning") or {}).get("summary") and not part.hidden
    summary = [{"type": "summary_text", "text": part.text}] if wanted else []
    return {"id": _name(request, "rs_", number), "type": "reasoning", "summary": summary}


def _message(request: Request, number: int, text: str, completion: Completion) -> Json:
    is_refusal = completion.finish_reason is FinishReason.REFUSAL
    spoken: Json = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "id": _name(request, "msg_", number),
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "refusal", "refusal": text} if is_refusal else spoken],
    }


def _call(request: Request, place: int, call: ToolCall, tool: DeclaredTool) -> Json:
    is_custom = tool.kind == "custom"
    item: Json = {
        "id": request.id("ctc_" if is_custom else "fc_", f"_{place}"),
        "type": "custom_tool_call" if is_custom else "function_call",
        "status": "completed",
        "call_id": request.id("call_", f"_{place}"),
        "name": tool.name,
        "input" if is_custom else "arguments": call.arguments,
    }
    return item if tool.namespace is None else {**item, "namespace": tool.namespace}


def _encrypt(items: list[Json]) -> None:
    """Give each thought its encrypted content, which names what must follow it: no empty message must."""
    for item, following in zip(items, [*items[1:], None], strict=True):
        if item["type"] == "reasoning":
            item["encrypted_content"] = seal(item["id"], None if _is_silent(following) else following)


def _is_silent(item: Json | None) -> bool:
    return item is not None and item["type"] == "message" and item["content"][0].get("text") == ""
