"""The messages of a request, as turns.

Source: the SDK's ``ChatCompletionMessageParam``.  The client's messages stay one to one; leading instructions
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
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.identifiers import made_id
from mgw.dialects.openai.content import (
    ANSWERS,
    ANYTHING,
    TEXTS,
    Content,
    read_cache,
    read_content,
    read_images,
)
from mgw.dialects.openai.thoughts import parse_extra_content, parse_thoughts, place_thoughts
from mgw.errors import GatewayError

_CALLS_WITHOUT_IDS: Final = "function_call"
"""The seed of identifiers for calls of the deprecated kind."""


def not_a_function(fields: Fields, kind: str) -> GatewayError:
    """Return the refusal of a tool that is no function: no other family could run it."""
    return fields.wrong(
        "type",
        f"tools of type {kind[:64]!r} cannot be translated, only functions; a provider that speaks OpenAI's "
        "API accepts them unchanged",
    )


class History:
    """Reads messages in their order."""

    def __init__(self) -> None:
        self.system: list[Text] = []
        self.turns: list[Turn] = []
        self._calls_without_ids = 0
        self._waiting: dict[str, deque[str]] = {}
        """By their names, the calls of the deprecated kind that wait for their results."""

    def read(self, message: Fields) -> None:
        """Take one message."""
        role = message.required_text("role")
        reader = _READERS.get(role)
        if reader is None:
            raise none_of(message, "role", role, _READERS)
        reader(self, message)

    def instructions(self, message: Fields) -> None:
        """Take a ``system`` or ``developer`` message."""
        texts = tuple(part for part in _marked(message, TEXTS) if isinstance(part, Text))
        if self.turns:
            self.turns.append(Turn(Role.SYSTEM, texts, message.text("name", Feature.TURN_NAME)))
        else:
            self.system += texts
            if texts:
                message.note(Feature.SYSTEM, "content")

    def user(self, message: Fields) -> None:
        """Take a ``user`` message."""
        parts = _marked(message, ANYTHING)
        name = None if message.is_empty else message.text("name", Feature.TURN_NAME)
        self.turns.append(Turn(Role.USER, tuple(parts), name))

    def assistant(self, message: Fields) -> None:
        """Take an ``assistant`` message."""
        said: list[Part] = [*read_content(message, ANSWERS)]
        calls = [_call(call) for call in message.objects("tool_calls")]
        if message.is_empty:
            self.turns.append(Turn(Role.ASSISTANT, (*said, *calls)))
        else:
            self._rare(message, said, calls)

    def _rare(self, message: Fields, said: list[Part], calls: list[ToolCall]) -> None:
        """Take what few messages of an assistant have beside content and calls."""
        thoughts = parse_thoughts(message)
        said += read_images(message)
        refusal = message.text("refusal", Feature.REFUSAL)
        if refusal:
            said.append(Refusal(refusal))
        calls += self._call_without_id(message)
        signature = parse_extra_content(message)
        if signature is not None:
            said = _signed(said, signature)
        if message.take("annotations"):  # what another family could not check
            message.ledger.leave(message.path("annotations"))
        message.skip("parsed")  # of an SDK: content, once more
        parts = place_thoughts(thoughts, said, calls)
        cache = read_cache(message)
        if cache is not None:
            parts = _cached(message, parts, cache)
        self.turns.append(Turn(Role.ASSISTANT, tuple(parts), message.text("name", Feature.TURN_NAME)))

    def tool(self, message: Fields) -> None:
        """Take the result of a call."""
        call_id = message.required_text("tool_call_id")
        name = None if message.is_empty else message.text("name", Feature.RESULT_NAME)
        self._result(message, call_id, name)

    def function(self, message: Fields) -> None:
        """Take the result of a call of the deprecated kind: it answers the first that waits for one."""
        name = message.required_text("name")
        waiting = self._waiting.get(name)
        self._result(message, waiting.popleft() if waiting else made_id(_CALLS_WITHOUT_IDS, -1), name)

    def _result(self, message: Fields, call_id: str, name: str | None) -> None:
        content = read_content(message, ANYTHING)
        parts = tuple([part for part in content if isinstance(part, Text | Media)])
        result = ToolResult(call_id, parts, name, cache=read_cache(message))
        self.turns.append(Turn(Role.USER, (result,)))

    def _call_without_id(self, message: Fields) -> list[ToolCall]:
        called = message.nested("function_call")
        if called is None:
            return []
        call_id = made_id(_CALLS_WITHOUT_IDS, self._calls_without_ids)
        self._calls_without_ids += 1
        name = called.required_text("name")
        self._waiting.setdefault(name, deque()).append(call_id)
        return [ToolCall(call_id, name, called.text("arguments") or "")]


def _call(call: Fields) -> ToolCall:
    kind = call.text("type") or "function"
    if kind != "function":
        raise not_a_function(call, kind)
    called = call.nested("function")
    if called is None:
        raise call.missing("function")
    call_id, name = call.required_text("id"), called.required_text("name")
    arguments = called.text("arguments") or ""
    called.skip("parsed_arguments")
    if call.is_empty:
        return ToolCall(call_id, name, arguments)
    call.skip("index")  # of an SDK that gathered a stream
    return ToolCall(call_id, name, arguments, parse_extra_content(call), read_cache(call))


def _signed(said: list[Part], signature: Signature) -> list[Part]:
    """Put a message's signature beside the last of its texts, or beside an empty one."""
    for place in range(len(said) - 1, -1, -1):
        part = said[place]
        if isinstance(part, Text):
            return [*said[:place], replace(part, signature=signature), *said[place + 1 :]]
    return [*said, Text("", signature=signature)]


def _marked(message: Fields, known: frozenset[str]) -> list[Content]:
    """Return the content; a mark on the message itself is one on its last part (LiteLLM's spelling)."""
    content = read_content(message, known)
    cache = read_cache(message)
    if cache is not None and content:
        last = content[-1]
        if isinstance(last, Text | Media):
            content[-1] = replace(last, cache=cache)
    return content


def _cached(message: Fields, parts: list[Part], cache: CacheMark) -> list[Part]:
    for place in range(len(parts) - 1, -1, -1):
        part = parts[place]
        if not isinstance(part, Thinking | Refusal):
            return [*parts[:place], replace(part, cache=cache), *parts[place + 1 :]]
    message.ledger.leave(message.path("cache_control"))
    return parts


_READERS: Final[MappingProxyType[str, Callable[[History, Fields], None]]] = MappingProxyType(
    {
        "system": History.instructions,
        "developer": History.instructions,
        "user": History.user,
        "assistant": History.assistant,
        "tool": History.tool,
        "function": History.function,
    }
)
