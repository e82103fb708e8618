"""The request of OpenAI's responses: its fields, its input items, and what the simulator reads from them."""

from typing import Any, Final

from mgw.simulator.api import ApiError, Json
from mgw.simulator.model import Prompt, Tool, ToolChoice, ToolResult, token_count
from mgw.simulator.openai.chat_request import EFFORTS, TIERS, check_format, check_tools
from mgw.simulator.openai.errors import error_for
from mgw.simulator.validation import (
    ANYTHING,
    Field,
    Shape,
    array,
    boolean,
    either,
    find_problems,
    integer,
    mapping,
    number,
    string,
)

_FORMAT: Final = Shape(
    {
        "type": string("text", "json_object", "json_schema"),
        "name": string(),
        "schema": mapping(),
        "description": string(),
        "strict": boolean(),
    },
    required=("type",),
)
REQUEST: Final = Shape(
    {
        "model": string(),
        "input": either(string(), array(mapping())),
        "access_programs": mapping(),
        "background": boolean(),
        "background_options": mapping(),
        "client_metadata": mapping(),
        "context_management": array(),
        "conversation": ANYTHING,
        "image": mapping(),
        "include": array(string()),
        "instructions": string(),
        "max_output_tokens": integer(1),
        "max_tool_calls": integer(1),
        "metadata": mapping(),
        "moderation": mapping(),
        "parallel_tool_calls": boolean(),
        "previous_response_id": string(),
        "prompt": mapping(),
        "prompt_cache_key": string(),
        "prompt_cache_options": mapping(),
        "prompt_cache_retention": string("in_memory", "in-memory", "24h"),
        "reasoning": mapping(
            Shape(
                {
                    "effort": string(*EFFORTS),
                    "summary": string("auto", "concise", "detailed"),
                    "generate_summary": string("auto", "concise", "detailed"),
                    "context": string("auto", "current_turn", "all_turns"),
                    "mode": string(),
                }
            )
        ),
        "safety_identifier": string(),
        "service_tier": string(*TIERS),
        "store": boolean(),
        "stream": boolean(),
        "stream_options": mapping(Shape({"include_obfuscation": boolean()})),
        "temperature": number(0, 2),
        "text": mapping(Shape({"format": mapping(_FORMAT), "verbosity": string("low", "medium", "high")})),
        "tool_choice": either(string("none", "auto", "required"), mapping()),
        "tools": array(mapping(Shape({"type": string()}, required=("type",), is_open=True))),
        "top_logprobs": integer(0, 20),
        "top_p": number(0, 1),
        "truncation": string("auto", "disabled"),
        "user": string(),
    },
    required=("model",),
)
_PARTS: Final = either(
    string(), array(mapping(Shape({"type": string(), "text": string()}, ("type",), is_open=True)))
)
_CALL_ID: Final = {"call_id": string()}
_ANY_ITEM: Final = Shape({}, is_open=True)
_ITEMS: Final = {
    "message": Shape(
        {"role": string("user", "assistant", "system", "developer"), "content": _PARTS},
        ("role", "content"),
        is_open=True,
    ),
    "function_call": Shape(
        {**_CALL_ID, "name": string(), "arguments": string()}, ("call_id", "name", "arguments"), is_open=True
    ),
    "function_call_output": Shape(
        {**_CALL_ID, "name": string(), "output": _PARTS}, ("call_id", "output"), is_open=True
    ),
    **dict.fromkeys(
        (
            "reasoning",
            "item_reference",
            "additional_tools",
            "custom_tool_call",
            "custom_tool_call_output",
            "local_shell_call",
            "local_shell_call_output",
            "shell_call",
            "shell_call_output",
            "apply_patch_call",
            "apply_patch_call_output",
            "web_search_call",
            "file_search_call",
            "computer_call",
            "computer_call_output",
            "code_interpreter_call",
            "image_generation_call",
            "mcp_call",
            "mcp_list_tools",
            "mcp_approval_request",
            "mcp_approval_response",
            "compaction",
            "tool_search_call",
            "tool_search_output",
        ),
        _ANY_ITEM,
    ),
}


def check_request(body: Json) -> None:
    """Raise the ApiError for the first rule that a request breaks."""
    if body.get("input") is None and not (body.get("prompt") or body.get("previous_response_id")):
        raise ApiError(400, "Missing required parameter: 'input'.", "input", "missing_required_parameter")
    if body.get("tool_choice") == "required" and not body.get("tools"):
        raise ApiError(400, "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")
    check_tools([tool for tool in body.get("tools") or () if tool["type"] == "function"])
    text_format = (body.get("text") or {}).get("format") or {}
    if text_format.get("type") == "json_schema":
        check_format(text_format, "text.format")
    called: set[str] = set()
    for index, item in enumerate(input_items(body)):
        _check_item(index, item)
        if item.get("type") == "function_call":
            called.add(item["call_id"])
        is_known = body.get("previous_response_id") or item.get("call_id") in called
        if item.get("type") == "function_call_output" and not is_known:
            message = f"No tool call found for function call output with call_id {item.get('call_id')}."
            raise ApiError(400, message, "input")


def _check_item(index: int, item: Json) -> None:
    typed = {"type": "message", **item}  # a message may leave its type out
    for problem in find_problems(typed, Field(("object",), variants=_ITEMS), ("input", index)):
        raise error_for(problem)


def input_items(body: Json) -> list[Json]:
    """The input as items; a mere text is a message of the user's."""
    value = body.get("input")
    if value is None:
        return []
    return [{"type": "message", "role": "user", "content": value}] if isinstance(value, str) else value


def _text(item: Json) -> str:
    content = item.get("content", item.get("output"))
    if isinstance(content, str):
        return content
    return " ".join(part.get("text") or "" for part in content or ())


def read_prompt(body: Json) -> Prompt:
    """What the answer depends on."""
    items = input_items(body)
    users = [item for item in items if item.get("role") == "user"]
    total = token_count(body.get("instructions") or "") + len(body.get("tools") or ())
    total += sum(token_count(_text(item)) + (item.get("type", "message") != "message") for item in items)
    choice, allowed = _tool_choice(body.get("tool_choice"))
    reasoning = body.get("reasoning") or {}
    return Prompt(
        text=_text(users[-1]) if users else "",
        tokens=max(1, total),
        tools=tuple(
            Tool(tool["name"], tool.get("parameters"))
            for tool in body.get("tools") or ()
            if tool["type"] == "function"
        ),
        tool_choice=choice,
        allowed_tools=allowed,
        parallel=body.get("parallel_tool_calls") is not False,
        results=_tool_results(items),
        schema=_schema((body.get("text") or {}).get("format") or {}),
        max_tokens=body.get("max_output_tokens"),
        wants_thinking=reasoning.get("effort") not in {None, "none"} or reasoning.get("summary") is not None,
    )


def _tool_choice(value: Any) -> tuple[ToolChoice, tuple[str, ...]]:  # a string or an object
    if not isinstance(value, dict):
        return {"none": ToolChoice.NONE, "required": ToolChoice.ANY}.get(value, ToolChoice.AUTO), ()
    if value.get("type") == "allowed_tools":
        names = tuple(tool.get("name", "") for tool in value.get("tools", ()))
        return (ToolChoice.ANY if value.get("mode") == "required" else ToolChoice.AUTO), names
    return ToolChoice.ANY, (value.get("name", ""),)


def _schema(text_format: Json) -> Any:  # a JSON Schema
    if text_format.get("type") == "json_schema":
        return text_format.get("schema") or True
    return True if text_format.get("type") == "json_object" else None


def _tool_results(items: list[Json]) -> tuple[ToolResult, ...]:
    """The outputs at the end, with the names from the calls that they answer."""
    names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
    results: list[ToolResult] = []
    for item in reversed(items):
        if item.get("type") != "function_call_output":
            break
        results.insert(
            0, ToolResult(str(names.get(item["call_id"]) or item.get("name") or "a tool"), _text(item))
        )
    return tuple(results)
