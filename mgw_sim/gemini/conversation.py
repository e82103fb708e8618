"""What Google demands of contents beyond the fields' types, and what the simulator reads from them."""

import base64
import binascii
import hashlib
import json
import re
from typing import Any, Final

from mgw_sim.api import ApiError, Json
from mgw_sim.gemini.fields import PART_DATA
from mgw_sim.json_schema import schema_error
from mgw_sim.model import ToolResult, token_count

SKIP_VALIDATOR: Final = "skip_thought_signature_validator"
_SIGNATURE_PREFIX: Final = b"simulated-gemini:"
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")


def sign(text: str) -> str:
    """A thought signature: only the simulator's own pass again."""
    return base64.b64encode(_SIGNATURE_PREFIX + hashlib.sha256(text.encode()).digest()).decode("ascii")


def is_signature(value: str) -> bool:
    """Whether a signature is ours, or the documented one that skips the check."""
    if value == SKIP_VALIDATOR:
        return True
    try:
        raw = base64.b64decode(
            value.replace("-", "+").replace("_", "/") + "=" * (-len(value) % 4), validate=True
        )
    except binascii.Error:
        return False
    return raw.startswith(_SIGNATURE_PREFIX) or raw in {
        SKIP_VALIDATOR.encode(),
        base64.b64decode(SKIP_VALIDATOR.replace("_", "/")),
    }


def is_base64(value: str) -> bool:
    """Whether a text is base64 as protobuf's JSON reads it: of either alphabet, padded or not."""
    bare = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def text_of(content: Json) -> str:
    """The text of a content, its parts joined, thoughts left out."""
    parts = content.get("parts") or ()
    return " ".join(part["text"] for part in parts if "text" in part and not part.get("thought"))


def tool_results(contents: list[Json]) -> tuple[ToolResult, ...]:
    """The function responses of the last content."""
    parts = contents[-1].get("parts") or ()
    return tuple(
        ToolResult(part["functionResponse"]["name"], _response_text(part["functionResponse"]["response"]))
        for part in parts
        if "functionResponse" in part
    )


def _response_text(response: Json) -> str:
    if len(response) == 1 and next(iter(response)) in {"result", "output", "error"}:
        value = next(iter(response.values()))
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return json.dumps(response, ensure_ascii=False)


def prompt_tokens(body: Json) -> int:
    """Words, one more for each part that is no text and for each function; at least 1."""
    total = token_count(text_of(body.get("systemInstruction") or {}))
    for content in body["contents"]:
        for part in content.get("parts") or ():
            total += token_count(part["text"]) if "text" in part else 1
            if "functionResponse" in part:
                total += token_count(_response_text(part["functionResponse"]["response"]))
    functions = sum(len(tool.get("functionDeclarations") or ()) for tool in body.get("tools") or ())
    return max(1, total + functions)


def check_request(body: Json, *, signed: bool) -> None:
    """Raise the ApiError for the first rule that is broken; ``signed``: the model wants its signatures "
    "back.
    """
    contents = body["contents"]
    if not contents:
        raise ApiError(400, "* GenerateContentRequest.contents: contents is not specified\n", "contents")
    _check_functions(body)
    _check_config(body.get("generationConfig") or {})
    for index, content in enumerate(contents):
        _check_content(f"contents[{index}]", content)
    turns = _merge_turns(contents)
    _check_turns(turns)
    if signed:
        _check_signatures(turns)


def _check_functions(body: Json) -> None:
    names = []
    for index, tool in enumerate(body.get("tools") or ()):
        for place, function in enumerate(tool.get("functionDeclarations") or ()):
            where = f"tools[{index}].function_declarations[{place}]"
            if not _NAME.fullmatch(function["name"]):
                raise ApiError(
                    400, f"* GenerateContentRequest.{where}.name: Invalid function name.\n", f"{where}.name"
                )
            fault = schema_error(function.get("parametersJsonSchema") or {})
            if fault:
                raise ApiError(
                    400, f"{where}.parameters_json_schema: {fault}", f"{where}.parameters_json_schema"
                )
            if "parameters" in function and "parametersJsonSchema" in function:
                raise ApiError(
                    400, f"{where}: only one of parameters and parameters_json_schema may be set.", where
                )
            if function["name"] in names:
                raise ApiError(400, f"Duplicate function declaration found: {function['name']}")
            names.append(function["name"])
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    allowed = config.get("allowedFunctionNames") or []
    if allowed and str(config.get("mode", "AUTO")).upper() not in {"ANY", "VALIDATED"}:
        raise ApiError(
            400, "Allowed function names should be set only when function calling mode is ANY or VALIDATED."
        )
    if set(allowed) - set(names):
        raise ApiError(400, "allowed_function_names: not every name is a declared function.")


def _check_config(config: Json) -> None:
    thinking = config.get("thinkingConfig") or {}
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        raise ApiError(400, "You can only set only one of thinking budget and thinking level.")
    has_schema = "responseSchema" in config or "responseJsonSchema" in config
    if has_schema and config.get("responseMimeType") not in {"application/json", "text/x.enum"}:
        raise ApiError(400, "response_schema is only allowed with response_mime_type application/json.")
    if "responseSchema" in config and "responseJsonSchema" in config:
        raise ApiError(400, "Only one of response_schema and response_json_schema may be set.")
    fault = schema_error(config.get("responseJsonSchema") or {}, capitals=True)
    if fault:
        raise ApiError(400, f"generation_config.response_json_schema: {fault}")
    if len(config.get("stopSequences") or ()) > 5:
        raise ApiError(400, "stop_sequences: at most 5 are allowed.")


def _check_content(where: str, content: Json) -> None:
    if content.get("role", "user") not in {"user", "model", "function"}:
        raise ApiError(400, "Please use a valid role: user, model.")
    if not content.get("parts"):
        name = f"{where}.parts"
        raise ApiError(400, f"* GenerateContentRequest.{name}: contents.parts must not be empty.\n", name)
    for place, part in enumerate(content["parts"]):
        data_fields = [name for name in PART_DATA if part.get(name) is not None]
        if len(data_fields) != 1 and not (not data_fields and "thoughtSignature" in part):
            raise ApiError(
                400,
                f"* GenerateContentRequest.{where}.parts[{place}].data: required oneof field 'data' must "
                f"have "
                "one initialized field\n",
                f"{where}.parts[{place}].data",
            )
        _check_bytes(f"{where}.parts[{place}]", part)
        if "thoughtSignature" in part and not is_signature(part["thoughtSignature"]):
            raise ApiError(
                400, "Thought signature is not valid.", f"{where}.parts[{place}].thought_signature"
            )


def _check_bytes(where: str, part: Json) -> None:
    """Bytes are base64, also in what a function gave."""
    values = {"thought_signature": part.get("thoughtSignature")}
    values["inline_data.data"] = (part.get("inlineData") or {}).get("data")
    for place, inner in enumerate((part.get("functionResponse") or {}).get("parts") or ()):
        data = inner.get("inlineData", inner.get("inline_data"))
        if isinstance(data, dict):
            values[f"function_response.parts[{place}].inline_data.data"] = data.get("data")
    for name, value in values.items():
        if value is not None and not (isinstance(value, str) and is_base64(value)):
            message = f"(TYPE_BYTES), Base64 decoding failed for {json.dumps(value)}"
            raise ApiError(400, f"Invalid value at '{where}.{name}' {message}", f"{where}.{name}")


def _merge_turns(contents: list[Json]) -> list[Json]:
    """The turns: a model's neighbouring contents are one; the SDK's chat keeps the pieces of a stream so."""
    turns: list[Json] = []
    for content in contents:
        if turns and content.get("role") == turns[-1].get("role") == "model":
            turns[-1] = {**turns[-1], "parts": [*turns[-1]["parts"], *content["parts"]]}
        else:
            turns.append(content)
    return turns


def _parts_named(content: Json, kind: str) -> list[Any]:
    return [part[kind] for part in content["parts"] if kind in part]


def _check_turns(contents: list[Json]) -> None:
    """Calls come after a user's turn, and each is answered in the turn behind it."""
    for index, content in enumerate(contents):
        calls = _parts_named(content, "functionCall")
        responses = _parts_named(content, "functionResponse")
        before = contents[index - 1] if index else None
        if calls and (before is None or before.get("role", "user") == "model"):
            raise ApiError(
                400,
                "Please ensure that function call turn comes immediately after a user turn or after a "
                "function response turn.",
            )
        expected = _parts_named(before, "functionCall") if before and before.get("role") == "model" else []
        if responses and not expected:
            raise ApiError(
                400, "Please ensure that function response turn comes immediately after a function call turn."
            )
        if len(responses) != len(expected):
            raise ApiError(
                400,
                "Please ensure that the number of function response parts is equal to the number of "
                "function call "
                "parts of the function call turn.",
            )
        _check_function_responses(expected, responses)
        if calls and index == len(contents) - 1:
            raise ApiError(
                400,
                "Please ensure that single turn requests end with a user role or the role field is empty.",
            )


def _check_function_responses(expected: list[Json], responses: list[Json]) -> None:
    if sorted(one["name"] for one in expected) != sorted(one["name"] for one in responses):
        raise ApiError(
            400, "Please ensure that function response names match the names of the function calls."
        )
    ids = {one["id"] for one in expected if one.get("id")}
    for one in responses:
        if one.get("id") and ids and one["id"] not in ids:
            raise ApiError(400, f"Function response id {one['id']} does not match any function call.")


def check_no_call_ids(contents: list[Json]) -> None:
    """Raise the ApiError for identifiers of calls: on Vertex AI, models before Gemini 3 know none."""
    for index, content in enumerate(contents):
        for place, part in enumerate(content.get("parts") or ()):
            for kind, name in (("functionCall", "function_call"), ("functionResponse", "function_response")):
                if "id" in (part.get(kind) or {}):
                    where = f"contents[{index}].parts[{place}].{name}"
                    message = (
                        f"Invalid JSON payload received. Unknown name \"id\" at '{where}': Cannot find field."
                    )
                    raise ApiError(400, message, where)


def check_image_signatures(contents: list[Json]) -> None:
    """Raise the ApiError for an image that the model made and that comes back without its signature."""
    for index, content in enumerate(contents):
        for place, part in enumerate(content["parts"] if content.get("role") == "model" else ()):
            if "inlineData" in part and "thoughtSignature" not in part:
                raise ApiError(
                    400,
                    "Image part is missing a thought_signature in content position "
                    f"{index + 1}, part position {place + 1}.",
                )


def _check_signatures(contents: list[Json]) -> None:
    """Refuse a current turn in which the first call of a step carries no signature."""
    start = max(
        (
            index
            for index, content in enumerate(contents)
            if content.get("role", "user") == "user" and text_of(content)
        ),
        default=0,
    )
    for index, content in enumerate(contents[start:], start):
        calls = [part for part in content["parts"] if "functionCall" in part]
        if calls and "thoughtSignature" not in calls[0]:
            name = calls[0]["functionCall"]["name"]
            raise ApiError(
                400,
                f"Function call is missing a thought_signature in functionCall parts. This is required "
                f"for tools "
                f"to work correctly, and missing thought_signature may lead to degraded model performance. "
                f"Additional data, function call `default_api:{name}`, position {index}.",
            )
