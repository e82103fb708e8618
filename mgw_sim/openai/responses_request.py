"""The request of OpenAI's responses: its fields, and what the simulator reads from it."""

from typing import Any, Final

from mgw_sim.api import ApiError, Json
from mgw_sim.model import Prompt, ToolResult, token_count
from mgw_sim.openai.chat_request import EFFORTS, TIERS, check_format
from mgw_sim.openai.responses_items import (
    ANY_TOOL,
    OUTPUTS,
    check_items,
    input_items,
    item_tokens,
    text_of,
)
from mgw_sim.openai.responses_tools import (
    all_tools,
    callable_tools,
    check_declared_tools,
    check_tool_choice,
    read_tool_choice,
)
from mgw_sim.validation import (
    ANYTHING,
    Shape,
    array,
    boolean,
    either,
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
_CHOICE: Final = Shape(
    {
        "type": string(),
        "name": string(),
        "mode": string("auto", "required"),
        "tools": array(mapping(Shape({"type": string(), "name": string()}, ("type",), is_open=True))),
    },
    required=("type",),
    is_open=True,
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
        "tool_choice": either(string("none", "auto", "required"), mapping(_CHOICE)),
        "tools": array(mapping(ANY_TOOL)),
        "top_logprobs": integer(0, 20),
        "top_p": number(0, 1),
        "truncation": string("auto", "disabled"),
        "user": string(),
    },
    required=("model",),
)


def check_request(body: Json, *, lenient: bool) -> None:
    """Raise the ApiError for the first rule that a request breaks; ``lenient`` allows unknown fields."""
    if body.get("input") is None and not (body.get("prompt") or body.get("previous_response_id")):
        raise ApiError(400, "Missing required parameter: 'input'.", "input", "missing_required_parameter")
    check_items(input_items(body), lenient=lenient)
    check_declared_tools(all_tools(body), lenient=lenient)
    check_tool_choice(body)
    text_format = (body.get("text") or {}).get("format") or {}
    if text_format.get("type") == "json_schema":
        check_format(text_format, "text.format")


def read_prompt(body: Json) -> Prompt:
    """What the answer depends on."""
    items = input_items(body)
    users = [item for item in items if item.get("role") == "user"]
    total = token_count(body.get("instructions") or "") + len(all_tools(body)) + sum(map(item_tokens, items))
    choice, allowed = read_tool_choice(body)
    return Prompt(
        text=text_of(users[-1]) if users else "",
        tokens=max(1, total),
        tools=callable_tools(body),
        tool_choice=choice,
        allowed_tools=allowed,
        parallel=body.get("parallel_tool_calls") is not False,
        results=_tool_results(items),
        schema=_schema((body.get("text") or {}).get("format") or {}),
        max_tokens=body.get("max_output_tokens"),
        wants_thinking=_wants_thinking(body.get("reasoning") or {}),
    )


def _wants_thinking(reasoning: Json) -> bool:
    effort = reasoning.get("effort")
    return effort != "none" and (effort is not None or reasoning.get("summary") is not None)


def _schema(text_format: Json) -> Any:  # a JSON Schema
    if text_format.get("type") == "json_schema":
        return text_format.get("schema") or True
    return True if text_format.get("type") == "json_object" else None


def _tool_results(items: list[Json]) -> tuple[ToolResult, ...]:
    """The outputs at the end, with the names from the calls that they answer."""
    names = {str(item.get("call_id")): item.get("name") for item in items if item["type"].endswith("_call")}
    results: list[ToolResult] = []
    for item in reversed(items):
        if item["type"] not in OUTPUTS:
            break
        name = names.get(str(item.get("call_id"))) or item.get("name") or "a tool"
        results.insert(0, ToolResult(str(name), text_of(item)))
    return tuple(results)
