"""Content blocks, both ways: text, media, thoughts, calls and their results.

Source: the SDK's ``MessageContentParam`` and ``BetaContentBlockParam`` with all that they hold.  Blocks of
tools that the vendor runs are left out and reported; unknown types are refused, as the vendor does.

The vendor refuses texts without a visible character, thoughts that it did not sign, and a message that ends
with a thought ("The final block in an assistant message cannot be `thinking`").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from msgspec.json import Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import (
    JsonObject,
    Media,
    Part,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.canonical.history import NO_RESULT, HistoryPart, PairedCall
from mgw.dialects.anthropic.cache_control import CacheBreakpoints, last_breakpoint, parse_cache_control
from mgw.dialects.anthropic.media import parse_document, parse_image, render_media
from mgw.dialects.anthropic.thoughts import is_own
from mgw.dialects.arguments import embed_arguments
from mgw.dialects.fields import Fields, bare_text, none_of
from mgw.dialects.media import FEATURES
from mgw.dialects.placeholders import BETWEEN, describe_omission
from mgw.dialects.signatures import is_altered, untag_signature
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import Family

BILLING_PREFIX: Final = "x-anthropic-billing-header"
_ENCODER: Final = Encoder()
_SYSTEM: Final = Feature.SYSTEM  # a member of an enumeration is looked up in Python's slow way each time
_NO_CITATIONS: Final[tuple[object, ...]] = (None, [], {}, {"enabled": False})
_SERVER_TOOL_BLOCKS: Final = frozenset(
    {
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "mcp_tool_listing",
        "container_upload",
        "fallback",
        "tool_addition",
        "tool_removal",
        "browser_state",
    }
)


def parse_content(message: Fields, role: Role) -> tuple[Part, ...]:
    """Parse the content of a message: a text, or blocks."""
    value = message.take("content")
    if type(value) is str:
        return (Text(value),)
    if value is None and role is not Role.SYSTEM:  # the beta form of a system message may be without
        raise message.missing("content")
    parts: list[Part] = []
    for index, block in enumerate(message.elements("content", value)):
        text = bare_text(block)  # messages of every role may have texts
        if text is None:
            parts += _parse_block(message, message.open_element("content", index, block), role)
        else:
            parts.append(Text(text))
    return tuple(parts)


def parse_bare_blocks(blocks: list[Any], role: Role) -> tuple[Part, ...] | None:  # Any: any JSON
    """Return the parts that these blocks are, if each holds what nearly all do and nothing else."""
    parts: list[Part] = []
    try:
        for block in blocks:
            if type(block) is not dict:
                return None
            text = block.get("text")
            if len(block) == 2 and type(text) is str and block.get("type") == "text":  # as bare_text() does
                parts.append(Text(text))
                continue
            part = _parse_bare_block(block, role)
            if part is None:
                return None
            parts.append(part)
    except RecursionError:  # its refusal names the place
        return None
    return tuple(parts)


def _parse_bare_block(block: JsonObject, role: Role) -> Part | None:
    """Return the call or the result that a block is."""
    kind = block.get("type")
    if kind == "tool_use" and len(block) == 4 and role is Role.ASSISTANT:
        call_id, name, arguments = block.get("id"), block.get("name"), block.get("input")
        if type(call_id) is str and type(name) is str and type(arguments) is dict:
            return ToolCall(call_id, name, _ENCODER.encode(arguments).decode())
    elif kind == "tool_result" and len(block) == 3 and role is Role.USER:
        call_id, content = block.get("tool_use_id"), block.get("content")
        if type(content) is list and len(content) == 1 and type(content[0]) is dict:
            content = bare_text(content[0])
        if type(call_id) is str and type(content) is str:
            return ToolResult(call_id, (Text(content),))
    return None


def _parse_block(message: Fields, block: Fields, role: Role) -> Sequence[Part]:
    kind = block.required_text("type")
    if kind in _SERVER_TOOL_BLOCKS:
        _skip(message, block, kind)
        return ()
    known = _BLOCKS.get(kind)
    if known is None:
        raise none_of(block, "type", kind, _BLOCKS)
    roles, parse = known
    if role not in roles:
        where = " and ".join(one.value for one in roles)
        raise block.wrong("type", f"{kind} blocks are allowed only in messages with role {where}")
    return parse(message, block)


def parse_system(root: Fields) -> tuple[Text, ...]:
    """Parse the instructions, without what Claude Code's account is billed by.

    That line is the first of all, has another hash in each request and means nothing to a model: with it no
    provider finds a prompt in its cache again (anthropics/claude-code#68900).
    """
    texts = parse_texts(root, "system", _SYSTEM)
    found: list[Text] = []
    for text in texts:
        if not text.text.startswith(BILLING_PREFIX):
            found.append(text)
            continue
        root.ledger.leave(root.path(f"system[{BILLING_PREFIX}]"))
        rest = text.text.partition("\n")[2].lstrip("\n")
        if rest:
            found.append(replace(text, text=rest))
    return tuple(found)


def parse_texts(holder: Fields, key: str, feature: Feature | None = None) -> tuple[Text, ...]:
    """Parse a text, or blocks of text alone."""
    value = holder.take(key, feature)
    if type(value) is str:
        return (Text(value),)
    found: list[Text] = []
    for index, item in enumerate(holder.elements(key, value)):
        text = bare_text(item)
        if text is not None:
            found.append(Text(text))
            continue
        block = holder.open_element(key, index, item)
        kind = block.required_text("type")
        if kind != "text":
            raise none_of(block, "type", kind, ("text",))
        found += _parse_text(holder, block)
    return tuple(found)


def _skip(holder: Fields, block: Fields, kind: str) -> None:
    block.skip(*block)
    holder.ledger.leave(holder.path(f"content[{kind}]"))


def _parse_text(_holder: Fields, block: Fields) -> list[Text]:
    text = block.required_text("text")
    _skip_citations(block)
    return [Text(text, parse_cache_control(block))]


def _skip_citations(block: Fields) -> None:
    if "citations" in block.unread and block.take("citations") not in _NO_CITATIONS:
        block.leave("citations")


def _parse_image(holder: Fields, block: Fields) -> list[Media]:
    holder.note(Feature.IMAGE, "content[image]")
    return [parse_image(block)]


def _parse_document(holder: Fields, block: Fields) -> list[Text | Media]:
    holder.note(Feature.DOCUMENT, "content[document]")
    _skip_citations(block)
    return parse_document(block)


def _parse_search_result(_holder: Fields, block: Fields) -> list[Text]:
    """Parse a search result as text: a line with its title and source, then its text."""
    heading = f"{block.required_text('title')} ({block.required_text('source')})"
    _skip_citations(block)
    texts = parse_texts(block, "content")
    text = "\n".join((heading, *(text.text for text in texts)))
    return [Text(text, parse_cache_control(block) or last_breakpoint(texts))]


def _parse_tool_reference(_holder: Fields, block: Fields) -> list[Text]:
    return [Text(block.required_text("tool_name"), parse_cache_control(block))]


def _parse_thinking(holder: Fields, block: Fields) -> list[Thinking]:
    text = block.required_text("thinking")
    value = block.text("signature") or ""
    signature = untag_signature(value, Family.ANTHROPIC)
    if signature is None or is_altered(value, text):
        _skip(holder, block, "thinking")
        return []
    holder.note(Feature.THINKING, "content[thinking]")
    return [Thinking(text, signature)]


def _parse_redacted_thinking(holder: Fields, block: Fields) -> list[Thinking]:
    signature = untag_signature(block.required_text("data"), Family.ANTHROPIC, redacted=True)
    if signature is None:
        _skip(holder, block, "redacted_thinking")
        return []
    holder.note(Feature.THINKING, "content[redacted_thinking]")
    return [Thinking("", signature)]


def _parse_compaction(holder: Fields, block: Fields) -> list[Text]:
    """Parse the vendor's summary of what came before: the conversation makes no sense without it.

    It is a paragraph of its own, also where texts of one message become one.
    """
    summary = block.text("content")
    if not summary:
        _skip(holder, block, "compaction")
        return []
    return [Text(summary + BETWEEN, parse_cache_control(block))]


def _parse_tool_use(_holder: Fields, block: Fields) -> list[ToolCall]:
    arguments = block.raw_object("input")
    if arguments is None:
        raise block.missing("input")
    try:
        text = _ENCODER.encode(arguments).decode()
    except RecursionError:
        raise block.wrong("input", "it is nested too deeply") from None
    if "caller" in block.unread and block.take("caller") not in (None, {"type": "direct"}):
        block.leave("caller")
    call_id, name = block.required_text("id"), block.required_text("name")
    return [ToolCall(call_id, name, text, cache=parse_cache_control(block))]


def _parse_tool_result(_holder: Fields, block: Fields) -> list[ToolResult]:
    call_id = block.required_text("tool_use_id")
    is_error = block.flag("is_error") is True
    if is_error:
        block.note(Feature.RESULT_ERROR, "is_error")
    value = block.take("content")
    parts: list[Text | Media] = []
    if type(value) is str:
        parts.append(Text(value))
    else:
        for index, item in enumerate(block.elements("content", value)):
            text = bare_text(item)
            if text is not None:
                parts.append(Text(text))
                continue
            inner = block.open_element("content", index, item)
            kind = inner.required_text("type")
            if kind in _SERVER_TOOL_BLOCKS:
                _skip(block, inner, kind)
            elif kind in _RESULT_BLOCKS:
                parts += _RESULT_BLOCKS[kind](block, inner)
            else:
                raise none_of(inner, "type", kind, _RESULT_BLOCKS)
    return [ToolResult(call_id, tuple(parts), is_error=is_error, cache=parse_cache_control(block))]


_USER: Final = (Role.USER,)
_ASSISTANT: Final = (Role.ASSISTANT,)
_BOTH: Final = (Role.USER, Role.ASSISTANT)
_ANYWHERE: Final = (*_BOTH, Role.SYSTEM)
_RESULT_BLOCKS: Final[Mapping[str, Callable[[Fields, Fields], Sequence[Text | Media]]]] = MappingProxyType(
    {
        "text": _parse_text,
        "image": _parse_image,
        "document": _parse_document,
        "search_result": _parse_search_result,
        "tool_reference": _parse_tool_reference,
    }
)
_BLOCKS: Final[Mapping[str, tuple[tuple[Role, ...], Callable[[Fields, Fields], Sequence[Part]]]]] = (
    MappingProxyType(
        {
            "text": (_ANYWHERE, _parse_text),
            "image": (_BOTH, _parse_image),
            "document": (_BOTH, _parse_document),
            "search_result": (_BOTH, _parse_search_result),
            "thinking": (_ASSISTANT, _parse_thinking),
            "redacted_thinking": (_ASSISTANT, _parse_redacted_thinking),
            "compaction": (_BOTH, _parse_compaction),
            "tool_use": (_ASSISTANT, _parse_tool_use),
            "tool_result": (_USER, _parse_tool_result),
        }
    )
)
"""The roles that may have a block, and its parser."""


def render_text(text: str) -> JsonObject:
    """Return a block of text."""
    return {"type": "text", "text": text}


@dataclass(slots=True)
class BlockRenderer:
    """Renders the parts of one request."""

    row: ModelRow
    names: ToolNames
    breakpoints: CacheBreakpoints
    lost: set[Feature]
    with_thoughts: bool = True
    """Whether thoughts go with the request."""
    has_thoughts: bool = False
    """Whether one has been rendered."""
    called: dict[str, None] = field(default_factory=dict)
    """What the tools of all calls are called here, in their order."""

    def render_texts(self, parts: Iterable[HistoryPart]) -> list[JsonObject]:
        """Return the texts of an instruction."""
        return [
            block
            for part in parts
            if isinstance(part, Text) and (block := self.render_text(part)) is not None
        ]

    def render_part(self, part: HistoryPart, role: Role) -> list[JsonObject]:
        """Return the blocks of a part of a turn of ``role``."""
        match part:
            case Text():
                block = self.render_text(part)
            case Refusal():
                block = render_text(part.text) if part.text.strip() else None
            case Media():
                return self._render_media(part)
            case Thinking():
                block = self._render_thinking(part, role)
            case PairedCall():
                block = self._render_call(part)
        return [] if block is None else [block]

    def render_result(self, call: PairedCall) -> JsonObject:
        """Return the result of a call."""
        block: JsonObject = {"type": "tool_result", "tool_use_id": call.id}
        result = call.result
        if result is None:
            block["content"] = NO_RESULT
            block["is_error"] = True
            return block
        content = self._render_result_content(result)
        if content:
            block["content"] = content
        if result.is_error:
            block["is_error"] = True
        return self.breakpoints.add_to(block, result.cache)

    def _render_result_content(self, result: ToolResult) -> str | list[JsonObject]:
        parts = result.parts
        if len(parts) == 1 and isinstance(parts[0], Text) and parts[0].cache is None:
            return parts[0].text  # a text may be blank, a block may not
        found = [block for part in parts for block in self.render_part(part, Role.USER)]
        if len(found) == 1 and found[0].keys() == {"type", "text"}:
            return str(found[0]["text"])
        return found

    def render_text(self, text: Text) -> JsonObject | None:
        """Return a text as a block; ``None``: there is nothing to be seen of it."""
        if text.signature is not None:
            self.lost.add(Feature.THINKING)
        if not text.text or text.text.isspace():
            if text.cache is not None:
                self.lost.add(Feature.CACHE)
            return None
        block: JsonObject = {"type": "text", "text": text.text}
        return block if text.cache is None else self.breakpoints.add_to(block, text.cache)

    def _render_media(self, media: Media) -> list[JsonObject]:
        if media.signature is not None:
            self.lost.add(Feature.THINKING)
        block = render_media(media, self.lost, self.row)
        if block is None:
            self.lost.add(FEATURES[media.kind] if media.file_id is None else Feature.FILE_ID)
            block = render_text(describe_omission(media))
        block = self.breakpoints.add_to(block, media.cache)
        context = (media.context or "").strip()
        if context and "context" not in block:  # documents alone have a place for it
            return [render_text(context), block]
        return [block]

    def _render_thinking(self, thinking: Thinking, role: Role) -> JsonObject | None:
        signature = thinking.signature
        if role is not Role.ASSISTANT or not is_own(signature) or not self.with_thoughts:
            self.lost.add(Feature.THINKING)
            return None
        assert signature is not None, "is_own"
        self.has_thoughts = True
        if signature.redacted:
            return {"type": "redacted_thinking", "data": signature.value}
        return {"type": "thinking", "thinking": thinking.text, "signature": signature.value}

    def _render_call(self, call: PairedCall) -> JsonObject:
        part = call.part
        if part.signature is not None and not is_own(part.signature):
            self.lost.add(Feature.THINKING)
        name = self.names[part.name]
        self.called[name] = None
        block: JsonObject = {
            "type": "tool_use",
            "id": call.id,
            "name": name,
            "input": embed_arguments(part.arguments),
        }
        return self.breakpoints.add_to(block, part.cache)
