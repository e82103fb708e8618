"""The history of a request, both ways.

Sources: the SDK's ``MessageParam`` and the vendor's refusals.  What the vendor demands of a history
(:mod:`mgw.canonical.history`): Neighbours of one role are one message.  The results of an assistant's calls,
all of them, stand first in the user's message directly after it.  A ``system`` message "must follow a 'user'
message" and "must precede an 'assistant' message or end the array" (guide on mid-conversation system
messages).  A message of the assistant's holds no media.  The last message, if the assistant's, ends without
white space; some models refuse it ("This model does not support assistant message prefill").
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import JsonObject, Role, Text, Turn
from mgw.canonical.history import (
    HistoryPolicy,
    HistoryTurn,
    PairedCall,
    SystemTurns,
    alternating_texts,
    pair_calls,
    render_history,
)
from mgw.canonical.identifiers import ANTHROPIC_ID
from mgw.dialects.anthropic.blocks import BlockRenderer, parse_bare_blocks, parse_content, render_text
from mgw.dialects.anthropic.thoughts import THOUGHT_TYPES, drop_last_thoughts
from mgw.dialects.fields import Fields, none_of

_USER: Final = "user"
_ASSISTANT: Final = "assistant"
_SYSTEM: Final = "system"
_USER_ROLE: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT_ROLE: Final = Role.ASSISTANT
_ROLES: Final = MappingProxyType({_USER: Role.USER, _ASSISTANT: Role.ASSISTANT, _SYSTEM: Role.SYSTEM})
_NAMES: Final = MappingProxyType({role: name for name, role in _ROLES.items()})
_MEDIA: Final = frozenset({"image", "document"})


def parse_turns(root: Fields) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    """Return the instructions that stand before all else, and the turns."""
    value = root.take("messages")
    if value is None:
        raise root.missing("messages")
    messages = root.elements("messages", value)
    last_user = len(messages) - 1
    while last_user >= 0 and messages[last_user].get("role") != _USER:
        last_user -= 1
    leading: list[Text] = []
    turns: list[Turn] = []
    for place, bare in enumerate(messages):
        turn = _parse_bare_message(bare)
        if turn is not None:
            turns.append(turn)
            continue
        message = root.open_element("messages", place, bare)
        role = _parse_role(message)
        parts = parse_content(message, role)
        if role is Role.SYSTEM:
            # Guide on mid-conversation system messages: then it is shown for the turn that it follows only.
            clear_at = message.text("clear_at")
            if clear_at == "next_user_message" and place < last_user:
                continue
            if not turns:
                leading += [part for part in parts if isinstance(part, Text)]
                continue
        turns.append(Turn(role, parts))
    return tuple(leading), tuple(turns)


def _parse_bare_message(message: JsonObject) -> Turn | None:
    """Return the turn of a message that holds no more than nearly all do; ``None``: it is another."""
    name, content = message.get("role"), message.get("content")
    if len(message) != 2 or name not in (_USER, _ASSISTANT):
        return None
    role = _USER_ROLE if name == _USER else _ASSISTANT_ROLE
    if type(content) is str:
        return Turn(role, (Text(content),))
    parts = parse_bare_blocks(content, role) if type(content) is list else None
    return None if parts is None else Turn(role, parts)


def _parse_role(message: Fields) -> Role:
    name = message.text("role")
    if name is None:
        raise message.missing("role")
    role = _ROLES.get(name)
    if role is None:
        raise none_of(message, "role", name, _ROLES)
    return role


def render_turns(turns: tuple[Turn, ...], renderer: BlockRenderer) -> list[JsonObject]:
    """Return the messages of these turns."""
    texts = alternating_texts(turns, _USER, _ASSISTANT)
    if texts is not None:
        return [{"role": role, "content": [{"type": "text", "text": text}]} for role, text in texts]
    row = renderer.row
    policy = HistoryPolicy(
        ANTHROPIC_ID,
        alternates=True,
        system_turns=SystemTurns.AFTER_USER if row.system_turns else SystemTurns.AS_USER,
        ends_with_user=not row.prefill,
    )
    history = render_history(pair_calls(turns, policy.call_ids), policy, _TurnRenderer(renderer))
    messages: list[JsonObject] = [
        {"role": _NAMES[message.role], "content": message.blocks} for message in history
    ]
    if history and history[-1].role is Role.ASSISTANT:
        last = messages[-1]["content"][-1]
        if last["type"] == "text":
            last["text"] = last["text"].rstrip()
    return messages


@dataclass(slots=True)
class _TurnRenderer:
    """Renders each turn as content blocks."""

    blocks: BlockRenderer

    def render_text(self, text: str) -> JsonObject:
        """Return a block of text."""
        return render_text(text)

    def render_system(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the texts of an instruction."""
        return self.blocks.render_texts(turn.parts)

    def render_user(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the blocks of a turn of the user's."""
        blocks: list[JsonObject] = []
        for part in turn.parts:
            if type(part) is Text:  # most are, and each call costs
                block = self.blocks.render_text(part)
                if block is not None:
                    blocks.append(block)
            else:
                blocks += self.blocks.render_part(part, turn.role)
        return blocks

    def render_assistant(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the assistant's own blocks, and its media."""
        if len(turn.parts) == 1 and type(turn.parts[0]) is Text:  # as most are
            block = self.blocks.render_text(turn.parts[0])
            return ([] if block is None else [block]), []
        content = self.render_user(turn)
        media = [block for block in content if block["type"] in _MEDIA]
        if media:
            content = [block for block in content if block["type"] not in _MEDIA]
        if content and content[-1]["type"] in THOUGHT_TYPES:
            content = drop_last_thoughts(content, self.blocks.lost)
        return content, media

    def render_result(self, call: PairedCall) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the result of a call, which holds its media itself."""
        return [self.blocks.render_result(call)], []
