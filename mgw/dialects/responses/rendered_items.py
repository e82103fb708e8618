"""The turns of a conversation, rendered as input items of Responses.

Sources: contract 11.9; the SDK's ``ResponseInputParam`` and its members.  What a provider takes
(:mod:`mgw.canonical.history`):

* The output of each call stands behind the items of the turn that made it, and holds its images and documents
  itself.  A call without a result gets one that says so, and a result without a call becomes text.
* An instruction in mid-conversation is a message of the developer's at its place.
* A message of the assistant's is an ``output_text`` or a ``refusal``, and needs an identifier, which OpenAI
  does not look up.  It holds no media.
* A ``reasoning`` item goes back if OpenAI encrypted it.  It needs an item of the assistant's behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from mgw.canonical.conversation import (
    Conversation,
    JsonObject,
    Media,
    MediaKind,
    Refusal,
    Role,
    Signature,
    Text,
    Thinking,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.canonical.history import (
    NO_RESULT,
    HistoryMessage,
    HistoryPolicy,
    HistoryTurn,
    PairedCall,
    SystemTurns,
    alternating_texts,
    pair_calls,
    render_history,
)
from mgw.canonical.identifiers import NINE_ID
from mgw.dialects.arguments import is_empty
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.media import is_fetched
from mgw.dialects.openai.media import render_media as render_chat_media
from mgw.dialects.placeholders import BEGIN_STRICT, BETWEEN
from mgw.dialects.responses.identifiers import item_id
from mgw.dialects.responses.reasoning_items import render_thought
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.vocabulary import CallIds

_ASSISTANT: Final = Role.ASSISTANT  # a member of an enumeration is looked up in Python's slow way each time
_SYSTEM: Final = Role.SYSTEM
_CALL_ID: Final = re.compile(r".{1,64}", re.DOTALL)
"""What Responses take for ``call_id``: "a string with maximum length 64"."""
_POLICY: Final = HistoryPolicy(_CALL_ID, alternates=False, system_turns=SystemTurns.ANYWHERE)
_STRICT: Final = replace(_POLICY, joins_neighbours=True, begins_with_user=True, begin=BEGIN_STRICT)
"""The policy for hosts that put the items through a chat template (contract 8.29)."""
_STRICT_NINE: Final = replace(_STRICT, call_ids=NINE_ID)
_SEED: Final = "history"
"""The seed of the identifiers of messages, the same in every request: prompts share their beginnings."""


def render_items(
    conversation: Conversation, options: RenderOptions, names: ToolNames, lost: set[Feature]
) -> tuple[list[JsonObject], bool]:
    """Return the items of the turns and whether any is a thought, and note what they do not carry."""
    texts = alternating_texts(conversation.turns, "user", "assistant")
    if texts is not None:
        return [_text_message(number, role, text) for number, (role, text) in enumerate(texts)], False
    renderer = _TurnRenderer(options, names, lost)
    policy = _policy_for(options)
    history = render_history(pair_calls(conversation.turns, policy.call_ids), policy, renderer)
    items = list(chain.from_iterable(map(_items_of, history)))
    kept = _drop_last_thoughts(items)
    if len(kept) < len(items):
        lost.add(Feature.THINKING)
    has_thoughts = False
    for number, item in enumerate(kept):
        has_thoughts = has_thoughts or item["type"] == "reasoning"
        if item.get("role") == "assistant":
            item["id"] = item_id("message", _SEED, number)
    return kept, has_thoughts


def _policy_for(options: RenderOptions) -> HistoryPolicy:
    if not options.is_template_strict:
        return _POLICY
    return _STRICT_NINE if options.row.call_ids is CallIds.NINE else _STRICT


def render_instruction(texts: Iterable[str]) -> JsonObject:
    """Return an instruction as a message of the developer's."""
    return _message("developer", [_input_text(text) for text in texts])


def _text_message(number: int, role: str, text: str) -> JsonObject:
    if role == "user":
        return _message(role, [_input_text(text)])
    return {**_assistant_message([_output_text(text)]), "id": item_id("message", _SEED, number)}


def _message(role: str, content: list[JsonObject]) -> JsonObject:
    return {"type": "message", "role": role, "content": content}


def _assistant_message(content: list[JsonObject]) -> JsonObject:
    return {**_message("assistant", content), "status": "completed"}


def _input_text(text: str) -> JsonObject:
    return {"type": "input_text", "text": text}


def _output_text(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": []}


def _items_of(message: HistoryMessage) -> list[JsonObject]:
    """Return the items of a message; those of the assistant's, and results, are items already."""
    role = message.role
    if role is _ASSISTANT or message.is_result:
        return message.blocks
    return [_message("developer" if role is _SYSTEM else "user", message.blocks)]


def _drop_last_thoughts(items: list[JsonObject]) -> list[JsonObject]:
    """Return the items without thoughts that nothing of the assistant's follows.

    "Item of type 'reasoning' was provided without its required following item."
    """
    kept: list[JsonObject] = []
    follows = False
    for item in reversed(items):
        is_thought = item["type"] == "reasoning"
        if is_thought and not follows:
            continue
        follows = is_thought or item["type"] == "function_call" or item.get("role") == "assistant"
        kept.append(item)
    kept.reverse()
    return kept


class _TurnRenderer:
    """Renders each turn: the user's as content parts, the assistant's and results as whole items."""

    def __init__(self, options: RenderOptions, names: ToolNames, lost: set[Feature]) -> None:
        self._options = options
        self._names = names
        self._lost = lost

    def render_text(self, text: str) -> JsonObject:
        """Return a text of the user's."""
        return _input_text(text)

    def render_system(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the texts of an instruction."""
        return [_input_text(part.text) for part in turn.parts if isinstance(part, Text) and part.text]

    def render_user(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the content parts of a turn of the user's."""
        return self._render_content(turn.parts)

    def render_assistant(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the items of the assistant's turn, and its media, which have to move."""
        items: list[JsonObject] = []
        media: list[JsonObject] = []
        for part in turn.parts:
            match part:
                case Text():
                    self._check_signature(part.signature)
                    if part.text:
                        _add_content(items, _output_text(part.text))
                case Refusal():
                    _add_content(items, {"type": "refusal", "refusal": part.text})
                case PairedCall():
                    items.append(self._render_call(part))
                case Thinking():
                    items += self._render_thinking(part)
                case Media():
                    if part.signature is not None:
                        self._lost.add(Feature.THINKING)
                    media += self._render_content([part])
        return items, media

    def render_result(self, call: PairedCall) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the output of a call, which holds its media itself."""
        output: JsonObject = {"type": "function_call_output", "call_id": call.id}
        output["output"] = NO_RESULT if call.result is None else self._render_output(call.result)
        return [output], []

    def _render_output(self, result: ToolResult) -> str | list[JsonObject]:
        """Return a result as one string where it is all text."""
        content = self._render_content(result.parts)
        if all(part["type"] == "input_text" for part in content):
            return BETWEEN.join([part["text"] for part in content])
        return content

    def _render_content(self, parts: Iterable[Any]) -> list[JsonObject]:  # Any: texts and media among them
        content: list[JsonObject] = []
        for part in parts:
            if type(part) is Text:
                if part.text:
                    content.append(_input_text(part.text))
            elif type(part) is Media:
                content += render_media(part, self._options, self._lost)
        return content

    def _render_call(self, call: PairedCall) -> JsonObject:
        part = call.part
        self._check_signature(part.signature)
        return {
            "type": "function_call",
            "call_id": call.id,
            "name": self._names[part.name],
            "arguments": "{}" if is_empty(part.arguments) else part.arguments,
        }

    def _render_thinking(self, part: Thinking) -> list[JsonObject]:
        item = render_thought(part.signature) if self._options.thoughts else None
        if item is None:
            self._lost.add(Feature.THINKING)
            return []
        return [item]

    def _check_signature(self, signature: Signature | None) -> None:
        """Note the signature of a text or a call, for which Responses have no place."""
        if signature is not None and signature.value:
            self._lost.add(Feature.THINKING)


def _add_content(items: list[JsonObject], part: JsonObject) -> None:
    """Add what the assistant says to the message before it, or to a new one."""
    if items and items[-1]["type"] == "message":
        items[-1]["content"].append(part)
    else:
        items.append(_assistant_message([part]))


def render_media(media: Media, options: RenderOptions, lost: set[Feature]) -> list[JsonObject]:
    """Return the parts that carry a piece of media, and note what they do not.

    They are those of chat, but for documents at an address, which only Responses take, and sound, which only
    chat takes.

    :raises GatewayError: ``MALFORMED`` for the URL of an image that the model does not fetch.
    """
    if media.kind is MediaKind.DOCUMENT and media.url is not None and is_fetched(media.url):
        if media.name is not None:
            lost.add(Feature.MEDIA_NAME)
        if media.detail not in {None, "auto"}:
            lost.add(Feature.MEDIA_DETAIL)
        part: JsonObject = {"type": "input_file", "file_url": media.url}
        return [_input_text(media.context), part] if media.context else [part]
    if media.kind is MediaKind.AUDIO:
        media = replace(media, data=None)
    return [_convert(part) for part in render_chat_media(media, options.kind, options.row, lost)]


def _convert(part: JsonObject) -> JsonObject:
    """Return a part of chat as one of Responses, which are flat."""
    if part["type"] == "text":
        return _input_text(part["text"])
    if part["type"] == "file":
        return {"type": "input_file", **part["file"]}
    image = part["image_url"]
    return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
