"""What Anthropic demands of a conversation beyond the fields' types, and what the simulator reads from it."""

import base64
import binascii
import hashlib
import re
from typing import Final

from mgw.simulator.answer import Json, Refusal
from mgw.simulator.anthropic_errors import refusal_for
from mgw.simulator.anthropic_fields import CUSTOM_TOOL, SYSTEM_BETAS
from mgw.simulator.anthropic_media import check_source
from mgw.simulator.checks import problems
from mgw.simulator.mind import Result, count
from mgw.simulator.schema_check import schema_fault

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_OURS: Final = b"simulated-anthropic:"
_HIDDEN: Final = b"simulated-redacted:"
_MOST_BREAKPOINTS: Final = 4
_LEAST_TOP_P: Final = 0.95
_OF_SYSTEM: Final = tuple({name for more in SYSTEM_BETAS.values() for name in more})


def sign(thinking: str) -> str:
    """The signature of a thinking block: only the simulator's own pass again."""
    return base64.b64encode(_OURS + hashlib.sha256(thinking.encode()).digest()).decode("ascii")


def redact(thinking: str) -> str:
    """The data of a redacted block: only the simulator's own passes again."""
    return base64.b64encode(_HIDDEN + hashlib.sha256(thinking.encode()).digest()).decode("ascii")


def _is_redacted(data: str) -> bool:
    try:
        return base64.b64decode(data, validate=True).startswith(_HIDDEN)
    except (binascii.Error, ValueError):
        return False


def blocks_of(message: Json) -> list[Json]:
    """The content as blocks."""
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def text_of(message: Json) -> str:
    """The text blocks of a message, joined."""
    return " ".join(block["text"] for block in blocks_of(message) if block["type"] == "text")


def result_text(block: Json) -> str:
    """The text of a tool result."""
    content = block.get("content") or ""
    return (
        content
        if isinstance(content, str)
        else " ".join(part.get("text", "") for part in content if part["type"] == "text")
    )


def results(messages: list[Json]) -> tuple[Result, ...]:
    """The tool results of the last turn, named after their calls; system messages behind it hide nothing."""
    names = {
        block["id"]: block["name"]
        for message in messages
        for block in blocks_of(message)
        if block["type"] == "tool_use"
    }
    role, last = _last_turn(messages)
    return tuple(
        Result(names.get(block["tool_use_id"], ""), result_text(block))
        for block in (last if role == "user" else ())
        if block["type"] == "tool_result"
    )


def prompt_tokens(body: Json) -> int:
    """Words, one more for each block that is no text and for each tool; at least 1."""
    system = body.get("system") or ""
    found = count(system) if isinstance(system, str) else sum(count(block["text"]) for block in system)
    for message in body["messages"]:
        for block in blocks_of(message):
            if block["type"] == "text":
                found += count(block["text"])
            elif block["type"] == "tool_result":
                found += 1 + count(result_text(block))
            else:
                found += 1
    return max(1, found + len(body.get("tools") or ()))


def is_paused(messages: list[Json]) -> bool:
    """Whether the last turn is a paused one that goes on: it has a server's tool in it."""
    return any(block["type"] == "server_tool_use" for block in blocks_of(messages[-1]))


def check(body: Json, *, interleaved: bool = False) -> None:
    """Raise the Refusal for the first rule that a conversation breaks.

    ``interleaved``: the beta under which a budget is that of a whole turn, and may exceed ``max_tokens``.
    """
    messages = body["messages"]
    if not messages:
        raise Refusal(400, "messages: at least one message is required")
    _check_tools(body)
    _check_format(body)
    _check_thinking(body, interleaved=interleaved)
    _check_stops(body)
    _check_breakpoints(body)
    for index, message in enumerate(messages):
        _check_blocks(index, message, is_last=index == len(messages) - 1)
    _check_pairs(messages)
    if isinstance(body.get("system"), list):
        for index, block in enumerate(body["system"]):
            if not block["text"]:
                raise Refusal(400, f"system.{index}.text: text content blocks must be non-empty")


def _check_tools(body: Json) -> None:
    tools = body.get("tools") or []
    for index, tool in enumerate(tools):
        where = f"tools.{index}.custom"
        if tool.get("type") in {None, "custom"}:
            for problem in problems(tool, CUSTOM_TOOL, ("tools", index, "custom")):
                raise refusal_for(problem)
            if tool["input_schema"].get("type") != "object":
                raise Refusal(400, f"{where}.input_schema.type: Field required")
            fault = schema_fault(tool["input_schema"])
            if fault:
                raise Refusal(400, f"{where}.input_schema: JSON schema is invalid. {fault}")
        if not _NAME.fullmatch(tool["name"]):
            raise Refusal(400, f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    names = [tool["name"] for tool in tools]
    if len(set(names)) != len(names):
        raise Refusal(400, "tools: Tool names must be unique.")
    choice = body.get("tool_choice") or {}
    if choice and not tools:
        raise Refusal(400, "tool_choice: can only be specified when `tools` are provided")
    if choice.get("type") == "tool" and choice["name"] not in names:
        raise Refusal(400, f"Tool '{choice['name']}' not found in provided tools")


def _check_format(body: Json) -> None:
    """Every object of a structured answer closes itself."""
    schema = ((body.get("output_config") or {}).get("format") or {}).get("schema")
    fault = None if schema is None else schema_fault(schema, closed=True)
    if fault:
        raise Refusal(400, f"output_config.format.schema: {fault}")


def _check_thinking(body: Json, *, interleaved: bool) -> None:
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] not in {"enabled", "adaptive"}:
        return
    if body.get("temperature") not in {None, 1}:
        raise Refusal(400, "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.")
    if body.get("top_k") is not None:
        raise Refusal(400, "`top_k` must be unset when thinking is enabled or in adaptive mode.")
    if (body.get("top_p") or 1) < _LEAST_TOP_P:
        said = f"`top_p` must be greater than or equal to {_LEAST_TOP_P} or unset when thinking is enabled."
        raise Refusal(400, said)
    if thinking["type"] == "enabled":
        _check_budget(body, thinking["budget_tokens"], interleaved=interleaved)


def _check_budget(body: Json, budget: int, *, interleaved: bool) -> None:
    """Thinking by budget wants its room, no forced calls, and the thoughts of an open tool loop back."""
    if not interleaved and budget >= body.get("max_tokens", budget + 1):
        raise Refusal(400, "`max_tokens` must be greater than `thinking.budget_tokens`.")
    if (body.get("tool_choice") or {}).get("type") in {"any", "tool"}:
        raise Refusal(400, "Thinking may not be enabled when tool_choice forces tool use.")
    _check_tool_loop(body["messages"])
    if body["messages"][-1]["role"] == "assistant" and not is_paused(body["messages"]):
        said = (
            "When thinking is enabled, the final message may not be an `assistant` message to be continued."
        )
        raise Refusal(400, f"messages.{len(body['messages']) - 1}: {said}")


def _check_stops(body: Json) -> None:
    for stop in body.get("stop_sequences") or ():
        if not stop.strip():
            raise Refusal(400, "stop_sequences: each stop sequence must contain non-whitespace")


def _check_breakpoints(body: Json) -> None:
    """At most four places of a prompt are marked for the cache."""
    system = body.get("system")
    marked = [*(body.get("tools") or ()), *(system if isinstance(system, list) else ())]
    for message in body["messages"]:
        for block in blocks_of(message):
            content = block.get("content")
            marked += [block, *(content if isinstance(content, list) else ())]
    found = sum(isinstance(one, dict) and bool(one.get("cache_control")) for one in marked)
    if found > _MOST_BREAKPOINTS:
        said = f"A maximum of {_MOST_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
        raise Refusal(400, said)


def _check_tool_loop(messages: list[Json]) -> None:
    """While tools answer, the turn that called them begins with thinking."""
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    _, newest = _last_turn(messages)
    if last is None or not any(block["type"] == "tool_result" for block in newest):
        return
    first = blocks_of(last)[0]["type"]
    if first not in {"thinking", "redacted_thinking"}:
        raise Refusal(
            400,
            f"messages.{messages.index(last)}.content.0.type: Expected `thinking` or `redacted_thinking`, "
            f"but found "
            f"`{first}`. When `thinking` is enabled, a final `assistant` message must start with a "
            f"thinking block.",
        )


def _check_blocks(index: int, message: Json, *, is_last: bool) -> None:
    where = f"messages.{index}"
    for name in _OF_SYSTEM:
        if message["role"] != "system" and message.get(name) is not None:
            raise Refusal(400, f"{where}.{name}: only permitted on messages with role 'system'")
    if not message["content"] and not (is_last and message["role"] == "assistant"):
        exception = "except for the optional final assistant message"
        raise Refusal(400, f"{where}: all messages must have non-empty content {exception}")
    for place, block in enumerate(blocks_of(message)):
        _check_block(f"{where}.content.{place}", message["role"], block)
    if is_last and message["role"] == "assistant" and text_of(message) != text_of(message).rstrip():
        raise Refusal(400, "messages: final assistant content cannot end with trailing whitespace")


def _check_block(where: str, role: str, block: Json) -> None:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        raise Refusal(400, f"{where}: text content blocks must contain non-whitespace text")
    if kind == "tool_use" and not _ID.fullmatch(block["id"]):
        raise Refusal(400, f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind in {"tool_use", "thinking", "redacted_thinking"} and role != "assistant":
        raise Refusal(400, f"{where}: `{kind}` blocks can only be in `assistant` messages")
    if kind == "tool_result" and role != "user":
        raise Refusal(400, f"{where}: `tool_result` blocks can only be in `user` messages")
    if kind == "thinking" and block["signature"] != sign(block["thinking"]):
        raise Refusal(400, f"{where}: Invalid `signature` in `thinking` block")
    if kind == "redacted_thinking" and not _is_redacted(block["data"]):
        raise Refusal(400, f"{where}: Invalid `data` in `redacted_thinking` block")
    content = block.get("content") if kind == "tool_result" else None
    for place, part in enumerate(content if isinstance(content, list) else ()):
        if part["type"] in {"image", "document"}:
            check_source(f"{where}.tool_result.content.{place}", part)
    if kind in {"image", "document"}:
        check_source(where, block)


def _merged(messages: list[Json]) -> list[tuple[str, list[Json]]]:
    """The turns: neighbours of one role are one turn; a system message is no turn of its own."""
    turns: list[tuple[str, list[Json]]] = []
    for message in messages:
        if message["role"] == "system":
            continue
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks_of(message))
        else:
            turns.append((message["role"], list(blocks_of(message))))
    return turns


def _last_turn(messages: list[Json]) -> tuple[str, list[Json]]:
    return next(reversed(_merged(messages)), ("", []))


def _check_pairs(messages: list[Json]) -> None:
    """Each ``tool_use`` has its ``tool_result`` in the next turn, at its head, and no other has one."""
    turns = _merged(messages)
    for index, (role, blocks) in enumerate(turns):
        following = turns[index + 1][1] if index + 1 < len(turns) else []
        before = turns[index - 1][1] if index else []
        if role == "assistant":
            _check_answered(index, _ids(blocks), following)
        else:
            _check_asked(index, _ids(before), blocks)


def _ids(blocks: list[Json]) -> list[str]:
    return [block["id"] for block in blocks if block["type"] == "tool_use"]


def _check_answered(index: int, asked: list[str], following: list[Json]) -> None:
    if len(set(asked)) != len(asked):
        raise Refusal(400, f"messages.{index}: `tool_use` ids must be unique")
    answered = {block["tool_use_id"] for block in following if block["type"] == "tool_result"}
    missing = [one for one in asked if one not in answered]
    if missing:
        raise Refusal(
            400,
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
            f"in the "
            "next message.",
        )
    kinds = [block["type"] == "tool_result" for block in following]
    if asked and kinds != sorted(kinds, reverse=True):
        raise Refusal(400, f"messages.{index + 1}: `tool_result` blocks must come first in the content")


def _check_asked(index: int, asked: list[str], blocks: list[Json]) -> None:
    for block in blocks:
        if block["type"] == "tool_result" and block["tool_use_id"] not in asked:
            raise Refusal(
                400,
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` "
                f"block in "
                "the previous message.",
            )
