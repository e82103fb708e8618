"""The turns of a conversation, rendered as messages of chat completions.

:mod:`mgw.dialects.openai.messages` is the way back.  What a provider takes (contract 8.16 to 8.18,
:mod:`mgw.canonical.history`):

* The result of each call stands directly behind the message that made it, in a message of its own that holds
  text only.  Its images and documents move to the next user message, which is made where there is none.
* A call without a result gets one that says so, and a result without a call becomes text: the API refuses
  either.
* ``system`` is taken everywhere, where ``developer`` is not, so instructions are ``system`` messages.
* Hosts other than OpenAI often take a string only, so texts that stand alone go to them as one.
* A thought of another family is left out.  OpenAI takes no thoughts in chat; other hosts get their own.

The chat templates of open models (Qwen, Gemma, Llama, Mistral; contract 8.29) refuse more.  For hosts with
such templates there is one system message, which is the first, and later instructions are text of the user's;
neighbours of one role are one message; the first of the two sides is the user; and nothing is left of an
assistant's message that holds thoughts alone.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct, structs

from mgw.canonical.conversation import (
    Conversation,
    JsonObject,
    Media,
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
from mgw.canonical.identifiers import CHAT_ID, NINE_ID
from mgw.canonical.instructions import without_system
from mgw.dialects.arguments import is_empty
from mgw.dialects.dialect import RenderOptions
from mgw.dialects.openai.blocks import render_call
from mgw.dialects.openai.media import render_media, render_text
from mgw.dialects.openai.thoughts import render_extra_content, render_host_thoughts
from mgw.dialects.placeholders import ATTACHED, BEGIN_STRICT, BETWEEN
from mgw.dialects.tool_names import ToolNames
from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import CallIds, Family

_ASSISTANT: Final = Role.ASSISTANT  # a member of an enumeration is looked up in Python's slow way each time
_SYSTEM: Final = Role.SYSTEM
_POLICY: Final = HistoryPolicy(CHAT_ID, alternates=False, system_turns=SystemTurns.ANYWHERE)
_STRICT: Final = HistoryPolicy(
    CHAT_ID,
    alternates=False,
    system_turns=SystemTurns.AS_USER,
    joins_neighbours=True,
    begins_with_user=True,
    begin=BEGIN_STRICT,
)
_STRICT_NINE: Final = structs.replace(_STRICT, call_ids=NINE_ID)
"""The policy for Mistral's templates."""
_NAME: Final = re.compile(r"[^\s<|\\/>]{1,64}")
"""What the reference takes for ``messages[].name``."""


def render_turns(
    conversation: Conversation, options: RenderOptions, names: ToolNames, lost: set[Feature]
) -> list[JsonObject]:
    """Return the messages, and note what they do not carry."""
    if not options.row.system:
        conversation = without_system(conversation)
    system = BETWEEN.join([text.text for text in conversation.system if text.text])
    leading: list[JsonObject] = [_system_message(system)] if system else []
    texts = alternating_texts(conversation.turns, "user", "assistant")
    if texts is not None:
        return leading + [{"role": role, "content": text} for role, text in texts]
    policy = _policy_for(options)
    renderer = _TurnRenderer(options, names, lost)
    history = render_history(pair_calls(conversation.turns, policy.call_ids), policy, renderer)
    return [*leading, *map(renderer.render_message, history)]


def _policy_for(options: RenderOptions) -> HistoryPolicy:
    if not options.is_template_strict:
        return _POLICY
    return _STRICT_NINE if options.row.call_ids is CallIds.NINE else _STRICT


def _system_message(text: str) -> JsonObject:
    """Return an instruction as one string: many hosts know no parts in it."""
    return {"role": "system", "content": text}


class _AssistantParts(Struct):
    """What an assistant's turn holds, by kind."""

    texts: list[str]
    refusals: list[str]
    thoughts: list[Thinking]
    media: list[JsonObject]
    signature: str | None = None


class _TurnRenderer:
    """Renders each turn: the user's as content parts, the others as a whole message."""

    def __init__(self, options: RenderOptions, names: ToolNames, lost: set[Feature]) -> None:
        self._kind = options.kind
        self._is_host = not KINDS[options.kind].is_strict
        """The provider is another host, not OpenAI itself."""
        self._row = options.row
        self._leaves_out_thoughts = options.is_template_strict
        """A message of thoughts alone."""
        self._names = names
        self._lost = lost

    def render_message(self, message: HistoryMessage) -> JsonObject:
        """Return the message that these blocks make."""
        role, blocks = message.role, message.blocks
        if message.is_result:
            return blocks[0]
        if role is _ASSISTANT:
            return blocks[0] if len(blocks) == 1 else self._join_messages(message)
        if role is _SYSTEM:
            return _system_message(BETWEEN.join([block["text"] for block in blocks]))
        first = blocks[0]
        is_text = len(blocks) == 1 and first["type"] == "text"
        rendered: JsonObject = {
            "role": "user",
            "content": first["text"] if is_text else self._join_texts(blocks),
        }
        if message.name is not None:
            self._add_name(rendered, message.name)
        return rendered

    def render_text(self, text: str) -> JsonObject:
        """Return a text of the user's."""
        return render_text(text)

    def render_system(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the texts of an instruction."""
        if turn.name is not None:
            self._lost.add(Feature.TURN_NAME)
        return [render_text(part.text) for part in turn.parts if isinstance(part, Text) and part.text]

    def render_user(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the content parts of a turn of the user's."""
        blocks: list[JsonObject] = []
        for part in turn.parts:
            if type(part) is Text:
                if part.text:
                    blocks.append({"type": "text", "text": part.text})
            elif type(part) is Media:
                blocks += render_media(part, self._kind, self._row, self._lost)
        return blocks

    def render_assistant(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the assistant's message, if there is anything to say, and its media, which have to move."""
        if len(turn.parts) == 1 and turn.name is None:  # as most are
            (part,) = turn.parts
            if type(part) is Text and part.text and part.signature is None:
                return [{"role": "assistant", "content": part.text}], []
        return self._render_message(turn)

    def _render_message(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        parts = self._sort_parts(turn)
        message: JsonObject = {"role": "assistant", "content": "".join(parts.texts) or None}
        if refusal := "".join(parts.refusals):
            self._add_refusal(message, refusal)
        if self._is_host:
            message |= render_host_thoughts(parts.thoughts)
        elif parts.thoughts:
            self._lost.add(Feature.THINKING)
        if parts.signature is not None:
            message["extra_content"] = render_extra_content(parts.signature)
        calls = [self._render_call(call) for call in turn.calls]
        if calls:
            message["tool_calls"] = calls
        if message["content"] is None and not calls and "refusal" not in message:
            if self._is_left_out(message):
                return [], parts.media
            message["content"] = ""  # null is for calls
        if turn.name is not None:
            self._add_name(message, turn.name)
        return [message], parts.media

    def _is_left_out(self, message: JsonObject) -> bool:
        """Whether a message without words and calls is none: it is empty, or thoughts alone."""
        is_empty = len(message) == len(("role", "content"))
        if self._leaves_out_thoughts and not is_empty:
            self._lost.add(Feature.THINKING)
        return is_empty or self._leaves_out_thoughts

    def _join_messages(self, message: HistoryMessage) -> JsonObject:
        """Return neighbouring messages of the assistant's as one."""
        joined: JsonObject = {"role": "assistant"}
        for key in ("content", "reasoning_content"):
            texts = [text for block in message.blocks if (text := block.get(key))]
            if texts or key == "content":
                joined[key] = BETWEEN.join(texts) or None
        for key in ("reasoning_details", "tool_calls"):
            found = [item for block in message.blocks for item in block.get(key, ())]
            if found:
                joined[key] = found
        for block in message.blocks:
            if "extra_content" in block:
                joined["extra_content"] = block["extra_content"]
        if joined["content"] is None and "tool_calls" not in joined:
            joined["content"] = ""
        if message.name is not None:
            self._add_name(joined, message.name)
        return joined

    def render_result(self, call: PairedCall) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the message with the text of a result, and its media, which have to move."""
        texts, media = ([NO_RESULT], []) if call.result is None else self._render_result_parts(call.result)
        content = BETWEEN.join(texts) or (ATTACHED if media else "")
        return [{"role": "tool", "tool_call_id": call.id, "content": content}], media

    def _render_result_parts(self, result: ToolResult) -> tuple[list[str], list[JsonObject]]:
        """Return the texts of a result, with the media that become text, and the other media."""
        texts: list[str] = []
        media: list[JsonObject] = []
        for part in result.parts:
            if type(part) is Media:
                blocks = render_media(part, self._kind, self._row, self._lost)
                if all(block["type"] == "text" for block in blocks):
                    texts += [block["text"] for block in blocks]
                else:
                    media += blocks
            elif part.text:
                texts.append(part.text)
        return texts, media

    def _join_texts(self, blocks: list[JsonObject]) -> str | list[JsonObject]:
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if len(texts) == len(blocks) and (self._is_host or len(blocks) == 1):
            return BETWEEN.join(texts)
        return blocks

    def _add_name(self, message: JsonObject, name: str) -> None:
        if _NAME.fullmatch(name):
            message["name"] = name
        else:
            self._lost.add(Feature.TURN_NAME)

    def _sort_parts(self, turn: HistoryTurn) -> _AssistantParts:
        parts = _AssistantParts([], [], [], [])
        for part in turn.parts:
            match part:
                case Text():
                    parts.texts.append(part.text)
                    if part.signature is not None:
                        parts.signature = self._own_signature(part.signature) or parts.signature
                case PairedCall():  # rendered behind all else
                    continue
                case Refusal():
                    parts.refusals.append(part.text)
                case Thinking(signature=Signature(family=Family.OPENAI)):
                    parts.thoughts.append(part)
                case Thinking():
                    self._lost.add(Feature.THINKING)
                case Media():  # an assistant's message holds no images
                    if part.signature is not None:
                        self._lost.add(Feature.THINKING)
                    parts.media += render_media(part, self._kind, self._row, self._lost)
        return parts

    def _own_signature(self, signature: Signature | None) -> str | None:
        """Return the value of a signature that goes back to the host that made it; another's is noted."""
        if signature is None or not signature.value:
            return None
        if self._is_host and signature.family is Family.OPENAI:
            return signature.value
        self._lost.add(Feature.THINKING)
        return None

    def _add_refusal(self, message: JsonObject, refusal: str) -> None:
        """Add a refusal; hosts other than OpenAI know no such field, so there it is text."""
        if self._is_host:
            message["content"] = (message["content"] or "") + refusal
        else:
            message["refusal"] = refusal

    def _render_call(self, call: PairedCall) -> JsonObject:
        part = call.part
        arguments = "{}" if is_empty(part.arguments) else part.arguments
        signature = None if part.signature is None else self._own_signature(part.signature)
        return render_call(call.id, self._names[part.name], arguments, signature)
