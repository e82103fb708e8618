"""The input items of OpenAI's responses: shapes, identifiers and media, and which outputs answer which calls.

Sources: ``openai.types.responses`` 3.54 and the words of the API's own errors, as bug reports of clients and
gateways quote them.  The kinds of items that clients make from a conversation are closed: a field that OpenAI
does not have is refused.  Items of OpenAI's own tools may have any fields.
"""

import re
from collections.abc import Iterable
from typing import Final

from mgw_sim.api import ApiError, Json
from mgw_sim.model import token_count
from mgw_sim.openai.chat_messages import check_file_data, check_image
from mgw_sim.openai.errors import error_for, format_path
from mgw_sim.validation import (
    ANYTHING,
    Field,
    Problem,
    ProblemKind,
    Shape,
    array,
    either,
    find_problems,
    mapping,
    string,
    tagged,
)

_CACHING: Final = {"prompt_cache_breakpoint": mapping()}
_INPUT_PARTS: Final = either(
    string(),
    array(
        tagged(
            input_text=Shape({"text": string(), **_CACHING}, ("text",)),
            input_image=Shape(
                {
                    "image_url": string(),
                    "file_id": string(),
                    "detail": string("low", "high", "auto", "original"),
                    **_CACHING,
                }
            ),
            input_file=Shape(
                {
                    "file_data": string(),
                    "file_url": string(),
                    "file_id": string(),
                    "filename": string(),
                    "detail": string("auto", "low", "high"),
                    **_CACHING,
                }
            ),
        )
    ),
)
_OUTPUT_PARTS: Final = either(
    string(),
    array(
        tagged(
            output_text=Shape({"text": string(), "annotations": array(), "logprobs": array()}, ("text",)),
            refusal=Shape({"refusal": string()}, ("refusal",)),
        )
    ),
)
_ANY_ITEM: Final = {
    "id": string(),
    "status": string("in_progress", "completed", "incomplete"),
    "created_by": string(),
}
_CALL: Final = {
    **_ANY_ITEM,
    "call_id": string(),
    "name": string(),
    "namespace": string(),
    "async": ANYTHING,
    "caller": mapping(),
}
_OUTPUT: Final = Shape({**_CALL, "output": _INPUT_PARTS}, ("call_id", "output"))
_OPEN: Final = Shape({}, is_open=True)
ANY_TOOL: Final = Shape({"type": string()}, ("type",), is_open=True)


def _message(content: Field) -> Shape:
    roles = string("user", "assistant", "system", "developer")
    fields = {**_ANY_ITEM, "role": roles, "content": content, "phase": string("commentary", "final_answer")}
    return Shape(fields, ("role", "content"))


_ITEMS: Final = {
    "message": _message(_INPUT_PARTS),
    "function_call": Shape({**_CALL, "arguments": string()}, ("call_id", "name", "arguments")),
    "function_call_output": _OUTPUT,
    "custom_tool_call": Shape({**_CALL, "input": string()}, ("call_id", "name", "input")),
    "custom_tool_call_output": _OUTPUT,
    "reasoning": Shape(
        {
            **_ANY_ITEM,
            "summary": array(tagged(summary_text=Shape({"text": string()}, ("text",)))),
            "content": array(tagged(reasoning_text=Shape({"text": string()}, ("text",)))),
            "encrypted_content": string(),
        },
        ("summary",),
    ),
    "item_reference": Shape({"id": string()}, ("id",)),
    "additional_tools": Shape({"tools": array(mapping(ANY_TOOL))}, ("tools",), is_open=True),
    **dict.fromkeys(
        (
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
            "configuration_update",
            "future_call",  # what ``sim-unknown`` answers with
            "tool_search_call",
            "tool_search_output",
        ),
        _OPEN,
    ),
}
_ITEM: Final = Field(("object",), variants=_ITEMS)
_ASSISTANT_ITEM: Final = Field(("object",), variants={**_ITEMS, "message": _message(_OUTPUT_PARTS)})
_PREFIXES: Final = {"message": "msg", "function_call": "fc", "custom_tool_call": "ctc", "reasoning": "rs"}
_ID: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAX_ID: Final = 64
_WORDS: Final = {"function_call": "function call", "custom_tool_call": "custom tool call"}
"""The calls whose outputs a client owes, as the errors call them."""
OUTPUTS: Final = tuple(
    f"{name}_call_output" for name in ("function", "custom_tool", "local_shell", "shell", "apply_patch")
)
"""The items that are the results of what the client runs."""


def input_items(body: Json) -> list[Json]:
    """The input as items with their types; a mere text is a message of the user's."""
    value = body.get("input")
    if value is None:
        return []
    items = [{"role": "user", "content": value}] if isinstance(value, str) else value
    return [item if item.get("type") else {**item, "type": _untyped(item)} for item in items]


def _untyped(item: Json) -> str:
    """What an item without a type is: a message, or a mere identifier."""
    return "item_reference" if "id" in item and "role" not in item else "message"


def text_of(item: Json) -> str:
    """The text of a message or an output, its parts joined."""
    content = item.get("content", item.get("output"))
    if isinstance(content, str):
        return content
    return " ".join(str(part["text"]) for part in _parts(item) if part.get("text"))


def item_tokens(item: Json) -> int:
    """Words, one more for each part that is no text, and one for an item that is no message."""
    others = sum("text" not in part for part in _parts(item))
    return token_count(text_of(item)) + others + int(item["type"] != "message")


def _parts(item: Json) -> list[Json]:
    content = item.get("content", item.get("output"))
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def check_items(items: list[Json], *, lenient: bool) -> None:
    """Raise the ApiError for the first item that is none; ``lenient`` lets unknown fields through."""
    for index, item in enumerate(items):
        field = _ASSISTANT_ITEM if item.get("role") == "assistant" else _ITEM
        for problem in find_problems(item, field, ("input", index)):
            if not (lenient and problem.kind is ProblemKind.UNKNOWN):
                raise _item_error(problem)
        if not lenient:
            _check_ids(f"input[{index}]", item)
        if _ITEMS[item["type"]] is not _OPEN:
            _check_media(f"input[{index}]", item)


def _item_error(problem: Problem) -> ApiError:
    """The error for a problem; for a type of item or part that is none, OpenAI lists those that are."""
    if problem.kind is not ProblemKind.VALUE or problem.path[-1] != "type":
        return error_for(problem)
    *others, last = problem.wanted.split(" or ")
    listed = f"{', '.join(others)} and {last}" if others else last
    message = f"Invalid value: {problem.found}. Supported values are: {listed}."
    return ApiError(400, message, format_path(problem.path[:-1]), "invalid_value")


def _check_ids(where: str, item: Json) -> None:
    for name in ("id", "call_id"):
        value = item.get(name)
        if isinstance(value, str) and len(value) > _MAX_ID:
            wanted = f"Expected a string with maximum length {_MAX_ID}"
            message = f"string too long. {wanted}, but got a string with length {len(value)} instead."
            raise _wrong_id(f"{where}.{name}", message, "string_above_max_length")
    value = item.get("id")
    prefix = _PREFIXES.get(item["type"])
    if prefix is None or value is None:
        return
    if not _ID.fullmatch(value):
        wanted = "Expected an ID that contains letters, numbers, underscores, or dashes"
        raise _wrong_id(
            f"{where}.id", f"'{value}'. {wanted}, but this value contained additional characters."
        )
    if not value.startswith(prefix):
        raise _wrong_id(f"{where}.id", f"'{value}'. Expected an ID that begins with '{prefix}'.")


def _wrong_id(name: str, message: str, code: str = "invalid_value") -> ApiError:
    return ApiError(400, f"Invalid '{name}': {message}", name, code)


def _check_media(where: str, item: Json) -> None:
    field = "output" if "output" in item else "content"
    for place, part in enumerate(_parts(item)):
        path = f"{where}.{field}[{place}]"
        if part.get("type") == "input_image":
            _check_source(path, part, ("image_url", "file_id"))
            if part.get("image_url") is not None:
                check_image(f"{path}.image_url", part["image_url"])
        elif part.get("type") == "input_file":
            _check_source(path, part, ("file_id", "file_data", "file_url"))
            _check_file(path, part)


def _check_source(path: str, part: Json, names: tuple[str, ...]) -> None:
    if all(part.get(name) is None for name in names):
        raise _missing_parameter(f"{path}.{names[0]}")


def _check_file(path: str, part: Json) -> None:
    """A file that is sent along needs a name, and the address of one must be one."""
    if part.get("file_data") is not None:
        if not part.get("filename"):
            raise _missing_parameter(f"{path}.filename")
        check_file_data(f"{path}.file_data", part["file_data"])
    url = part.get("file_url")
    if url is not None and not re.match(r"https?://", url):
        name = f"{path}.file_url"
        message = f"Invalid '{name}'. Expected a valid URL, but got a value with an invalid format."
        raise ApiError(400, message, name, "invalid_value")


def _missing_parameter(name: str) -> ApiError:
    return ApiError(400, f"Missing required parameter: '{name}'.", name, "missing_required_parameter")


def check_calls(items: Iterable[Json], *, continued: bool) -> None:
    """Raise the ApiError for a call without its output, or an output without its call.

    ``continued``: the calls may stand in a response that the request goes on from.
    """
    unanswered: dict[str, str] = {}
    called: set[str] = set()
    for item in items:
        kind, call_id = item["type"], item.get("call_id")
        if kind in _WORDS:
            called.add(item["call_id"])
            unanswered[item["call_id"]] = _WORDS[kind]
        elif kind.removesuffix("_output") in _WORDS:
            if call_id not in called and not continued:
                words = _WORDS[kind.removesuffix("_output")]
                raise ApiError(400, f"No tool call found for {words} output with call_id {call_id}.", "input")
            unanswered.pop(str(call_id), None)
    for call_id, words in unanswered.items():
        raise ApiError(400, f"No tool output found for {words} {call_id}.", "input")
