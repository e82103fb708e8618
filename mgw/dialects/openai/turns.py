"""Turns, written as messages.

Sources: the SDK's ``ChatCompletionMessageParam``.  Rules of this wire (contract 8.16 to 8.18):

* The result of each call stands directly behind the message that made it, in a message of its own that holds
  text only.  Its images and documents move to the next user message, which is made where there is none.
* A call without a result gets one that says so, and a result without a call becomes text: the wire refuses
  either.
* ``system`` is taken everywhere, where ``developer`` is not, so instructions are ``system`` messages.
* Hosts other than OpenAI often take a string only, so texts that stand alone go to them as one.
* A thought of another family stays here.  OpenAI takes no thoughts on this wire; other hosts get their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from mgw.canonical.conversation import (
    Conversation,
    JsonObject,
    Media,
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
from mgw.dialects.arguments import is_empty
from mgw.dialects.fillers import ATTACHED, BETWEEN, NO_RESULT, orphaned
from mgw.dialects.identifiers import CHAT_ID
from mgw.dialects.model_row import ModelRow
from mgw.dialects.names import Names
from mgw.dialects.openai.parts import media_parts, text_part
from mgw.dialects.openai.thoughts import render_host_extra_content, render_host_thoughts
from mgw.dialects.pairs import Call, Pairs, paired
from mgw.kinds import KINDS
from mgw.vocabulary import Family, Kind

_NAME: Final = re.compile(r"[^\s<|\\/>]{1,64}")
"""What the reference takes for ``messages[].name``."""


def render_messages(
    conversation: Conversation, kind: Kind, row: ModelRow, names: Names, lost: set[Feature]
) -> list[JsonObject]:
    """Return the messages, and note what they do not say."""
    messages = _Messages(kind, row, lost, names, paired(conversation.turns, CHAT_ID))
    messages.instruct(conversation.system)
    for number, turn in enumerate(conversation.turns):
        messages.add(number, turn)
    messages.flush()
    return messages.written


class _Spoken(Struct):
    """What an assistant's turn holds, by kind."""

    texts: list[str]
    refusals: list[str]
    thoughts: list[Thinking]
    calls: list[int]
    """Their places in the turn."""
    signature: Signature | None = None


class _Messages:
    def __init__(self, kind: Kind, row: ModelRow, lost: set[Feature], names: Names, pairs: Pairs) -> None:
        self.written: list[JsonObject] = []
        self._kind = kind
        self._host = not KINDS[kind].is_strict
        """The provider is another host, with the customs of hosts."""
        self._row = row
        self._lost = lost
        self._names = names
        self._pairs = pairs
        self._moved: list[JsonObject] = []
        """Media that wait for the next user message."""

    def instruct(self, texts: Iterable[Text]) -> None:
        """Write instructions as one string: many hosts know but one such message, and no parts in it."""
        told = [text.text for text in texts if text.text]
        if told:
            self.written.append({"role": "system", "content": BETWEEN.join(told)})

    def add(self, number: int, turn: Turn) -> None:
        """Write a turn."""
        if turn.role is Role.ASSISTANT:
            self.flush()
            self._assistant(number, turn)
        elif turn.role is Role.SYSTEM:
            self.flush()
            self.instruct(part for part in turn.parts if isinstance(part, Text))
            if turn.name is not None:
                self._lost.add(Feature.TURN_NAME)
        else:
            self._user(number, turn)

    def flush(self) -> None:
        """Write media that wait as a message of their own."""
        if self._moved:
            self.written.append({"role": "user", "content": self._content(self._moved)})
            self._moved = []

    def _user(self, number: int, turn: Turn) -> None:
        blocks: list[JsonObject] = []
        for index, part in enumerate(turn.parts):
            if isinstance(part, Text | Media):
                blocks += self._said(part)
            elif isinstance(part, ToolResult) and (number, index) not in self._pairs.taken:
                blocks += (block for inner in orphaned(part) for block in self._said(inner))
        if not blocks:
            return
        blocks, self._moved = self._moved + blocks, []
        message: JsonObject = {"role": "user", "content": self._content(blocks)}
        self._name(message, turn)
        self.written.append(message)

    def _content(self, blocks: list[JsonObject]) -> str | list[JsonObject]:
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        if len(texts) == len(blocks) and (self._host or len(blocks) == 1):
            return BETWEEN.join(texts)
        return blocks

    def _name(self, message: JsonObject, turn: Turn) -> None:
        if turn.name is None:
            return
        if _NAME.fullmatch(turn.name):
            message["name"] = turn.name
        else:
            self._lost.add(Feature.TURN_NAME)

    def _said(self, part: Text | Media) -> list[JsonObject]:
        """Return what the user said as parts."""
        if isinstance(part, Media):
            return media_parts(part, self._kind, self._row, self._lost)
        return [text_part(part.text)] if part.text else []

    def _result(self, result: ToolResult) -> tuple[str, list[JsonObject]]:
        """Return the text of a result, and its media, which have to move; what becomes text need not."""
        texts: list[str] = []
        media: list[JsonObject] = []
        for part in result.parts:
            said = self._said(part)
            if all(block["type"] == "text" for block in said):
                texts += (block["text"] for block in said)
            else:
                media += said
        return BETWEEN.join(texts), media

    def _assistant(self, number: int, turn: Turn) -> None:
        spoken = self._spoken(turn)
        message: JsonObject = {"role": "assistant", "content": "".join(spoken.texts) or None}
        if refusal := "".join(spoken.refusals):
            self._refuse(message, refusal)
        if self._host:
            message |= render_host_thoughts(spoken.thoughts)
        elif spoken.thoughts:
            self._lost.add(Feature.THINKING)
        if spoken.signature is not None:
            message["extra_content"] = render_host_extra_content(spoken.signature)
        calls = [self._pairs.calls[number, index] for index in spoken.calls]
        if calls:
            message["tool_calls"] = [self._call(call) for call in calls]
        if len(message) == 2 and message["content"] is None:  # nothing but what stays here
            return
        if message["content"] is None and not calls and "refusal" not in message:
            message["content"] = ""  # null is for calls
        self._name(message, turn)
        self.written.append(message)
        for call in calls:
            self._answer(call)

    def _spoken(self, turn: Turn) -> _Spoken:
        spoken = _Spoken([], [], [], [])
        for index, part in enumerate(turn.parts):
            match part:
                case Text():
                    spoken.texts.append(part.text)
                    spoken.signature = self._own(part.signature) or spoken.signature
                case Refusal():
                    spoken.refusals.append(part.text)
                case Thinking(signature=Signature(family=Family.OPENAI)):
                    spoken.thoughts.append(part)
                case Thinking():
                    self._lost.add(Feature.THINKING)
                case Media():  # an assistant's message holds no images
                    self._moved += media_parts(part, self._kind, self._row, self._lost)
                case ToolCall():
                    spoken.calls.append(index)
                case ToolResult():
                    continue
        return spoken

    def _own(self, signature: Signature | None) -> Signature | None:
        """Return a signature that goes back to the host that made it; another's is noted."""
        if signature is None or not signature.value:
            return None
        if self._host and signature.family is Family.OPENAI:
            return signature
        self._lost.add(Feature.THINKING)
        return None

    def _refuse(self, message: JsonObject, refusal: str) -> None:
        """Other hosts know no ``refusal``: there it is what was said."""
        if self._host:
            message["content"] = (message["content"] or "") + refusal
        else:
            message["refusal"] = refusal

    def _call(self, call: Call) -> JsonObject:
        said = call.part
        arguments = "{}" if is_empty(said.arguments) else said.arguments
        written: JsonObject = {
            "id": call.id,
            "type": "function",
            "function": {"name": self._names[said.name], "arguments": arguments},
        }
        signature = self._own(said.signature)
        if signature is not None:
            written["extra_content"] = render_host_extra_content(signature)
        return written

    def _answer(self, call: Call) -> None:
        text, media = (NO_RESULT, []) if call.result is None else self._result(call.result)
        self._moved += media
        said = text or (ATTACHED if media else "")
        self.written.append({"role": "tool", "tool_call_id": call.id, "content": said})
