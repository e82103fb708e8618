"""The history, arranged as the vendor demands it.

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

from typing import Final

from mgw.canonical.conversation import JsonObject, Role, Turn
from mgw.canonical.features import Feature
from mgw.dialects.anthropic.blocks import THOUGHTS, Blocks, text_block, without_last_thoughts
from mgw.dialects.fillers import GO_ON
from mgw.dialects.identifiers import ANTHROPIC_ID
from mgw.dialects.pairs import Call, Pairs, paired

_USER: Final = "user"
_ASSISTANT: Final = "assistant"
_SYSTEM: Final = "system"
_MEDIA: Final = frozenset({"image", "document"})


def arranged(turns: tuple[Turn, ...], blocks: Blocks) -> list[JsonObject]:
    """Return the messages of these turns."""
    pairs = paired(turns, ANTHROPIC_ID)
    messages = _Messages(blocks)
    for number, turn in enumerate(turns):
        if turn.role is Role.SYSTEM:
            messages.system(blocks.texts(turn.parts))
        elif turn.role is Role.ASSISTANT:
            calls = [
                pairs.calls[number, place]
                for place in range(len(turn.parts))
                if (number, place) in pairs.calls
            ]
            content, media = _apart(_blocks(turn, number, pairs, blocks))
            messages.assistant(without_last_thoughts(content, blocks.lost), calls, media)
        else:
            messages.user(_blocks(turn, number, pairs, blocks))
    return messages.finish()


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
    return bool(ends) and all(step["content"][0]["type"] not in THOUGHTS for step in ends)


def forget_thoughts(messages: list[JsonObject], lost: set[Feature]) -> None:
    """Leave the thoughts of the turn in progress out, for a model that does not think now.

    "When thinking is disabled, an `assistant` message in the final position cannot contain `thinking`."
    """
    for step in _turn_in_progress(messages):
        rest = [block for block in step["content"] if block["type"] not in THOUGHTS]
        if len(rest) < len(step["content"]):
            lost.add(Feature.THINKING)
            step["content"] = rest


def hold_thoughts(messages: list[JsonObject]) -> bool:
    """Whether any of these messages holds a thought."""
    return any(block["type"] in THOUGHTS for message in messages for block in message["content"])


def _turn_in_progress(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the assistant's messages of the turn that has not ended, the newest first."""
    said = [message for message in messages if message["role"] != _SYSTEM]
    steps: list[JsonObject] = []
    if said[-1]["role"] == _ASSISTANT:
        steps.append(said.pop())
    while len(said) > 1 and said[-1]["role"] == _USER and said[-1]["content"][0]["type"] == "tool_result":
        steps.append(said[-2])
        del said[-2:]
    return steps


def _blocks(turn: Turn, number: int, pairs: Pairs, blocks: Blocks) -> list[JsonObject]:
    found: list[JsonObject] = []
    for place, part in enumerate(turn.parts):
        if (number, place) not in pairs.taken:
            found += blocks.part(part, turn.role, pairs.calls.get((number, place)))
    return found


def _apart(content: list[JsonObject]) -> tuple[list[JsonObject], list[JsonObject]]:
    """Return what the assistant says, and its media."""
    media = [block for block in content if block["type"] in _MEDIA]
    return [block for block in content if block["type"] not in _MEDIA] if media else content, media


class _Messages:
    """The messages so far."""

    __slots__ = ("_blocks", "_messages", "_moved", "_unanswered")

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._messages: list[JsonObject] = []
        self._unanswered: list[Call] = []
        self._moved: list[JsonObject] = []
        """Media of the assistant's that wait for the user's turn."""

    def assistant(self, content: list[JsonObject], calls: list[Call], media: list[JsonObject]) -> None:
        """Add what the model said, and remember what it called and drew."""
        if self._moved:
            self._answer()
        if content:
            self._settle_system()
            self._add(_ASSISTANT, content)
            self._unanswered += calls
        self._moved += media

    def user(self, content: list[JsonObject]) -> None:
        """Add what the user said, after the results and media that are due."""
        self._answer()
        self._hear(content)

    def system(self, content: list[JsonObject]) -> None:
        """Add an instruction, after the results and media that are due."""
        if not self._blocks.row.system_turns:
            self.user(content)
            return
        self._answer()
        if content:
            self._add(_SYSTEM, content)

    def finish(self) -> list[JsonObject]:
        """Answer what is still unanswered, and return all."""
        self._answer()
        self._settle_system()
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

    def _answer(self) -> None:
        if self._unanswered:
            self._add(_USER, [self._blocks.result(call) for call in self._unanswered])
            self._unanswered.clear()
        if self._moved:
            self._hear(self._moved)
            self._moved = []

    def _hear(self, content: list[JsonObject]) -> None:
        if content:
            if self._role() == _SYSTEM:
                self._fold_system()
            self._add(_USER, content)

    def _settle_system(self) -> None:
        """Make an instruction a text of the user's where it does not follow a user."""
        if self._role() == _SYSTEM and self._role(2) != _USER:
            self._fold_system()

    def _fold_system(self) -> None:
        self._add(_USER, self._messages.pop()["content"])

    def _end_with_assistant(self) -> None:
        if not self._blocks.row.prefill:
            self._add(_USER, [text_block(GO_ON)])
            return
        content = self._messages[-1]["content"]
        if content[-1]["type"] == "text":
            content[-1]["text"] = content[-1]["text"].rstrip()
