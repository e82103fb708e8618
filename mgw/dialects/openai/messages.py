"""The messages of chat completions as a client sends them, parsed into the turns of a conversation.

Source: the SDK's ``ChatCompletionMessageParam``.  A client's messages stay one to one; leading instructions
become the conversation's own.  Hosts and their clients add ``reasoning_content``, ``reasoning_details``,
``extra_content`` (:mod:`mgw.dialects.openai.thoughts`), ``images`` and ``cache_control``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import (
    CacheMark,
    JsonObject,
    Media,
    Part,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.features import Feature
from mgw.canonical.identifiers import make_id
from mgw.dialects.fields import Fields, Ledger, none_of
from mgw.dialects.openai.blocks import (
    ASSISTANT_PARTS,
    SYSTEM_PARTS,
    USER_PARTS,
    ContentPart,
    parse_cache_control,
    parse_calls,
    parse_content,
)
from mgw.dialects.openai.media import parse_images
from mgw.dialects.openai.thoughts import parse_extra_content, parse_thoughts, place_thoughts

_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Role.SYSTEM
_INSTRUCTIONS: Final = Feature.SYSTEM
_CALLS_WITHOUT_IDS: Final = "function_call"
"""The seed of identifiers for calls of the deprecated kind."""


def parse_turns(request: Fields) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    """Take the messages; return the leading instructions, and the turns."""
    messages = request.take("messages")
    if messages is None:
        raise request.missing("messages")
    parser = _MessageParser()
    turns = parser.turns
    for index, message in enumerate(request.elements("messages", messages)):
        turn = _parse_bare_message(message)
        if turn is None:
            parser.parse(request.open_element("messages", index, message))
        elif turn.role is _SYSTEM:
            parser.add_system(turn, request.ledger)
        else:
            turns.append(turn)
    return tuple(parser.system), tuple(turns)


def _parse_bare_message(message: JsonObject) -> Turn | None:
    """Return the turn of a message that is no more than a text, as most are; ``None``: it is another."""
    role, text = message.get("role"), message.get("content")
    if type(text) is not str:
        return None
    parts = (Text(text),) if text else ()
    if len(message) == 2:
        if role == "user":
            return Turn(_USER, parts)
        if role == "assistant":
            return Turn(_ASSISTANT, parts)
        if role == "system":
            return Turn(_SYSTEM, parts)
    elif len(message) == 3 and role == "tool":
        call_id = message.get("tool_call_id")
        if type(call_id) is str:
            return Turn(_USER, (ToolResult(call_id, parts),))
    return None


class _MessageParser:
    """Parses messages in their order."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        self.turns: list[Turn] = []
        self._calls_without_ids = 0
        self._waiting: dict[str, deque[str]] = {}
        """The calls of the deprecated kind that wait for their results, by their names."""

    def parse(self, message: Fields) -> None:
        """Take a message."""
        role = message.required_text("role")
        parser = _PARSERS.get(role)
        if parser is None:
            raise none_of(message, "role", role, _PARSERS)
        parser(self, message)

    def parse_system(self, message: Fields) -> None:
        """Take a ``system`` or ``developer`` message."""
        texts = tuple(part for part in _parse_marked_content(message, SYSTEM_PARTS) if isinstance(part, Text))
        name = message.text("name", Feature.TURN_NAME) if self.turns else None
        self.add_system(Turn(_SYSTEM, texts, name), message.ledger)

    def add_system(self, turn: Turn, ledger: Ledger) -> None:
        """Add an instruction; those before all turns are the conversation's own."""
        if self.turns:
            self.turns.append(turn)
        elif turn.parts:
            self.system += [part for part in turn.parts if isinstance(part, Text)]
            ledger.note(_INSTRUCTIONS, "messages[].content")

    def parse_user(self, message: Fields) -> None:
        """Take a ``user`` message."""
        parts = _parse_marked_content(message, USER_PARTS)
        name = message.text("name", Feature.TURN_NAME) if message.unread else None
        self.turns.append(Turn(_USER, tuple(parts), name))

    def parse_assistant(self, message: Fields) -> None:
        """Take an ``assistant`` message."""
        content: list[Part] = [*parse_content(message, ASSISTANT_PARTS)]
        calls = parse_calls(message)
        if message.unread:
            self._parse_rare_fields(message, content, calls)
        else:
            self.turns.append(Turn(_ASSISTANT, (*content, *calls)))

    def _parse_rare_fields(self, message: Fields, content: list[Part], calls: list[ToolCall]) -> None:
        """Take what few messages of an assistant have beside content and calls."""
        thoughts = parse_thoughts(message)
        content += parse_images(message)
        refusal = message.text("refusal", Feature.REFUSAL)
        if refusal:
            content.append(Refusal(refusal))
        calls += self._parse_function_call(message)
        signature = parse_extra_content(message)
        if signature is not None:
            content = _sign_last_text(content, signature)
        if message.take("annotations"):  # what another family could not check
            message.ledger.leave(message.path("annotations"))
        message.skip("parsed")  # of an SDK: content, once more
        parts = place_thoughts(thoughts, content, calls)
        cache = parse_cache_control(message)
        if cache is not None:
            parts = _mark_last_part(message, parts, cache)
        self.turns.append(Turn(_ASSISTANT, tuple(parts), message.text("name", Feature.TURN_NAME)))

    def parse_tool(self, message: Fields) -> None:
        """Take the result of a call."""
        call_id = message.required_text("tool_call_id")
        name = message.text("name", Feature.RESULT_NAME)
        self._add_result(message, call_id, name)

    def parse_function(self, message: Fields) -> None:
        """Take the result of a call of the deprecated kind: it answers the first that waits for one."""
        name = message.required_text("name")
        waiting = self._waiting.get(name)
        self._add_result(message, waiting.popleft() if waiting else make_id(_CALLS_WITHOUT_IDS, -1), name)

    def _add_result(self, message: Fields, call_id: str, name: str | None) -> None:
        content = parse_content(message, USER_PARTS)
        parts = tuple([part for part in content if isinstance(part, Text | Media)])
        result = ToolResult(call_id, parts, name, cache=parse_cache_control(message))
        self.turns.append(Turn(_USER, (result,)))

    def _parse_function_call(self, message: Fields) -> list[ToolCall]:
        function = message.nested("function_call")
        if function is None:
            return []
        call_id = make_id(_CALLS_WITHOUT_IDS, self._calls_without_ids)
        self._calls_without_ids += 1
        name = function.required_text("name")
        self._waiting.setdefault(name, deque()).append(call_id)
        return [ToolCall(call_id, name, function.text("arguments") or "")]


def _sign_last_text(content: list[Part], signature: Signature) -> list[Part]:
    """Put a message's signature beside the last of its texts, or beside an empty one."""
    for place in range(len(content) - 1, -1, -1):
        part = content[place]
        if isinstance(part, Text):
            return [*content[:place], replace(part, signature=signature), *content[place + 1 :]]
    return [*content, Text("", signature=signature)]


def _parse_marked_content(message: Fields, allowed: frozenset[str]) -> list[ContentPart]:
    """Return the content; a mark on the message itself is one on its last part (LiteLLM's spelling)."""
    content = parse_content(message, allowed)
    cache = parse_cache_control(message)
    if cache is not None and content:
        last = content[-1]
        if isinstance(last, Text | Media):
            content[-1] = replace(last, cache=cache)
    return content


def _mark_last_part(message: Fields, parts: list[Part], cache: CacheMark) -> list[Part]:
    """Put a mark on the message itself on the last part that can have one."""
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        if not isinstance(part, Thinking | Refusal):
            return [*parts[:place], replace(part, cache=cache), *parts[place + 1 :]]
    message.ledger.leave(message.path("cache_control"))
    return parts


_PARSERS: Final[MappingProxyType[str, Callable[[_MessageParser, Fields], None]]] = MappingProxyType(
    {
        "system": _MessageParser.parse_system,
        "developer": _MessageParser.parse_system,
        "user": _MessageParser.parse_user,
        "assistant": _MessageParser.parse_assistant,
        "tool": _MessageParser.parse_tool,
        "function": _MessageParser.parse_function,
    }
)
