"""The messages of a chat: their shape, their text, and which tool messages belong to which calls."""

import re
from typing import Any, Final

from mgw.simulator.answer import Json, Refusal
from mgw.simulator.checks import ANYTHING, Shape, array, boolean, either, integer, mapping, string, tagged
from mgw.simulator.mind import count
from mgw.simulator.openai_media import check_media

_NAME: Final = re.compile(r"[^\s<|\\/>]+")
MAX_CALL_ID: Final = 40

_CACHING = {"prompt_cache_breakpoint": ANYTHING, "cache_control": ANYTHING}
_PART = tagged(
    text=Shape({"text": string(), **_CACHING}, required=("text",)),
    image_url=Shape(
        {
            "image_url": mapping(Shape({"url": string(), "detail": string()}, required=("url",))),
            **_CACHING,
        },
        required=("image_url",),
    ),
    input_audio=Shape(
        {
            "input_audio": mapping(
                Shape({"data": string(), "format": string("wav", "mp3")}, required=("data", "format"))
            ),
            **_CACHING,
        },
        required=("input_audio",),
    ),
    file=Shape(
        {
            "file": mapping(Shape({"file_data": string(), "file_id": string(), "filename": string()})),
            **_CACHING,
        },
        required=("file",),
    ),
    refusal=Shape({"refusal": string()}, required=("refusal",)),
)
_CALLED = Shape(
    {
        "name": string(),
        "arguments": string(),
        "parsed_arguments": ANYTHING,  # as ``parsed``: OpenAI's SDK sends back what its parsers returned
    },
    required=("name", "arguments"),
)
_CALL = Shape(
    {
        "id": string(),
        "type": string("function", "custom"),
        "function": mapping(_CALLED),
        "custom": mapping(),
        "index": integer(),
        "extra_content": ANYTHING,  # Google's OpenAI surface keeps thought signatures there
    },
    required=("id", "type"),
)
MESSAGE: Final = Shape(
    {
        "role": string("developer", "system", "user", "assistant", "tool", "function"),
        "content": either(string(), array(_PART)),
        "name": string(),
        "refusal": string(),
        "audio": mapping(),
        "annotations": ANYTHING,
        "function_call": mapping(_CALLED),
        "tool_calls": array(mapping(_CALL)),
        "tool_call_id": string(),
        "reasoning_content": string(),  # hosts that show their thinking take it back here
        "reasoning_details": ANYTHING,
        "extra_content": ANYTHING,
        "parsed": ANYTHING,
        "prefix": boolean(),
    },
    required=("role",),
)


def text_of(message: Json) -> str:
    """The text of a message, its parts joined."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content or () if part["type"] == "text")


def prompt_tokens(messages: list[Json]) -> int:
    """Words, one more for each part that is no text and for each call, plus those of its arguments."""
    found = 0
    for message in messages:
        found += count(text_of(message))
        content: Any = message.get("content")
        if isinstance(content, list):
            found += sum(part["type"] != "text" for part in content)
        for made in message.get("tool_calls") or ():
            found += 1 + count((made.get("function") or {}).get("arguments", ""))
    return found


def check_tool_turns(messages: list[Json]) -> None:
    """Each call of an assistant's turn has its tool message directly behind, and no other has one."""
    open_calls: list[str] = []
    opened_at = 0
    for index, message in enumerate(messages):
        _check_content(index, message)
        check_media(index, message)
        if message["role"] == "tool":
            _answered(index, message, open_calls)
            continue
        if open_calls:
            raise _unanswered(opened_at, open_calls)
        for place, made in enumerate(message.get("tool_calls") or ()):
            _check_call(f"messages[{index}].tool_calls[{place}]", made)
            open_calls.append(made["id"])
            opened_at = index
    if open_calls:
        raise _unanswered(opened_at, open_calls)


def _check_content(index: int, message: Json) -> None:
    speaks = (
        message.get("tool_calls")
        or message.get("function_call")
        or message.get("refusal")
        or message.get("audio")
    )
    if message.get("content") is None and not (message["role"] == "assistant" and speaks):
        name = f"messages[{index}].content"
        raise Refusal(400, f"Invalid value for 'content': expected a string, got null. ({name})", name)
    if message.get("name") is not None and not _NAME.fullmatch(message["name"]):
        name = f"messages[{index}].name"
        wanted = "Expected a string that matches the pattern '^[^\\s<|\\\\/>]+$'."
        raise Refusal(
            400, f"Invalid '{name}': string does not match pattern. {wanted}", name, "invalid_value"
        )
    if message.get("tool_calls") == []:
        name = f"messages[{index}].tool_calls"
        raise Refusal(400, f"Invalid '{name}': empty array. Expected at least 1.", name, "empty_array")


def _check_call(path: str, made: Json) -> None:
    if not made.get(made["type"]):
        name = f"{path}.{made['type']}"
        raise Refusal(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if len(made["id"]) > MAX_CALL_ID:
        name = f"{path}.id"
        message = f"Invalid '{name}': string too long. Expected a string with maximum length {MAX_CALL_ID}."
        raise Refusal(400, message, name, "string_above_max_length")


def _answered(index: int, message: Json, open_calls: list[str]) -> None:
    if message.get("tool_call_id") is None:
        name = f"messages[{index}].tool_call_id"
        raise Refusal(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if message["tool_call_id"] not in open_calls:
        said = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        raise Refusal(400, f"Invalid parameter: {said}", f"messages.[{index}].role")
    open_calls.remove(message["tool_call_id"])


def _unanswered(index: int, open_calls: list[str]) -> Refusal:
    message = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
    )
    return Refusal(400, message, f"messages.[{index}].role")
