"""What Anthropic demands of a request beyond the types of its fields, and what its models refuse.

The latter goes by their names (sources: the migration guides and the thinking pages).  A name that no pattern
matches takes everything that the API has.
"""

import re
from typing import Final

from mgw_sim.anthropic.conversation import (
    blocks_of,
    check_blocks,
    check_pairs,
    check_tool_loop,
    is_paused,
)
from mgw_sim.anthropic.errors import error_for
from mgw_sim.anthropic.fields import CUSTOM_TOOL
from mgw_sim.api import ApiError, Json
from mgw_sim.json_schema import schema_error
from mgw_sim.validation import find_problems

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_MAX_BREAKPOINTS: Final = 4
_MIN_TOP_P: Final = 0.95
_ADAPTIVE_ONLY: Final = re.compile(r"claude-(?:opus-4-[7-9]|opus-[5-9]|sonnet-[5-9]|fable|mythos)")
_ALWAYS_THINKING: Final = re.compile(r"claude-(?:fable|mythos)")
_BUDGET_ONLY: Final = re.compile(
    r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-\d{8}|-latest)?(?:\+|\Z))"
)
_NO_PREFILL: Final = re.compile(r"claude-(?:opus-4-[6-9]|opus-[5-9]|sonnet-4-6|sonnet-[5-9]|fable|mythos)")
_ONE_SAMPLER: Final = re.compile(r"claude-(?:opus-4-[156]|sonnet-4-[56]|haiku-4-5)")


def check_request(body: Json, *, interleaved: bool = False) -> None:
    """Raise the ApiError for the first rule that a conversation breaks.

    ``interleaved``: the beta under which a budget is that of a whole turn, and may exceed ``max_tokens``.
    """
    messages = body["messages"]
    if not messages:
        raise ApiError(400, "messages: at least one message is required")
    _check_tools(body)
    _check_format(body)
    _check_thinking(body, interleaved=interleaved)
    _check_stops(body)
    _check_breakpoints(body)
    for index, message in enumerate(messages):
        check_blocks(index, message, is_last=index == len(messages) - 1)
    check_pairs(messages)
    if isinstance(body.get("system"), list):
        for index, block in enumerate(body["system"]):
            if not block["text"]:
                raise ApiError(400, f"system.{index}.text: text content blocks must be non-empty")


def _check_tools(body: Json) -> None:
    tools = body.get("tools") or []
    for index, tool in enumerate(tools):
        where = f"tools.{index}.custom"
        if tool.get("type") in {None, "custom"}:
            for problem in find_problems(tool, CUSTOM_TOOL, ("tools", index, "custom")):
                raise error_for(problem)
            if tool["input_schema"].get("type") != "object":
                raise ApiError(400, f"{where}.input_schema.type: Field required")
            fault = schema_error(tool["input_schema"])
            if fault:
                raise ApiError(400, f"{where}.input_schema: JSON schema is invalid. {fault}")
        if not _NAME.fullmatch(tool["name"]):
            raise ApiError(400, f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    names = [tool["name"] for tool in tools]
    if len(set(names)) != len(names):
        raise ApiError(400, "tools: Tool names must be unique.")
    choice = body.get("tool_choice") or {}
    if choice and not tools:
        raise ApiError(400, "tool_choice: can only be specified when `tools` are provided")
    if choice.get("type") == "tool" and choice["name"] not in names:
        raise ApiError(400, f"Tool '{choice['name']}' not found in provided tools")


def _check_format(body: Json) -> None:
    """Every object of a structured answer closes itself."""
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    fault = None if schema is None else schema_error(schema, closed=True)
    if fault:
        raise ApiError(400, f"output_config.format.schema: {fault}")


def _check_thinking(body: Json, *, interleaved: bool) -> None:
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] not in {"enabled", "adaptive"}:
        return
    if body.get("temperature") not in {None, 1}:
        raise ApiError(
            400, "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode."
        )
    if body.get("top_k") is not None:
        raise ApiError(400, "`top_k` must be unset when thinking is enabled or in adaptive mode.")
    if (body.get("top_p") or 1) < _MIN_TOP_P:
        message = f"`top_p` must be greater than or equal to {_MIN_TOP_P} or unset when thinking is enabled."
        raise ApiError(400, message)
    if thinking["type"] == "enabled":
        _check_budget(body, thinking["budget_tokens"], interleaved=interleaved)


def _check_budget(body: Json, budget: int, *, interleaved: bool) -> None:
    """Thinking by budget wants its room, no forced calls, and the thoughts of an open tool loop back."""
    if not interleaved and budget >= body.get("max_tokens", budget + 1):
        raise ApiError(400, "`max_tokens` must be greater than `thinking.budget_tokens`.")
    if (body.get("tool_choice") or {}).get("type") in {"any", "tool"}:
        raise ApiError(400, "Thinking may not be enabled when tool_choice forces tool use.")
    check_tool_loop(body["messages"])
    if body["messages"][-1]["role"] == "assistant" and not is_paused(body["messages"]):
        message = (
            "When thinking is enabled, the final message may not be an `assistant` message to be continued."
        )
        raise ApiError(400, f"messages.{len(body['messages']) - 1}: {message}")


def _check_stops(body: Json) -> None:
    for stop in body.get("stop_sequences") or ():
        if not stop.strip():
            raise ApiError(400, "stop_sequences: each stop sequence must contain non-whitespace")


def _check_breakpoints(body: Json) -> None:
    """Refuse a prompt with more than four places that are marked for the cache."""
    system = body.get("system")
    marked = [*(body.get("tools") or ()), *(system if isinstance(system, list) else ())]
    for turn in body["messages"]:
        for block in blocks_of(turn):
            content = block.get("content")
            marked += [block, *(content if isinstance(content, list) else ())]
    count = sum(isinstance(one, dict) and bool(one.get("cache_control")) for one in marked)
    if count > _MAX_BREAKPOINTS:
        rule = f"A maximum of {_MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {count}."
        raise ApiError(400, rule)


def check_model(model: str, body: Json) -> None:
    """Raise the ApiError for the first thing that a model of this name does not take."""
    _check_model_thinking(model, (body.get("thinking") or {}).get("type"))
    _check_model_sampling(model, body)
    if (
        _NO_PREFILL.match(model)
        and body["messages"][-1]["role"] == "assistant"
        and not is_paused(body["messages"])
    ):
        message = "This model does not support assistant message prefill."
        raise ApiError(400, f"{message} The conversation must end with a user message.")


def _check_model_thinking(model: str, kind: str | None) -> None:
    if kind == "enabled" and _ADAPTIVE_ONLY.match(model):
        raise ApiError(
            400,
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.',
        )
    if kind == "disabled" and _ALWAYS_THINKING.match(model):
        raise ApiError(400, '"thinking.type.disabled" is not supported for this model.')
    if kind == "adaptive" and _BUDGET_ONLY.match(model):
        raise ApiError(400, "adaptive thinking is not supported on this model")


def _check_model_sampling(model: str, body: Json) -> None:
    set_to = {name: body[name] for name in ("temperature", "top_p", "top_k") if body.get(name) is not None}
    for name, value in set_to.items():
        if _ADAPTIVE_ONLY.match(model) and (name == "top_k" or value != 1):
            raise ApiError(400, f"`{name}` is deprecated for this model.")
    if _ONE_SAMPLER.match(model) and {"temperature", "top_p"} <= set_to.keys():
        message = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        raise ApiError(400, message)
