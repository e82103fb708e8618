"""Instructions for models that accept none: as text of the user.

Sources: contract 8.29; the column ``system`` of the table of models.  Chat templates of some open models
(Gemma) know no system message, and most of them none in mid-conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from mgw.canonical.conversation import Conversation, Role, Text, ToolResult, Turn

_BETWEEN: Final = "\n\n"


def without_system(conversation: Conversation) -> Conversation:
    """Return a conversation whose instructions, wherever they stand, are text of the user's."""
    turns = fold_system_turns(conversation.turns)
    system = _BETWEEN.join([text.text for text in conversation.system if text.text])
    if system:
        turns = _put_before(Text(system), turns)
    return replace(conversation, system=(), turns=turns)


def fold_system_turns(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Return the turns with each instruction in mid-conversation as a turn of the user's."""
    return tuple(replace(turn, role=Role.USER) if turn.role is Role.SYSTEM else turn for turn in turns)


def mention_json(conversation: Conversation, wish: str) -> Conversation:
    """Return a conversation that mentions JSON, if need be with ``wish`` as its last leading instruction."""
    texts = [*conversation.system, *(part for turn in conversation.turns for part in turn.parts)]
    if any(isinstance(text, Text) and "json" in text.text.lower() for text in texts):
        return conversation
    return replace(conversation, system=(*conversation.system, Text(wish)))


def _put_before(text: Text, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Put a text before the first words of the user's, or before all where there are none."""
    for number, turn in enumerate(turns):
        if turn.role is Role.USER and any(not isinstance(part, ToolResult) for part in turn.parts):
            first = replace(turn, parts=(text, *turn.parts))
            return (*turns[:number], first, *turns[number + 1 :])
    return (Turn(Role.USER, (text,)), *turns)
