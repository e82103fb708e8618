"""The request of OpenAI's chat completions: its fields, its rules, and what the simulator reads from it."""

import re
from typing import Any, Final

from mgw.simulator.answer import Json, Refusal
from mgw.simulator.checks import (
    ANYTHING,
    Field,
    Shape,
    array,
    boolean,
    either,
    integer,
    mapping,
    number,
    string,
)
from mgw.simulator.mind import Choice, Prompt, Result, Tool
from mgw.simulator.openai_messages import MESSAGE, check_tool_turns, prompt_tokens, text_of
from mgw.simulator.schema_check import schema_fault

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
TIERS: Final = ("auto", "default", "flex", "scale", "priority", "fast")

_FUNCTION = Shape(
    {"name": string(), "description": string(), "parameters": mapping(), "strict": boolean()},
    required=("name",),
)
_TOOL = Shape(
    {
        "type": string("function", "custom"),
        "function": Field(("object",), null=False, shape=_FUNCTION),
        "custom": mapping(),
    },
    required=("type",),
)
_BY_NAME = Shape({"name": string()}, required=("name",))
_ALLOWED = Shape(
    {
        "mode": string("auto", "required"),
        "tools": array(
            mapping(
                Shape(
                    {"type": string("function"), "function": mapping(_BY_NAME)}, required=("type", "function")
                )
            )
        ),
    },
    required=("mode", "tools"),
)
_NAMED = Shape(
    {
        "type": string("function", "allowed_tools", "custom"),
        "function": mapping(_BY_NAME),
        "allowed_tools": mapping(_ALLOWED),
        "custom": mapping(),
    },
    required=("type",),
)
_SCHEMA = Shape(
    {"name": string(), "description": string(), "schema": mapping(), "strict": boolean()}, required=("name",)
)
_FORMAT = Shape(
    {"type": string("text", "json_object", "json_schema"), "json_schema": mapping(_SCHEMA)},
    required=("type",),
)
STREAM_OPTIONS: Final = mapping(Shape({"include_usage": boolean(), "include_obfuscation": boolean()}))

REQUEST: Final = Shape(
    {
        "messages": array(mapping(MESSAGE)),
        "model": string(),
        "audio": mapping(),
        "frequency_penalty": number(-2, 2),
        "function_call": either(string(), mapping()),
        "functions": array(mapping(_FUNCTION)),
        "logit_bias": mapping(),
        "logprobs": boolean(),
        "max_completion_tokens": integer(1),
        "max_tokens": integer(1),
        "metadata": mapping(),
        "modalities": array(string("text", "audio")),
        "moderation": mapping(),
        "n": integer(1, 128),
        "parallel_tool_calls": boolean(),
        "prediction": mapping(),
        "presence_penalty": number(-2, 2),
        "prompt_cache_key": string(),
        "prompt_cache_options": mapping(),
        "prompt_cache_retention": string("in_memory", "in-memory", "24h"),
        "reasoning_effort": string(*EFFORTS),
        "response_format": mapping(_FORMAT),
        "safety_identifier": string(),
        "seed": integer(),
        "service_tier": string(*TIERS),
        "stop": either(string(), array(string())),
        "store": boolean(),
        "stream": boolean(),
        "stream_options": STREAM_OPTIONS,
        "temperature": number(0, 2),
        "tool_choice": either(string("none", "auto", "required"), mapping(_NAMED)),
        "tools": array(mapping(_TOOL)),
        "top_logprobs": integer(0, 20),
        "top_p": number(0, 1),
        "user": string(),
        "verbosity": string("low", "medium", "high"),
        "web_search_options": ANYTHING,
    },
    required=("messages", "model"),
)


def check(body: Json) -> None:
    """What the tables cannot say."""
    for broken, message, param in (
        (not body["messages"], "Invalid 'messages': empty array.", "messages"),
        (body.get("tools") == [], "Invalid 'tools': empty array.", "tools"),
        (
            body.get("stream_options") and not body.get("stream"),
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            "stream_options",
        ),
        (
            body.get("max_tokens") and body.get("max_completion_tokens"),
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
            "max_tokens",
        ),
        (
            body.get("top_logprobs") and not body.get("logprobs"),
            "'top_logprobs' is only allowed when 'logprobs' is enabled.",
            "top_logprobs",
        ),
        (
            isinstance(body.get("stop"), list) and len(body["stop"]) > 4,
            "Invalid 'stop': array too long. Expected an array with maximum length 4.",
            "stop",
        ),
    ):
        if broken:
            raise Refusal(400, message, param, "invalid_value")
    _check_needs_tools(body)
    check_tools(body.get("tools") or [])
    check_tool_turns(body["messages"])


def _check_needs_tools(body: Json) -> None:
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not body.get("tools"):
            message = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            raise Refusal(400, message, name)
    choice, wanted = body.get("tool_choice"), body.get("response_format") or {}
    if isinstance(choice, dict):
        _check_choice(choice, {tool["function"]["name"] for tool in body["tools"] if tool.get("function")})
    if wanted.get("type") == "json_schema":
        if not wanted.get("json_schema"):
            raise _missing("response_format.json_schema")
        check_format(wanted["json_schema"], "response_format")


def _check_choice(choice: Json, names: set[str]) -> None:
    if not choice.get(choice["type"]):
        raise _missing(f"tool_choice.{choice['type']}")
    _, wanted = _choice(choice)
    for name in wanted if choice["type"] != "custom" else ():
        if name not in names:
            said = f"Tool choice '{name}' not found in 'tools' parameter."
            raise Refusal(400, f"Invalid value for 'tool_choice': {said}", "tool_choice", "invalid_value")


def _missing(name: str) -> Refusal:
    return Refusal(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


def check_format(wanted: Json, param: str) -> None:
    """The schema of a structured answer is well-formed; ``strict`` asks more of it."""
    fault = schema_fault(wanted.get("schema") or {}, strict=bool(wanted.get("strict")))
    if fault:
        message = f"Invalid schema for response_format '{wanted.get('name')}': {fault}"
        raise Refusal(400, message, param, "invalid_json_schema")


def check_tools(tools: list[Json]) -> None:
    """Functions have names of 1 to 64 letters, digits, ``_`` and ``-``, and a JSON Schema."""
    for index, tool in enumerate(tools):
        if tool["type"] == "function":
            _check_function(f"tools[{index}].function", tool.get("function", tool))
        elif tool["type"] not in tool:
            raise _missing(f"tools[{index}].{tool['type']}")


def _check_function(where: str, function: Json) -> None:
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"Invalid '{where}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        raise Refusal(400, message, f"{where}.name", "invalid_value")
    fault = schema_fault(function.get("parameters") or {}, strict=bool(function.get("strict")))
    if fault:
        message = f"Invalid schema for function '{name}': {fault}"
        raise Refusal(400, message, f"{where}.parameters", "invalid_function_parameters")


def read_prompt(body: Json) -> Prompt:
    """What the answer depends on."""
    messages = body["messages"]
    last = next((text_of(message) for message in reversed(messages) if message["role"] == "user"), "")
    choice, allowed = _choice(body.get("tool_choice"))
    stop = body.get("stop")
    return Prompt(
        text=last,
        tokens=prompt_tokens(messages) + len(body.get("tools") or ()),
        tools=tuple(
            Tool(tool["function"]["name"], tool["function"].get("parameters"))
            for tool in body.get("tools") or ()
            if tool["type"] == "function"
        ),
        choice=choice,
        allowed=allowed,
        parallel=body.get("parallel_tool_calls") is not False,
        results=_results(messages),
        schema=_schema(body.get("response_format") or {}),
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        stops=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        thinks=body.get("reasoning_effort") not in {None, "none"},
    )


def _choice(said: Any) -> tuple[Choice, tuple[str, ...]]:  # a string or an object
    if not isinstance(said, dict):
        return {"none": Choice.NONE, "required": Choice.ANY}.get(said, Choice.AUTO), ()
    if said["type"] == "allowed_tools":
        names = tuple(tool["function"]["name"] for tool in said["allowed_tools"]["tools"])
        return (Choice.ANY if said["allowed_tools"]["mode"] == "required" else Choice.AUTO), names
    return Choice.ANY, (said.get(said["type"], {}).get("name", ""),)


def _schema(wanted: Json) -> Any:  # a JSON Schema
    if wanted.get("type") == "json_schema":
        return wanted["json_schema"].get("schema") or True
    return True if wanted.get("type") == "json_object" else None


def _results(messages: list[Json]) -> tuple[Result, ...]:
    """The tool messages at the end, with the names from the calls that they answer."""
    names = {made["id"]: made for message in messages for made in message.get("tool_calls") or ()}
    found: list[Result] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        made = names[message["tool_call_id"]]
        found.insert(
            0, Result(made.get("function", made.get("custom", {})).get("name", ""), text_of(message))
        )
    return tuple(found)
