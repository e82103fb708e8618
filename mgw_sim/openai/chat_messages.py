"""The messages of a chat: their shape, their text and media, and which tool messages belong to which calls.

Sources: ``openai.types.chat`` (only a user's content has other parts than text and refusals) and the words of
the API's own errors.
"""

import base64
import binascii
import re
from typing import Any, Final

from mgw_sim.api import ApiError, Json
from mgw_sim.model import token_count
from mgw_sim.validation import ANYTHING, Shape, array, boolean, either, integer, mapping, string, tagged

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
_FUNCTION_CALL = Shape(
    {
        "name": string(),
        "arguments": string(),
        "parsed_arguments": ANYTHING,  # as ``parsed``: OpenAI's SDK sends back what its parsers returned
    },
    required=("name", "arguments"),
)
_TOOL_CALL = Shape(
    {
        "id": string(),
        "type": string("function", "custom"),
        "function": mapping(_FUNCTION_CALL),
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
        "function_call": mapping(_FUNCTION_CALL),
        "tool_calls": array(mapping(_TOOL_CALL)),
        "tool_call_id": string(),
        "reasoning_content": string(),  # hosts that show their thinking take it back here
        "reasoning_details": ANYTHING,
        "extra_content": ANYTHING,
        "parsed": ANYTHING,
        "prefix": boolean(),
    },
    required=("role",),
)
_DATA_URL: Final = re.compile(r"data:([^;,]+)(?:;[^;,]+)*;base64,(.+)", re.DOTALL)
_IMAGES: Final = ("image/png", "image/jpeg", "image/jpg", "image/gif", "image/webp")
_MEDIA: Final = {"image_url": "Image URL", "input_audio": "Audio input", "file": "File"}


def text_of(message: Json) -> str:
    """The text of a message, its parts joined."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(part["text"] for part in content or () if part["type"] == "text")


def prompt_tokens(messages: list[Json]) -> int:
    """Words, one more for each part that is no text and for each call, plus those of its arguments."""
    total = 0
    for message in messages:
        total += token_count(text_of(message))
        content: Any = message.get("content")
        if isinstance(content, list):
            total += sum(part["type"] != "text" for part in content)
        for tool_call in message.get("tool_calls") or ():
            total += 1 + token_count((tool_call.get("function") or {}).get("arguments", ""))
    return total


def check_tool_turns(messages: list[Json]) -> None:
    """Each call of an assistant's turn has its tool message directly behind, and no other has one."""
    open_calls: list[str] = []
    opened_at = 0
    for index, message in enumerate(messages):
        _check_content(index, message)
        check_media(index, message)
        if message["role"] == "tool":
            _check_tool_message(index, message, open_calls)
            continue
        if open_calls:
            raise _missing_tool_messages(opened_at, open_calls)
        for place, tool_call in enumerate(message.get("tool_calls") or ()):
            _check_call(f"messages[{index}].tool_calls[{place}]", tool_call)
            open_calls.append(tool_call["id"])
            opened_at = index
    if open_calls:
        raise _missing_tool_messages(opened_at, open_calls)


def _check_content(index: int, message: Json) -> None:
    has_other_content = (
        message.get("tool_calls")
        or message.get("function_call")
        or message.get("refusal")
        or message.get("audio")
    )
    if message.get("content") is None and not (message["role"] == "assistant" and has_other_content):
        name = f"messages[{index}].content"
        raise ApiError(400, f"Invalid value for 'content': expected a string, got null. ({name})", name)
    if message.get("name") is not None and not _NAME.fullmatch(message["name"]):
        name = f"messages[{index}].name"
        expectation = "Expected a string that matches the pattern '^[^\\s<|\\\\/>]+$'."
        raise ApiError(
            400, f"Invalid '{name}': string does not match pattern. {expectation}", name, "invalid_value"
        )
    if message.get("tool_calls") == []:
        name = f"messages[{index}].tool_calls"
        raise ApiError(400, f"Invalid '{name}': empty array. Expected at least 1.", name, "empty_array")


def _check_call(path: str, tool_call: Json) -> None:
    if not tool_call.get(tool_call["type"]):
        name = f"{path}.{tool_call['type']}"
        raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if len(tool_call["id"]) > MAX_CALL_ID:
        name = f"{path}.id"
        message = f"Invalid '{name}': string too long. Expected a string with maximum length {MAX_CALL_ID}."
        raise ApiError(400, message, name, "string_above_max_length")


def _check_tool_message(index: int, message: Json, open_calls: list[str]) -> None:
    if message.get("tool_call_id") is None:
        name = f"messages[{index}].tool_call_id"
        raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if message["tool_call_id"] not in open_calls:
        rule = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        raise ApiError(400, f"Invalid parameter: {rule}", f"messages.[{index}].role")
    open_calls.remove(message["tool_call_id"])


def _missing_tool_messages(index: int, open_calls: list[str]) -> ApiError:
    message = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(open_calls)}"
    )
    return ApiError(400, message, f"messages.[{index}].role")


def is_base64(text: str) -> bool:
    """Whether a text is base64 of something, line breaks left aside."""
    try:
        return bool(base64.b64decode("".join(text.split()), validate=True))
    except (binascii.Error, ValueError):
        return False


def check_media(index: int, message: Json) -> None:
    """Raise the ApiError for the first part of a message that may not stand there, or is no such thing."""
    content = message.get("content")
    for place, part in enumerate(content if isinstance(content, list) else ()):
        kind, role = part["type"], message["role"]
        where = f"messages[{index}].content[{place}]"
        if kind in _MEDIA and role != "user":
            raise _wrong_role(index, role, kind)
        if kind == "refusal" and role != "assistant":
            raise ApiError(400, f"Invalid value: 'refusal'. ({where}.type)", f"{where}.type", "invalid_value")
        if kind == "image_url":
            check_image(f"{where}.image_url.url", part["image_url"]["url"])
        elif kind == "input_audio" and not is_base64(part["input_audio"]["data"]):
            raise _invalid_value(f"{where}.input_audio.data", "Expected base64-encoded audio.")
        elif kind == "file":
            _check_file(f"{where}.file", part["file"] or {})


def _wrong_role(index: int, role: str, kind: str) -> ApiError:
    message = (
        f"Invalid 'messages[{index}]'. {_MEDIA[kind]}s are only allowed for messages with role 'user', but "
        f"this message with role '{role}' contains an {_MEDIA[kind]}."
    )
    return ApiError(400, message, f"messages[{index}]", "invalid_value")


def _invalid_value(param: str, expectation: str) -> ApiError:
    return ApiError(400, f"Invalid value: '{param}'. {expectation}", param, "invalid_value")


def check_image(param: str, url: str) -> None:
    """Raise the ApiError for what is neither an address nor a data URL of an image that models see."""
    if re.match(r"https?://", url):
        return
    data_url = _DATA_URL.fullmatch(url)
    if data_url is None or not data_url[1].startswith("image/") or not is_base64(data_url[2]):
        expectation = (
            "Expected a base64-encoded data URL with an image MIME type (e.g. 'data:image/png;base64,…')."
        )
        raise _invalid_value(param, expectation)
    if data_url[1].lower() not in _IMAGES:
        message = (
            "You uploaded an unsupported image. Please make sure your image has of one the following "
            "formats: ['png', 'jpeg', 'gif', 'webp']."
        )
        raise ApiError(400, message, param, "invalid_image_format")


def _check_file(param: str, file: Json) -> None:
    if file.get("file_data") is None and file.get("file_id") is None:
        name = f"{param}.file_id"
        raise ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    if file.get("file_data") is not None:
        check_file_data(f"{param}.file_data", file["file_data"])


def check_file_data(param: str, data: str) -> None:
    """Raise the ApiError for what is neither base64 nor a data URL of it."""
    data_url = _DATA_URL.fullmatch(data)
    if not is_base64(data_url[2] if data_url else data):
        raise _invalid_value(param, "Expected a base64-encoded data URL.")
