"""Automatic cache breakpoints: a conversation to a conversation (contract 8.27).

A provider with explicit prompt caching reads a prompt as tools, then instructions, then turns, and caches up
to a mark.  A client of another family cannot set marks, so the gateway may set one behind the tools and one
behind the instructions, each where what stands before it is long enough to be worth it.
"""

from __future__ import annotations

from msgspec.json import Encoder
from msgspec.structs import replace

from mgw.canonical.conversation import CacheMark, Conversation, Tool, ToolResult

_ENCODER = Encoder()
MOST_MARKS = 4
"""The most cache marks that Anthropic takes (prompt caching reference)."""
SYSTEM = "system"
TOOLS = "tools"


def add_breakpoints(
    conversation: Conversation, targets: frozenset[str], min_chars: int
) -> tuple[Conversation, tuple[str, ...]]:
    """Return the conversation with marks on ``targets``, and the names of those that got one.

    A provider takes :data:`MOST_MARKS` in all, and those of the client go first.  A target stays as it is
    where the client marked any of it, and where the prompt up to its end has fewer than ``min_chars``
    characters: a provider ignores a mark below its own minimum.
    """
    marked: list[str] = []
    room = MOST_MARKS - _marks(conversation)
    tools, system = conversation.tools, conversation.system
    chars = sum(map(_chars, tools)) if tools else 0
    wanted = room > 0 and TOOLS in targets and bool(tools) and chars >= min_chars
    if wanted and not any(tool.cache for tool in tools):
        conversation = replace(conversation, tools=(*tools[:-1], replace(tools[-1], cache=CacheMark())))
        marked.append(TOOLS)
        room -= 1
    chars += sum(len(text.text) for text in system)
    last = max((place for place, text in enumerate(system) if text.text), default=None)
    wanted = room > 0 and SYSTEM in targets and last is not None and chars >= min_chars
    if wanted and last is not None and not any(text.cache for text in system):
        text = replace(system[last], cache=CacheMark())
        conversation = replace(conversation, system=(*system[:last], text, *system[last + 1 :]))
        marked.append(SYSTEM)
    return conversation, tuple(sorted(marked))


def _marks(conversation: Conversation) -> int:
    bearers: list[object] = [*conversation.system, *conversation.tools]
    for turn in conversation.turns:
        bearers += turn.parts
        for part in turn.parts:
            if isinstance(part, ToolResult):
                bearers += part.parts
    return sum(getattr(bearer, "cache", None) is not None for bearer in bearers)


def _chars(tool: Tool) -> int:
    schema = 0 if tool.schema is None else len(_ENCODER.encode(tool.schema))
    return len(tool.name) + len(tool.description or "") + schema
