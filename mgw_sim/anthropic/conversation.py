"""The turns of a conversation: what Anthropic demands of their blocks, and what is read from them.

Sources: ``anthropic.types`` 2.x, and the API's own errors.
"""

import base64
import binascii
import hashlib
import re
from typing import Final

from mgw_sim.anthropic.fields import SYSTEM_BETAS
from mgw_sim.api import ApiError, Json
from mgw_sim.model import ToolResult, token_count

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_SIGNATURE_PREFIX: Final = b"simulated-anthropic:"
_REDACTED_PREFIX: Final = b"simulated-redacted:"
_SYSTEM_FIELDS: Final = tuple({name for more in SYSTEM_BETAS.values() for name in more})
_IMAGE_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_FILE_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_SOURCES: Final = {
    "image": ("base64", "url", "file"),
    "document": ("base64", "url", "text", "content", "file"),
}


def sign(thinking: str) -> str:
    """The signature of a thinking block: only the simulator's own pass again."""
    return base64.b64encode(_SIGNATURE_PREFIX + hashlib.sha256(thinking.encode()).digest()).decode("ascii")


def redact(thinking: str) -> str:
    """The data of a redacted block: only the simulator's own passes again."""
    return base64.b64encode(_REDACTED_PREFIX + hashlib.sha256(thinking.encode()).digest()).decode("ascii")


def _is_redacted(data: str) -> bool:
    try:
        return base64.b64decode(data, validate=True).startswith(_REDACTED_PREFIX)
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


def tool_results(messages: list[Json]) -> tuple[ToolResult, ...]:
    """The tool results of the last turn, named after their calls; system messages behind it hide nothing."""
    names = {
        block["id"]: block["name"]
        for message in messages
        for block in blocks_of(message)
        if block["type"] == "tool_use"
    }
    role, last = _last_turn(messages)
    return tuple(
        ToolResult(names.get(block["tool_use_id"], ""), result_text(block))
        for block in (last if role == "user" else ())
        if block["type"] == "tool_result"
    )


def prompt_tokens(body: Json) -> int:
    """Words, one more for each block that is no text and for each tool; at least 1."""
    system = body.get("system") or ""
    total = (
        token_count(system)
        if isinstance(system, str)
        else sum(token_count(block["text"]) for block in system)
    )
    for message in body["messages"]:
        for block in blocks_of(message):
            if block["type"] == "text":
                total += token_count(block["text"])
            elif block["type"] == "tool_result":
                total += 1 + token_count(result_text(block))
            else:
                total += 1
    return max(1, total + len(body.get("tools") or ()))


def is_paused(messages: list[Json]) -> bool:
    """Whether the last turn is a paused one that goes on: it has a server's tool in it."""
    return any(block["type"] == "server_tool_use" for block in blocks_of(messages[-1]))


def check_tool_loop(messages: list[Json]) -> None:
    """While tools answer, the turn that called them begins with thinking."""
    last = next((message for message in reversed(messages) if message["role"] == "assistant"), None)
    _, newest = _last_turn(messages)
    if last is None or not any(block["type"] == "tool_result" for block in newest):
        return
    first = blocks_of(last)[0]["type"]
    if first not in {"thinking", "redacted_thinking"}:
        raise ApiError(
            400,
            f"messages.{messages.index(last)}.content.0.type: Expected `thinking` or `redacted_thinking`, "
            f"but found "
            f"`{first}`. When `thinking` is enabled, a final `assistant` message must start with a "
            f"thinking block.",
        )


def check_blocks(index: int, message: Json, *, is_last: bool) -> None:
    """Raise the ApiError for the first block of a message that may not stand there."""
    where = f"messages.{index}"
    for name in _SYSTEM_FIELDS:
        if message["role"] != "system" and message.get(name) is not None:
            raise ApiError(400, f"{where}.{name}: only permitted on messages with role 'system'")
    if not message["content"] and not (is_last and message["role"] == "assistant"):
        exception = "except for the optional final assistant message"
        raise ApiError(400, f"{where}: all messages must have non-empty content {exception}")
    for place, block in enumerate(blocks_of(message)):
        _check_block(f"{where}.content.{place}", message["role"], block)
    if is_last and message["role"] == "assistant" and text_of(message) != text_of(message).rstrip():
        raise ApiError(400, "messages: final assistant content cannot end with trailing whitespace")


def _check_block(where: str, role: str, block: Json) -> None:
    kind = block["type"]
    if kind == "text" and not block["text"].strip():
        raise ApiError(400, f"{where}: text content blocks must contain non-whitespace text")
    if kind == "tool_use" and not _ID.fullmatch(block["id"]):
        raise ApiError(400, f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if kind in {"tool_use", "thinking", "redacted_thinking"} and role != "assistant":
        raise ApiError(400, f"{where}: `{kind}` blocks can only be in `assistant` messages")
    if kind == "tool_result" and role != "user":
        raise ApiError(400, f"{where}: `tool_result` blocks can only be in `user` messages")
    if kind == "thinking" and block["signature"] != sign(block["thinking"]):
        raise ApiError(400, f"{where}: Invalid `signature` in `thinking` block")
    if kind == "redacted_thinking" and not _is_redacted(block["data"]):
        raise ApiError(400, f"{where}: Invalid `data` in `redacted_thinking` block")
    content = block.get("content") if kind == "tool_result" else None
    for place, part in enumerate(content if isinstance(content, list) else ()):
        if part["type"] in {"image", "document"}:
            check_source(f"{where}.tool_result.content.{place}", part)
    if kind in {"image", "document"}:
        check_source(where, block)


def _merge_turns(messages: list[Json]) -> list[tuple[str, list[Json]]]:
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
    return next(reversed(_merge_turns(messages)), ("", []))


def check_pairs(messages: list[Json]) -> None:
    """Each ``tool_use`` has its ``tool_result`` in the next turn, at its head, and no other has one."""
    turns = _merge_turns(messages)
    for index, (role, blocks) in enumerate(turns):
        following = turns[index + 1][1] if index + 1 < len(turns) else []
        before = turns[index - 1][1] if index else []
        if role == "assistant":
            _check_tool_uses(index, _tool_use_ids(blocks), following)
        else:
            _check_tool_results(index, _tool_use_ids(before), blocks)


def _tool_use_ids(blocks: list[Json]) -> list[str]:
    return [block["id"] for block in blocks if block["type"] == "tool_use"]


def _check_tool_uses(index: int, use_ids: list[str], following: list[Json]) -> None:
    if len(set(use_ids)) != len(use_ids):
        raise ApiError(400, f"messages.{index}: `tool_use` ids must be unique")
    result_ids = {block["tool_use_id"] for block in following if block["type"] == "tool_result"}
    missing = [one for one in use_ids if one not in result_ids]
    if missing:
        raise ApiError(
            400,
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block "
            f"in the "
            "next message.",
        )
    kinds = [block["type"] == "tool_result" for block in following]
    if use_ids and kinds != sorted(kinds, reverse=True):
        raise ApiError(400, f"messages.{index + 1}: `tool_result` blocks must come first in the content")


def _check_tool_results(index: int, use_ids: list[str], blocks: list[Json]) -> None:
    for block in blocks:
        if block["type"] == "tool_result" and block["tool_use_id"] not in use_ids:
            raise ApiError(
                400,
                f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: "
                f"{block['tool_use_id']}. Each `tool_result` block must have a corresponding `tool_use` "
                f"block in "
                "the previous message.",
            )


def check_source(where: str, block: Json) -> None:
    """Raise the ApiError for an image or a document that is none."""
    kind, source = block["type"], block["source"] or {}
    tag = source.get("type")
    if tag not in _SOURCES[kind]:
        expected = ", ".join(f"'{name}'" for name in _SOURCES[kind])
        message = f"Input tag '{tag}' found using 'type' does not match any of the expected tags: {expected}"
        raise ApiError(400, f"{where}.{kind}.source: {message}")
    if tag == "base64":
        _check_base64(
            f"{where}.{kind}.source.base64", source, _IMAGE_TYPES if kind == "image" else ("application/pdf",)
        )
    if tag == "url" and not source["url"].startswith(("http://", "https://")):
        raise ApiError(400, f"{where}.{kind}.source.url.url: Only HTTPS URLs are supported.")


def _check_base64(where: str, source: Json, kinds: tuple[str, ...]) -> None:
    media_type = source["media_type"]
    if media_type not in kinds:
        *first, last = [f"'{kind}'" for kind in kinds]
        expected = f"{', '.join(first)} or {last}" if first else last
        raise ApiError(400, f"{where}.media_type: Input should be {expected}")
    try:
        raw = base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{where}: invalid base64 data") from None
    detected = next((kind for magic, kind in _FILE_SIGNATURES.items() if raw.startswith(magic)), media_type)
    if detected != media_type and media_type in _IMAGE_TYPES:
        raise ApiError(400, f"{where}.data: Image does not match the provided media type {media_type}")
