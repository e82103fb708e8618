"""The history of a request, both ways.

Sources: the SDK's ``MessageParam`` and the vendor's refusals.  Neighbours of one role are one turn.  The
results of an assistant's calls, all of them, stand first in the user's turn directly after it.  A ``system``
message "must follow a 'user' message" and "must precede an 'assistant' message or end the array" (guide on
mid-conversation system messages); one that stands elsewhere, and any for a model that takes none, is text of
the user's turn at that point.  A message of the assistant's holds no media: what the model drew moves to the
user's next turn, which is made where there is none.  The last turn, if the assistant's, ends without white
space; where the model refuses it ("This model does not support assistant message prefill") the user asks it
to go on.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from mgw.canonical.conversation import JsonObject, Role, Text, Turn
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.blocks import (
    THOUGHT_TYPES,
    BlockRenderer,
    drop_last_thoughts,
    parse_content,
    text_block,
)
from mgw.dialects.fields import Fields, none_of
from mgw.dialects.fillers import GO_ON
from mgw.dialects.identifiers import ANTHROPIC_ID
from mgw.dialects.pairs import Call, Pairs, paired

_USER: Final = "user"
_ASSISTANT: Final = "assistant"
_SYSTEM: Final = "system"
_ROLES: Final = MappingProxyType({_USER: Role.USER, _ASSISTANT: Role.ASSISTANT, _SYSTEM: Role.SYSTEM})
_MEDIA: Final = frozenset({"image", "document"})


def parse_turns(root: Fields) -> tuple[tuple[Text, ...], tuple[Turn, ...]]:
    """Return the instructions that stand before all else, and the turns."""
    if "messages" not in root:
        raise root.missing("messages")
    messages = root.objects("messages")
    roles = [_parse_role(message) for message in messages]
    last_user = max((place for place, role in enumerate(roles) if role is Role.USER), default=-1)
    leading: list[Text] = []
    turns: list[Turn] = []
    for place, (message, role) in enumerate(zip(messages, roles, strict=True)):
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


def _parse_role(message: Fields) -> Role:
    name = message.required_text("role")
    role = _ROLES.get(name)
    if role is None:
        raise none_of(message, "role", name, _ROLES)
    return role


def render_turns(turns: tuple[Turn, ...], renderer: BlockRenderer) -> list[JsonObject]:
    """Return the messages of these turns."""
    pairs = paired(turns, ANTHROPIC_ID)
    messages = _MessageList(renderer)
    for number, turn in enumerate(turns):
        if turn.role is Role.SYSTEM:
            messages.add_system(renderer.render_texts(turn.parts))
        elif turn.role is Role.ASSISTANT:
            calls = [
                pairs.calls[number, place]
                for place in range(len(turn.parts))
                if (number, place) in pairs.calls
            ]
            content, media = _split_media(_render_turn(turn, number, pairs, renderer))
            messages.add_assistant(drop_last_thoughts(content, renderer.lost), calls, media)
        else:
            messages.add_user(_render_turn(turn, number, pairs, renderer))
    return messages.finish()


def _render_turn(turn: Turn, number: int, pairs: Pairs, renderer: BlockRenderer) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for place, part in enumerate(turn.parts):
        if (number, place) not in pairs.taken:
            blocks += renderer.render_part(part, turn.role, pairs.calls.get((number, place)))
    return blocks


def _split_media(content: list[JsonObject]) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return the assistant's own content, and its media."""
    media = [block for block in content if block["type"] in _MEDIA]
    return [block for block in content if block["type"] not in _MEDIA] if media else content, media


class _MessageList:
    """The messages rendered so far."""

    __slots__ = ("_messages", "_moved", "_renderer", "_unanswered")

    def __init__(self, renderer: BlockRenderer) -> None:
        self._renderer = renderer
        self._messages: list[JsonObject] = []
        self._unanswered: list[Call] = []
        self._moved: list[JsonObject] = []
        """Media of the assistant's that wait for the user's turn."""

    def add_assistant(self, content: list[JsonObject], calls: list[Call], media: list[JsonObject]) -> None:
        """Add a turn of the model, and remember its calls and media."""
        if self._moved:
            self._add_results()
        if content:
            self._place_system()
            self._add(_ASSISTANT, content)
            self._unanswered += calls
        self._moved += media

    def add_user(self, content: list[JsonObject]) -> None:
        """Add a turn of the user, after the results and media that are due."""
        self._add_results()
        self._add_to_user(content)

    def add_system(self, content: list[JsonObject]) -> None:
        """Add an instruction, after the results and media that are due."""
        if not self._renderer.row.system_turns:
            self.add_user(content)
            return
        self._add_results()
        if content:
            self._add(_SYSTEM, content)

    def finish(self) -> list[JsonObject]:
        """Add the results and media that are due, and return all messages."""
        self._add_results()
        self._place_system()
        if self._role() == _ASSISTANT:
            self._end_with_assistant()
        return self._messages

    def _role(self, back: int = 1) -> str | None:
        return self._messages[-back]["role"] if len(self._messages) >= back else None

    def _add(self, role: str, content: list[JsonObject]) -> None:
        if self._role() == role:
            self._messages[-1]["content"] += content
        else:
            self._messages.append({"role": role, "content": content})

    def _add_results(self) -> None:
        if self._unanswered:
            self._add(_USER, [self._renderer.render_result(call) for call in self._unanswered])
            self._unanswered.clear()
        if self._moved:
            self._add_to_user(self._moved)
            self._moved = []

    def _add_to_user(self, content: list[JsonObject]) -> None:
        if content:
            if self._role() == _SYSTEM:
                self._fold_system()
            self._add(_USER, content)

    def _place_system(self) -> None:
        """Make an instruction a text of the user's where it does not follow a user."""
        if self._role() == _SYSTEM and self._role(2) != _USER:
            self._fold_system()

    def _fold_system(self) -> None:
        self._add(_USER, self._messages.pop()["content"])

    def _end_with_assistant(self) -> None:
        if not self._renderer.row.prefill:
            self._add(_USER, [text_block(GO_ON)])
            return
        content = self._messages[-1]["content"]
        if content[-1]["type"] == "text":
            content[-1]["text"] = content[-1]["text"].rstrip()


def refuses_thinking(messages: list[JsonObject]) -> bool:
    """Whether thinking with a budget cannot be asked for: the turn in progress was begun without.

    "When `thinking` is enabled, a final `assistant` message must start with a thinking block", where a loop
    of tool use is one assistant turn (guide on extended thinking), and that turn "may not be an `assistant`
    message to be continued".  Adaptive thinking demands no such thing.
    """
    steps = _turn_in_progress(messages)
    if messages[-1]["role"] == _ASSISTANT:
        return True
    ends = steps[:1] + steps[-1:]
    return bool(ends) and all(step["content"][0]["type"] not in THOUGHT_TYPES for step in ends)


def drop_thoughts(messages: list[JsonObject], lost: set[Feature]) -> None:
    """Leave the thoughts of the turn in progress out, for a model that does not think now.

    "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
    """
    for step in _turn_in_progress(messages):
        rest = [block for block in step["content"] if block["type"] not in THOUGHT_TYPES]
        if len(rest) < len(step["content"]):
            lost.add(Feature.THINKING)
            step["content"] = rest


def has_thoughts(messages: list[JsonObject]) -> bool:
    """Whether any of these messages holds a thought."""
    return any(block["type"] in THOUGHT_TYPES for message in messages for block in message["content"])


def _turn_in_progress(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the assistant's messages of the turn that has not ended, the newest first."""
    rest = [message for message in messages if message["role"] != _SYSTEM]
    steps: list[JsonObject] = []
    if rest[-1]["role"] == _ASSISTANT:
        steps.append(rest.pop())
    while len(rest) > 1 and rest[-1]["role"] == _USER and rest[-1]["content"][0]["type"] == "tool_result":
        steps.append(rest[-2])
        del rest[-2:]
    return steps
