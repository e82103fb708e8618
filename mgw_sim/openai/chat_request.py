"""The request of OpenAI's chat completions: its fields, its rules, and what the simulator reads from it.

What OpenAI's own models refuse goes by their names; compatible hosts take more.  Sources: the reference's
notes on ``max_tokens`` and ``stop``, and the words of the API's own errors.  A name that no pattern matches
is a host's model.
"""

import re
from typing import Any, Final

from mgw_sim.api import ApiError, Json
from mgw_sim.json_schema import schema_error
from mgw_sim.model import Prompt, Tool, ToolChoice, ToolResult
from mgw_sim.openai.chat_messages import MESSAGE, check_tool_turns, prompt_tokens, text_of
from mgw_sim.validation import (
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
_FUNCTION_NAME = Shape({"name": string()}, required=("name",))
_ALLOWED_TOOLS = Shape(
    {
        "mode": string("auto", "required"),
        "tools": array(
            mapping(
                Shape(
                    {"type": string("function"), "function": mapping(_FUNCTION_NAME)},
                    required=("type", "function"),
                )
            )
        ),
    },
    required=("mode", "tools"),
)
_TOOL_CHOICE = Shape(
    {
        "type": string("function", "allowed_tools", "custom"),
        "function": mapping(_FUNCTION_NAME),
        "allowed_tools": mapping(_ALLOWED_TOOLS),
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
        "tool_choice": either(string("none", "auto", "required"), mapping(_TOOL_CHOICE)),
        "tools": array(mapping(_TOOL)),
        "top_logprobs": integer(0, 20),
        "top_p": number(0, 1),
        "user": string(),
        "verbosity": string("low", "medium", "high"),
        "web_search_options": ANYTHING,
    },
    required=("messages", "model"),
)
_FIRST_PARTY: Final = re.compile(r"chatgpt-|gpt-(?:3\.5|4|[5-9])|o[134]\b")
_REASONING: Final = re.compile(r"(?:o[134]\b|gpt-[5-9])(?!.*-chat)")
_FIXED_SAMPLING: Final = re.compile(r"(?:o[134]|gpt-5)(?:-(?:mini|nano|\d{4})[^+]*)?(?:\+|\Z)")
_NO_STOP: Final = re.compile(r"o3\b|o4-mini\b")
_HOSTS_FIELDS: Final = ("reasoning_content", "reasoning_details", "extra_content", "prefix")


def check_request(body: Json) -> None:
    """What the tables cannot say."""
    for is_broken, message, param in (
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
        if is_broken:
            raise ApiError(400, message, param, "invalid_value")
    _check_needs_tools(body)
    check_tools(body.get("tools") or [])
    check_tool_turns(body["messages"])


def _check_needs_tools(body: Json) -> None:
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not body.get("tools"):
            message = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            raise ApiError(400, message, name)
    choice, response_format = body.get("tool_choice"), body.get("response_format") or {}
    if isinstance(choice, dict):
        _check_choice(choice, {tool["function"]["name"] for tool in body["tools"] if tool.get("function")})
    if response_format.get("type") == "json_schema":
        if not response_format.get("json_schema"):
            raise _missing_parameter("response_format.json_schema")
        check_format(response_format["json_schema"], "response_format")


def _check_choice(choice: Json, names: set[str]) -> None:
    if not choice.get(choice["type"]):
        raise _missing_parameter(f"tool_choice.{choice['type']}")
    _, wanted_names = _tool_choice(choice)
    for name in wanted_names if choice["type"] != "custom" else ():
        if name not in names:
            message = f"Tool choice '{name}' not found in 'tools' parameter."
            raise ApiError(400, f"Invalid value for 'tool_choice': {message}", "tool_choice", "invalid_value")


def _missing_parameter(name: str) -> ApiError:
    return ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


def check_format(json_schema: Json, param: str) -> None:
    """The schema of a structured answer is well-formed; ``strict`` asks more of it."""
    fault = schema_error(json_schema.get("schema") or {}, strict=bool(json_schema.get("strict")))
    if fault:
        message = f"Invalid schema for response_format '{json_schema.get('name')}': {fault}"
        raise ApiError(400, message, param, "invalid_json_schema")


def check_tools(tools: list[Json]) -> None:
    """Functions have names of 1 to 64 letters, digits, ``_`` and ``-``, and a JSON Schema."""
    for index, tool in enumerate(tools):
        if tool["type"] == "function":
            check_function(f"tools[{index}].function", tool.get("function", tool))
        elif tool["type"] not in tool:
            raise _missing_parameter(f"tools[{index}].{tool['type']}")


def check_function(where: str, function: Json) -> None:
    """Raise the ApiError for a function whose name or schema OpenAI does not take."""
    name = function.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        message = f"Invalid '{where}.name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
        raise ApiError(400, message, f"{where}.name", "invalid_value")
    fault = schema_error(function.get("parameters") or {}, strict=bool(function.get("strict")))
    if fault:
        message = f"Invalid schema for function '{name}': {fault}"
        raise ApiError(400, message, f"{where}.parameters", "invalid_function_parameters")


def read_prompt(body: Json) -> Prompt:
    """What the answer depends on."""
    messages = body["messages"]
    last = next((text_of(message) for message in reversed(messages) if message["role"] == "user"), "")
    choice, allowed = _tool_choice(body.get("tool_choice"))
    stop = body.get("stop")
    return Prompt(
        text=last,
        tokens=prompt_tokens(messages) + len(body.get("tools") or ()),
        tools=tuple(
            Tool(tool["function"]["name"], tool["function"].get("parameters"))
            for tool in body.get("tools") or ()
            if tool["type"] == "function"
        ),
        tool_choice=choice,
        allowed_tools=allowed,
        parallel=body.get("parallel_tool_calls") is not False,
        results=_tool_results(messages),
        schema=_schema(body.get("response_format") or {}),
        max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
        stop_sequences=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        wants_thinking=body.get("reasoning_effort") not in {None, "none"},
    )


def _tool_choice(value: Any) -> tuple[ToolChoice, tuple[str, ...]]:  # a string or an object
    if not isinstance(value, dict):
        return {"none": ToolChoice.NONE, "required": ToolChoice.ANY}.get(value, ToolChoice.AUTO), ()
    if value["type"] == "allowed_tools":
        names = tuple(tool["function"]["name"] for tool in value["allowed_tools"]["tools"])
        return (ToolChoice.ANY if value["allowed_tools"]["mode"] == "required" else ToolChoice.AUTO), names
    return ToolChoice.ANY, (value.get(value["type"], {}).get("name", ""),)


def _schema(response_format: Json) -> Any:  # a JSON Schema
    if response_format.get("type") == "json_schema":
        return response_format["json_schema"].get("schema") or True
    return True if response_format.get("type") == "json_object" else None


def _tool_results(messages: list[Json]) -> tuple[ToolResult, ...]:
    """The tool messages at the end, with the names from the calls that they answer."""
    names = {
        tool_call["id"]: tool_call for message in messages for tool_call in message.get("tool_calls") or ()
    }
    results: list[ToolResult] = []
    for message in reversed(messages):
        if message["role"] != "tool":
            break
        tool_call = names[message["tool_call_id"]]
        results.insert(
            0,
            ToolResult(
                tool_call.get("function", tool_call.get("custom", {})).get("name", ""), text_of(message)
            ),
        )
    return tuple(results)


def check_model(model: str, body: Json) -> None:
    """Raise the ApiError for the first thing that a model of this name does not take."""
    if _FIRST_PARTY.match(model):
        _check_hosts_fields(body["messages"])
        _check_json_word(body)
    if _REASONING.match(model) and body.get("max_tokens") is not None:
        message = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        raise _unsupported_parameter("max_tokens", f"Unsupported parameter: {message}")
    if _NO_STOP.match(model) and body.get("stop") is not None:
        raise _unsupported_parameter(
            "stop", "Unsupported parameter: 'stop' is not supported with this model."
        )
    for name in ("temperature", "top_p"):
        value = body.get(name)
        if value not in {None, 1} and _FIXED_SAMPLING.match(model):
            message = (
                f"'{name}' does not support {value} with this model. Only the default (1) value is supported."
            )
            raise ApiError(400, f"Unsupported value: {message}", name, "unsupported_value")


def _unsupported_parameter(name: str, message: str) -> ApiError:
    return ApiError(400, message, name, "unsupported_parameter")


def _check_hosts_fields(messages: list[Json]) -> None:
    """The schema of messages is closed; what other hosts have added to it is unknown here."""
    for index, message in enumerate(messages):
        places: list[tuple[str, Json, tuple[str, ...]]] = [(f"messages[{index}]", message, _HOSTS_FIELDS)]
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            places.append((f"messages[{index}].content[{place}]", part, ("cache_control",)))
        for place, tool_call in enumerate(message.get("tool_calls") or ()):
            places.append((f"messages[{index}].tool_calls[{place}]", tool_call, ("extra_content",)))
        for path, value, names in places:
            for name in names:
                if name in value:
                    param = f"{path}.{name}"
                    raise ApiError(400, f"Unknown parameter: '{param}'.", param, "unknown_parameter")


def _check_json_word(body: Json) -> None:
    format_type = (body.get("response_format") or {}).get("type")
    if format_type == "json_object" and not any("json" in text_of(one).lower() for one in body["messages"]):
        rule = "'messages' must contain the word 'json' in some form, to use 'response_format' of type"
        raise ApiError(400, f"{rule} 'json_object'.", "messages")
