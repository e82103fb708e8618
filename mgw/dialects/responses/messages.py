"""The items of a request's ``input``, parsed into the turns of a conversation (contract 11.4, 11.6).

=======================================================  ==================================================
``message``, also without a type                         turns; leading ``system`` and ``developer``
                                                         messages are the conversation's own instructions
``function_call``                                        a call; ``arguments``, text as it is
``custom_tool_call``                                     a call with ``{"input": input}``
``local_shell_call``, ``shell_call``                     a call with the ``action`` (without its type)
``apply_patch_call``                                     a call with ``{"operation": operation}``
``tool_search_call``                                     a call with ``arguments``, an object
``…_output``                                             a result: ``output``, a text or parts; of
                                                         ``shell_call_output`` its list as JSON; of
                                                         ``apply_patch_call_output`` ``{"status", "output"}``
``tool_search_output``                                   more tools, and a result with the names of the
                                                         functions that they became
``reasoning``                                            the thought or signature in ``encrypted_content``,
                                                         where the gateway has put it there; else reported
``image_generation_call``                                an image of the assistant's
``additional_tools``                                     more tools
``configuration_update``                                 another effort, another format
``agent_message``                                        what the user says
``item_reference``                                       refused, unless it is to a thought
``compaction``, ``context_compaction``,                  refused: only OpenAI can read or make them
``compaction_trigger``
all others                                               reported: another provider's history must not end
                                                         a conversation
=======================================================  ==================================================

``id``, ``status`` and ``created_by`` of any item say nothing.  What most items look like is read without
opening them.

Sources: the SDK's ``ResponseInputItemParam`` and the items that it names; Codex for ``agent_message``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from msgspec.json import Encoder

from mgw.canonical.conversation import JsonObject, Media, MediaKind, Part, Text, Thinking, ToolResult
from mgw.canonical.features import Feature
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.media import detect_media_type, standard_base64
from mgw.dialects.refusal import make_encodable
from mgw.dialects.responses.blocks import TEXT_TYPES, Holder, parse_bare_texts, parse_content
from mgw.dialects.responses.errors import ITEM, LONGEST_SHOWN, not_encodable, unsupported
from mgw.dialects.responses.options import ConfigurationUpdate, parse_update
from mgw.dialects.responses.schema import ToolKind
from mgw.dialects.responses.thoughts import unseal
from mgw.dialects.responses.tools import Source, ToolSet
from mgw.dialects.responses.turns import REASONING, TurnBuilder
from mgw.dialects.signatures import TagKind

_SILENT: Final = ("id", "status", "created_by", "type")
_MESSAGE_KEYS: Final = frozenset({*_SILENT, "role", "content"})
_CALL_KEYS: Final = frozenset({*_SILENT, "call_id", "name", "arguments"})
_OUTPUT_KEYS: Final = frozenset({*_SILENT, "call_id", "output", "name", "namespace"})
_INSTRUCTING: Final = frozenset({"system", "developer"})
_ROLES: Final = ("user", "assistant", "system", "developer")
_THOUGHT_PREFIX: Final = "rs_"
_FUNCTION: Final = ToolKind.FUNCTION  # a member of an enumeration is looked up in Python's slow way each time
_ADDITIONAL_TOOLS: Final = "additional_tools"
_FOUND_TOOLS: Final = "tool_search_output"
_FUNCTION_OUTPUT: Final = "input[function_call_output]"
_REFERENCE: Final = "item_reference"
_IMAGE: Final = "image_generation_call"
_STORE: Final = (
    "items are not stored: set store: false (Vercel AI SDK: providerOptions.openai.store) so that the client "
    "sends them in full"
)
_COMPACTION: Final = (
    "only OpenAI's servers can read or create it: leave it out, and send the messages instead"
)
_OUTPUTS: Final = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
        _FOUND_TOOLS,
    }
)
_ENCODER: Final = Encoder()
CALL_KINDS: Final = MappingProxyType(
    {
        "function_call": ToolKind.FUNCTION,
        "custom_tool_call": ToolKind.CUSTOM,
        "local_shell_call": ToolKind.LOCAL_SHELL,
        "shell_call": ToolKind.SHELL,
        "apply_patch_call": ToolKind.APPLY_PATCH,
        "tool_search_call": ToolKind.TOOL_SEARCH,
    }
)
"""The tool that each type of item calls."""
_NAMED: Final = frozenset({ToolKind.FUNCTION, ToolKind.CUSTOM})


class ItemParser:
    """Parses the items of one request, in two passes: all tools have their names before the first call."""

    def __init__(self, request: Fields, tools: ToolSet) -> None:
        self.turns = TurnBuilder(request.ledger)
        self.update = ConfigurationUpdate()
        self._request = request
        self._ledger = request.ledger
        self._tools = tools
        self._items = request.elements("input", request.take("input"))

    def read_tools(self) -> None:
        """Take the tools that items bring."""
        for index, item in enumerate(self._items):
            kind = item.get("type")
            if kind == _ADDITIONAL_TOOLS:
                opened = self._request.open_element("input", index, dict(item))
                self._tools.read(opened, Source.ADDITIONAL, f"input[{_ADDITIONAL_TOOLS}].tools[]")
            elif kind == _FOUND_TOOLS and not _is_hosted_search(item):
                opened = self._request.open_element("input", index, dict(item))
                self._tools.read(opened, Source.FOUND)
            else:
                continue
            opened.unread.clear()  # the second pass reads the rest

    def parse(self) -> None:
        """Take all items."""
        for index, item in enumerate(self._items):
            if not self._parse_bare(item):
                self._parse(index, item)

    def _parse_bare(self, item: JsonObject) -> bool:
        """Parse an item that is no more than most are; return whether it is."""
        kind = item.get("type")
        if kind is None or kind == "message":
            return self._parse_bare_message(item)
        if kind == "function_call":
            return self._parse_bare_call(item)
        if kind == "function_call_output":
            return self._parse_bare_output(item)
        return False

    def _parse_bare_message(self, item: JsonObject) -> bool:
        role, content = item.get("role"), item.get("content")
        texts = ([Text(content)] if content else []) if type(content) is str else parse_bare_texts(content)
        if texts is None or not item.keys() <= _MESSAGE_KEYS:
            return False
        parts: list[Part] = texts  # type: ignore[assignment]  # nobody else has this list
        if role == "user":
            self.turns.add_user(parts)
        elif role == "assistant":
            self.turns.add_message(parts)
        elif role in ("developer", "system"):
            self._add_system(parts)
        else:
            return False
        return True

    def _parse_bare_call(self, item: JsonObject) -> bool:
        call_id, name, arguments = item.get("call_id"), item.get("name"), item.get("arguments")
        if type(call_id) is not str or type(name) is not str or type(arguments) is not str:
            return False
        if not item.keys() <= _CALL_KEYS:
            return False
        self.turns.add_call(call_id, name, arguments)
        return True

    def _parse_bare_output(self, item: JsonObject) -> bool:
        call_id, output = item.get("call_id"), item.get("output")
        if type(call_id) is not str or type(output) is not str or not item.keys() <= _OUTPUT_KEYS:
            return False
        if item.get("status") == "failed" or not self.turns.has_call(call_id):
            return False
        self.turns.add_result(ToolResult(call_id, (Text(output),) if output else ()), _FUNCTION_OUTPUT)
        return True

    def _parse(self, index: int, item: JsonObject) -> None:
        """Parse any item."""
        opened = self._request.open_element("input", index, item)
        kind = opened.text("type") or _implied_type(opened)
        parse = _PARSERS.get(kind)
        if parse is not None:
            parse(self, opened)
        elif kind in CALL_KINDS:
            self._parse_call(opened, kind)
        elif kind in _OUTPUTS:
            self._parse_output(opened, kind)
        else:
            self._leave(opened, kind)
        opened.skip(*_SILENT)

    def _leave(self, item: Fields, kind: str) -> None:
        item.unread.clear()
        self._ledger.leave(f"input[{kind[:LONGEST_SHOWN]}]")

    def _parse_message(self, item: Fields) -> None:
        role = item.required_text("role")
        if role == "user":
            self.turns.add_user([*parse_content(item, "content", Holder.USER)])
        elif role == "assistant":
            self.turns.add_message([*parse_content(item, "content", Holder.ASSISTANT)])
        elif role in _INSTRUCTING:
            self._add_system([*parse_content(item, "content", Holder.SYSTEM)])
        else:
            raise none_of(item, "role", role, _ROLES)

    def _add_system(self, parts: list[Part]) -> None:
        texts = [part for part in parts if isinstance(part, Text)]
        if texts and self.turns.add_system(texts):
            self._ledger.note(Feature.SYSTEM, "input[].content")

    def _parse_agent_message(self, item: Fields) -> None:
        """Take a message between Codex's agents; what is encrypted in it, only OpenAI reads."""
        content = item.take("content")
        blocks = [{"type": "text", "text": content}] if type(content) is str else content
        texts: list[Part] = []
        for block in item.elements("content", blocks):
            kind, text = block.get("type"), block.get("text")
            if type(kind) is str and kind in TEXT_TYPES and type(text) is str:
                texts.append(Text(text))
            else:
                shown = kind[:LONGEST_SHOWN] if type(kind) is str else ""
                self._ledger.leave(f"input[agent_message].content[{shown}]")
        self.turns.add_user(texts)

    def _parse_reasoning(self, item: Fields) -> None:
        """Take a thought, or the signature of the call behind it or of the text before it."""
        content = item.text("encrypted_content")
        sealed = None if content is None else unseal(content)
        if sealed is None:
            self._leave(item, "reasoning")
            return
        item.skip("summary", "content")
        self._ledger.note(Feature.THINKING, REASONING)
        if sealed.kind is TagKind.ADJACENT:
            self.turns.sign_next_call(sealed.signature)
        elif sealed.kind is not TagKind.PRECEDING:
            self.turns.add_assistant([Thinking(sealed.words, sealed.signature)])
        elif not self.turns.sign_last_text(sealed.signature):
            self._ledger.leave(REASONING)

    def _parse_call(self, item: Fields, kind: str) -> None:
        if kind == "tool_search_call" and _is_hosted_search(item.unread):
            self._leave(item, kind)
            return
        tool = CALL_KINDS[kind]
        call_id = item.required_text("call_id")
        namespace, name = parse_tool_name(item, tool)
        function = self._tools.names.find(tool, namespace, name)
        self.turns.add_call(call_id, function, parse_arguments(item, tool))

    def _parse_output(self, item: Fields, kind: str) -> None:
        if kind == _FOUND_TOOLS and _is_hosted_search(item.unread):
            self._leave(item, kind)
            return
        call_id = self._parse_call_id(item, kind)
        is_error = item.unread.get("status") == "failed"
        if is_error:
            item.note(Feature.RESULT_ERROR, "status")
        if kind == _FOUND_TOOLS:
            parts: tuple[Text | Media, ...] = describe_found(self._tools.names_of(item.take("tools")))
            item.skip("execution")
        else:
            parts = parse_output(item, kind)
        item.skip("name", "namespace")  # the call's own
        self.turns.add_result(ToolResult(call_id, parts, is_error=is_error), f"input[{kind}]")

    def _parse_call_id(self, item: Fields, kind: str) -> str:
        call_id = item.text("call_id")
        if call_id is None and kind == "local_shell_call_output":
            call_id = item.text("id")  # the SDK's types have it there
        if call_id is None:
            raise item.missing("call_id")
        if not self.turns.has_call(call_id):
            message = f"no call {call_id[:LONGEST_SHOWN]!r} precedes this output: send the call as well"
            raise item.wrong("call_id", message)
        return call_id

    def _parse_reference(self, item: Fields) -> None:
        if not (item.text("id") or "").startswith(_THOUGHT_PREFIX):
            raise unsupported(item, "", _STORE, ITEM)
        self._leave(item, _REFERENCE)

    def _parse_image(self, item: Fields) -> None:
        """Take an image that the model made; what else the item says of it is how it was made."""
        data = item.text("result")
        if not data:  # of a call that failed, or was left out to save room
            self._leave(item, _IMAGE)
            return
        item.note(Feature.IMAGE, "result")
        name = item.text("output_format")
        encoded = standard_base64(data)
        media_type = f"image/{name}" if name else detect_media_type(encoded) or "image/png"
        self.turns.add_image(Media(MediaKind.IMAGE, media_type, encoded))
        item.skip("action", "background", "quality", "revised_prompt", "size")

    def _parse_update(self, item: Fields) -> None:
        parse_update(item, self.update)

    def _refuse_compaction(self, item: Fields) -> None:
        raise unsupported(item, "", _COMPACTION, ITEM)

    def _skip_tools(self, item: Fields) -> None:
        item.skip("role", "tools")  # the first pass has them


def _implied_type(item: Fields) -> str:
    """Return what an item without a type is."""
    if "role" in item:
        return "message"
    if "id" in item:
        return _REFERENCE
    raise item.missing("type")


def _is_hosted_search(item: JsonObject) -> bool:
    """Whether OpenAI's servers searched for tools, or found them."""
    return item.get("execution") == "server" or item.get("call_id") is None


_PARSERS: Final[MappingProxyType[str, Callable[[ItemParser, Fields], None]]] = MappingProxyType(
    {
        "message": ItemParser._parse_message,
        "reasoning": ItemParser._parse_reasoning,
        _IMAGE: ItemParser._parse_image,
        "agent_message": ItemParser._parse_agent_message,
        "configuration_update": ItemParser._parse_update,
        _ADDITIONAL_TOOLS: ItemParser._skip_tools,
        _REFERENCE: ItemParser._parse_reference,
        "compaction": ItemParser._refuse_compaction,
        "context_compaction": ItemParser._refuse_compaction,
        "compaction_trigger": ItemParser._refuse_compaction,
    }
)


def parse_tool_name(item: Fields, kind: ToolKind) -> tuple[str | None, str]:
    """Take the namespace and name of the tool that an item calls."""
    if kind in _NAMED:
        return item.text("namespace"), item.required_text("name")
    return None, kind.value


def parse_arguments(item: Fields, kind: ToolKind) -> str:
    """Take what a tool is called with; return it as the arguments of its function."""
    return _ARGUMENTS[kind](item)


def parse_output(item: Fields, kind: str) -> tuple[Text | Media, ...]:
    """Take what a tool gave back."""
    if kind == "shell_call_output":
        item.skip("max_output_length")  # the call's own
        return _texts(_encode(item, "output", item.take("output")))
    if kind == "apply_patch_call_output":
        said = {"status": item.take("status"), "output": item.take("output")}
        return _texts(_encode(item, "output", {key: one for key, one in said.items() if one is not None}))
    parts = parse_content(item, "output", Holder.USER)
    return tuple([part for part in parts if isinstance(part, Text | Media)])


def describe_found(names: list[str]) -> tuple[Text, ...]:
    """Return the result of a search for tools: the functions that the model may call now."""
    return _texts(_ENCODER.encode({"tools": names}).decode())


def _texts(text: str) -> tuple[Text, ...]:
    return (Text(text),) if text else ()


def _encode(item: Fields, key: str, value: Any) -> str:  # Any: JSON of whatever type
    """Return a value of the body as text: a string as it is, all else as JSON."""
    if value is None:
        return ""
    if type(value) is str:
        return value
    try:
        return _ENCODER.encode(value).decode()
    except (RecursionError, ValueError, OverflowError):  # lone surrogates, integers beyond 64 bits
        raise not_encodable(item, key) from None


def _said(item: Fields, key: str, *silent: str) -> JsonObject:
    """Take an object without what is null in it, and without what says nothing."""
    found = item.raw_object(key)
    if found is None:
        raise item.missing(key)
    return {name: value for name, value in found.items() if value is not None and name not in silent}


def _function_arguments(item: Fields) -> str:
    return item.text("arguments") or ""


def _custom_arguments(item: Fields) -> str:
    return _ENCODER.encode({"input": make_encodable(item.required_text("input"))}).decode()


def _local_shell_arguments(item: Fields) -> str:
    action = _said(item, "action", "type")
    if action.get("env") == {}:
        del action["env"]
    return _encode(item, "action", action)


def _shell_arguments(item: Fields) -> str:
    if item.unread.get("environment") == {"type": "local"}:
        item.skip("environment")
    return _encode(item, "action", _said(item, "action"))


def _apply_patch_arguments(item: Fields) -> str:
    return _encode(item, "operation", {"operation": _said(item, "operation")})


def _tool_search_arguments(item: Fields) -> str:
    item.skip("execution")
    return _encode(item, "arguments", item.take("arguments"))


_ARGUMENTS: Final[MappingProxyType[ToolKind, Callable[[Fields], str]]] = MappingProxyType(
    {
        ToolKind.FUNCTION: _function_arguments,
        ToolKind.CUSTOM: _custom_arguments,
        ToolKind.LOCAL_SHELL: _local_shell_arguments,
        ToolKind.SHELL: _shell_arguments,
        ToolKind.APPLY_PATCH: _apply_patch_arguments,
        ToolKind.TOOL_SEARCH: _tool_search_arguments,
    }
)
