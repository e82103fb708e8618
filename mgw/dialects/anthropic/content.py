"""Content blocks, read: what each type of block means.

Source: the SDK's ``MessageContentParam`` and ``BetaContentBlockParam`` with all that they hold.  Blocks of
tools that the vendor runs are left out and reported; types that nobody knows are refused, as the vendor does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.json import Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import Media, Part, Role, Text, Thinking, ToolCall, ToolResult
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.marks import cache_mark, last_mark
from mgw.dialects.anthropic.media import read_document, read_image
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.fillers import BETWEEN
from mgw.dialects.signatures import is_altered, read_signature
from mgw.vocabulary import Family

BILLING: Final = "x-anthropic-billing-header"
_ENCODER: Final = Encoder()
_NO_CITATIONS: Final[tuple[object, ...]] = (None, [], {}, {"enabled": False})
_RUN_BY_THE_VENDOR: Final = frozenset(
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


def content(message: Fields, role: Role) -> tuple[Part, ...]:
    """Take the content of a message: a text, or blocks."""
    value = message.take("content")
    if type(value) is str:
        return (Text(value),)
    if value is None and role is not Role.SYSTEM:  # the beta form of a system message may be without
        raise message.missing("content")
    parts: list[Part] = []
    for block in message.opened("content", value):
        kind = block.required_text("type")
        if kind in _RUN_BY_THE_VENDOR:
            _leave(message, block, kind)
            continue
        known = _BLOCKS.get(kind)
        if known is None:
            raise none_of(block, "type", kind, _BLOCKS)
        roles, read = known
        if role not in roles:
            where = " and ".join(one.value for one in roles)
            raise block.wrong("type", f"{kind} blocks are allowed only in messages of the role {where}")
        parts += read(message, block)
    return tuple(parts)


def system_texts(root: Fields) -> tuple[Text, ...]:
    """Take the instructions, without what Claude Code's account is billed by.

    That line is the first of all, has another hash in each request and means nothing to a model: with it no
    provider finds a prompt in its cache again (anthropics/claude-code#68900).
    """
    texts = text_blocks(root, "system", Feature.SYSTEM)
    found: list[Text] = []
    for text in texts:
        if not text.text.startswith(BILLING):
            found.append(text)
            continue
        root.ledger.leave(root.path(f"system[{BILLING}]"))
        rest = text.text.partition("\n")[2].lstrip("\n")
        if rest:
            found.append(replace(text, text=rest))
    return tuple(found)


def text_blocks(holder: Fields, key: str, feature: Feature | None = None) -> tuple[Text, ...]:
    """Take a text, or blocks of text alone."""
    value = holder.take(key, feature)
    if type(value) is str:
        return (Text(value),)
    found: list[Text] = []
    for block in holder.opened(key, value):
        kind = block.required_text("type")
        if kind != "text":
            raise none_of(block, "type", kind, ("text",))
        found += _text(holder, block)
    return tuple(found)


def _leave(holder: Fields, block: Fields, kind: str) -> None:
    block.skip(*block)
    holder.ledger.leave(holder.path(f"content[{kind}]"))


def _text(_holder: Fields, block: Fields) -> list[Text]:
    text = block.required_text("text")
    _leave_citations(block)
    return [Text(text, cache_mark(block))]


def _leave_citations(block: Fields) -> None:
    if block.take("citations") not in _NO_CITATIONS:
        block.leave("citations")


def _image(holder: Fields, block: Fields) -> list[Media]:
    holder.note(Feature.IMAGE, "content[image]")
    return [read_image(block)]


def _document(holder: Fields, block: Fields) -> list[Text | Media]:
    holder.note(Feature.DOCUMENT, "content[document]")
    _leave_citations(block)
    return read_document(block)


def _search_result(_holder: Fields, block: Fields) -> list[Text]:
    """Read a search result as text: a line with its title and source, then what it says."""
    heading = f"{block.required_text('title')} ({block.required_text('source')})"
    _leave_citations(block)
    texts = text_blocks(block, "content")
    said = "\n".join((heading, *(text.text for text in texts)))
    return [Text(said, cache_mark(block) or last_mark(texts))]


def _tool_reference(_holder: Fields, block: Fields) -> list[Text]:
    return [Text(block.required_text("tool_name"), cache_mark(block))]


def _thinking(holder: Fields, block: Fields) -> list[Thinking]:
    text = block.required_text("thinking")
    sealed = block.text("signature") or ""
    signature = read_signature(sealed, Family.ANTHROPIC)
    if signature is None or is_altered(sealed, text):
        _leave(holder, block, "thinking")
        return []
    holder.note(Feature.THINKING, "content[thinking]")
    return [Thinking(text, signature)]


def _redacted(holder: Fields, block: Fields) -> list[Thinking]:
    signature = read_signature(block.required_text("data"), Family.ANTHROPIC, redacted=True)
    if signature is None:
        _leave(holder, block, "redacted_thinking")
        return []
    holder.note(Feature.THINKING, "content[redacted_thinking]")
    return [Thinking("", signature)]


def _compaction(holder: Fields, block: Fields) -> list[Text]:
    """Read the vendor's summary of what came before: the conversation makes no sense without it.

    It is a paragraph of its own, also where texts of one message become one.
    """
    summary = block.text("content")
    if not summary:
        _leave(holder, block, "compaction")
        return []
    return [Text(summary + BETWEEN, cache_mark(block))]


def _tool_use(_holder: Fields, block: Fields) -> list[ToolCall]:
    arguments = block.raw_object("input")
    if arguments is None:
        raise block.missing("input")
    try:
        text = _ENCODER.encode(arguments).decode()
    except RecursionError:
        raise block.wrong("input", "it is nested too deeply") from None
    if block.take("caller") not in (None, {"type": "direct"}):
        block.leave("caller")
    return [ToolCall(block.required_text("id"), block.required_text("name"), text, cache=cache_mark(block))]


def _tool_result(_holder: Fields, block: Fields) -> list[ToolResult]:
    call_id = block.required_text("tool_use_id")
    is_error = block.flag("is_error") is True
    if is_error:
        block.note(Feature.RESULT_ERROR, "is_error")
    value = block.take("content")
    parts: list[Text | Media] = []
    if type(value) is str:
        parts.append(Text(value))
    else:
        for inner in block.opened("content", value):
            kind = inner.required_text("type")
            if kind in _RUN_BY_THE_VENDOR:
                _leave(block, inner, kind)
            elif kind in _IN_RESULTS:
                parts += _IN_RESULTS[kind](block, inner)
            else:
                raise none_of(inner, "type", kind, _IN_RESULTS)
    return [ToolResult(call_id, tuple(parts), is_error=is_error, cache=cache_mark(block))]


_USER: Final = (Role.USER,)
_ASSISTANT: Final = (Role.ASSISTANT,)
_BOTH: Final = (Role.USER, Role.ASSISTANT)
_ANYWHERE: Final = (*_BOTH, Role.SYSTEM)

_IN_RESULTS: Final[Mapping[str, Callable[[Fields, Fields], Sequence[Text | Media]]]] = MappingProxyType(
    {
        "text": _text,
        "image": _image,
        "document": _document,
        "search_result": _search_result,
        "tool_reference": _tool_reference,
    }
)
_BLOCKS: Final[Mapping[str, tuple[tuple[Role, ...], Callable[[Fields, Fields], Sequence[Part]]]]] = (
    MappingProxyType(
        {
            "text": (_ANYWHERE, _text),
            "image": (_BOTH, _image),
            "document": (_BOTH, _document),
            "search_result": (_BOTH, _search_result),
            "thinking": (_ASSISTANT, _thinking),
            "redacted_thinking": (_ASSISTANT, _redacted),
            "compaction": (_BOTH, _compaction),
            "tool_use": (_ASSISTANT, _tool_use),
            "tool_result": (_USER, _tool_result),
        }
    )
)
