"""The order of a history: one step for all families, with a policy that says what each of them demands.

Histories come from clients of other families.  They answer calls late, in another order, twice or not at all,
use one identifier again, or let the user speak twice.  A family refuses a history that breaks its rules:

* Every call has an identifier of its own and is answered once, directly behind the turn that made it.  A call
  without a result gets one that says so, and a result without a call becomes text (contract 8.16).
* Where the turns have to alternate, neighbours of one role are one message.
* Media that a message has no place for (those of the assistant's turns, or of results) move to the user's
  next message, which is made where there is none (contract 8.17).
* An instruction in mid-conversation keeps its place where the family takes it there, else it is text of the
  user's message at that point (contract 8.16).
* Some models refuse a history that begins or ends with the assistant; the user gets a message there.

The words of a message are the dialect's: :class:`TurnRenderer` writes the parts, this module puts them in
order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from math import inf
from typing import Final, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from mgw.canonical.conversation import (
    JsonObject,
    Media,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from mgw.canonical.identifiers import make_unique_id

BEGIN: Final = "(The conversation begins with the assistant.)"
"""The user's message before a history that begins with the assistant, where the family refuses that."""
CONTINUE: Final = "Go on from exactly where you stopped."
"""The user's message behind a history that ends with the assistant, where the model refuses that."""
NO_RESULT: Final = "No result was recorded for this call."
"""The result of a call that the history leaves without one."""


class SystemTurns(Enum):
    """Where a family takes an instruction that does not stand before all else."""

    ANYWHERE = auto()
    AFTER_USER = auto()
    """Behind a message of the user's, and before one of the assistant's or the end."""
    AS_USER = auto()
    """Nowhere: it is text of the user's message at that point."""


class HistoryPolicy(Struct, frozen=True):
    """What a family, or one of its models, demands of a history."""

    call_ids: re.Pattern[str]
    """What it takes as the identifier of a call."""
    alternates: bool
    """Neighbouring turns of one role are one message; results stand in the user's."""
    system_turns: SystemTurns
    begins_with_user: bool = False
    ends_with_user: bool = False


class PairedCall(Struct):
    """A call, the identifier that it goes by, and its result; ``None``: the history has none."""

    id: str
    part: ToolCall
    result: ToolResult | None = None


HistoryPart = Text | Media | Thinking | Refusal | PairedCall


class HistoryTurn(Struct, frozen=True):
    """A turn whose calls know their results; the results stand nowhere else."""

    role: Role
    parts: tuple[HistoryPart, ...]
    name: str | None = None

    @property
    def calls(self) -> list[PairedCall]:
        """The calls, in their order."""
        return [part for part in self.parts if isinstance(part, PairedCall)]


class HistoryMessage(Struct):
    """What becomes one message of the request: blocks in the dialect's own form."""

    role: Role
    blocks: list[JsonObject]
    name: str | None = None
    """The participant's, where the message is one turn."""
    is_result: bool = False
    """It answers a call and holds nothing else."""


class TurnRenderer(Protocol):
    """Writes turns in the form of one dialect.  An empty list: nothing of the turn can be said."""

    def render_text(self, text: str) -> JsonObject:
        """Return a text of the user's as a block."""

    def render_system(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the blocks of an instruction."""

    def render_user(self, turn: HistoryTurn) -> list[JsonObject]:
        """Return the blocks of a turn of the user's."""

    def render_assistant(self, turn: HistoryTurn) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the blocks of a turn of the assistant's, and those that move to the user's next message."""

    def render_result(self, call: PairedCall) -> tuple[list[JsonObject], list[JsonObject]]:
        """Return the blocks of a call's result, and those that move to the user's next message."""


def render_history(
    turns: Iterable[HistoryTurn], policy: HistoryPolicy, renderer: TurnRenderer
) -> list[HistoryMessage]:
    """Return the messages of a history in an order that the family takes."""
    history = _History(policy, renderer)
    for turn in turns:
        history.add(turn)
    return history.finish()


def pair_calls(turns: Sequence[Turn], call_ids: re.Pattern[str]) -> list[HistoryTurn]:
    """Return the turns with each result beside its call, under identifiers that match ``call_ids``.

    A call gets the first result of its identifier that comes after it and before another call of the same.
    Results without a call become texts.
    """
    pairs = _Pairs()
    for number, turn in enumerate(turns):
        for index, part in enumerate(turn.parts):
            if isinstance(part, ToolCall):
                pairs.add_call((number, index), part, call_ids)
            elif isinstance(part, ToolResult):
                pairs.add_result((number, index), part)
    pairs.match()
    return [
        HistoryTurn(
            turn.role,
            tuple(
                found
                for index, part in enumerate(turn.parts)
                for found in pairs.parts_at((number, index), part)
            ),
            turn.name,
        )
        for number, turn in enumerate(turns)
    ]


class _History:
    """The messages so far, and what is due before the next one."""

    __slots__ = ("_messages", "_moved", "_policy", "_renderer", "_unanswered")

    def __init__(self, policy: HistoryPolicy, renderer: TurnRenderer) -> None:
        self._policy = policy
        self._renderer = renderer
        self._messages: list[HistoryMessage] = []
        self._unanswered: list[PairedCall] = []
        self._moved: list[JsonObject] = []
        """Media that wait for the user's next message."""

    def add(self, turn: HistoryTurn) -> None:
        """Add a turn, after what is due before it."""
        if turn.role is Role.ASSISTANT:
            self._add_assistant(turn)
        elif turn.role is Role.SYSTEM:
            self._add_system(turn)
        else:
            self._add_user(turn)

    def finish(self) -> list[HistoryMessage]:
        """Add what is still due, and return all."""
        self._settle()
        self._settle_system()
        messages, policy = self._messages, self._policy
        if policy.begins_with_user and messages and messages[0].role is Role.ASSISTANT:
            messages.insert(0, HistoryMessage(Role.USER, [self._renderer.render_text(BEGIN)]))
        if policy.ends_with_user and self._role() is Role.ASSISTANT:
            self._append(Role.USER, [self._renderer.render_text(CONTINUE)])
        return messages

    def _add_assistant(self, turn: HistoryTurn) -> None:
        blocks, moved = self._renderer.render_assistant(turn)
        if self._moved or not self._policy.alternates:
            self._settle()
        if blocks:
            self._settle_system()
            self._append(Role.ASSISTANT, blocks, turn.name)
            self._unanswered += turn.calls
        self._moved += moved

    def _add_system(self, turn: HistoryTurn) -> None:
        blocks = self._renderer.render_system(turn)
        self._settle()
        if self._policy.system_turns is SystemTurns.AS_USER:
            self._append_user(blocks)
        elif blocks:
            self._append(Role.SYSTEM, blocks)

    def _add_user(self, turn: HistoryTurn) -> None:
        blocks = self._renderer.render_user(turn)
        if not blocks and not self._policy.alternates:
            return  # media that move go with the user's next words
        self._add_results()
        blocks, self._moved = self._moved + blocks, []
        self._append_user(blocks, turn.name)

    def _settle(self) -> None:
        """Add the results and media that are due."""
        self._add_results()
        if self._moved:
            blocks, self._moved = self._moved, []
            self._append_user(blocks)

    def _add_results(self) -> None:
        calls, self._unanswered = self._unanswered, []
        for call in calls:
            blocks, moved = self._renderer.render_result(call)
            self._append(Role.USER, blocks, is_result=True)
            self._moved += moved

    def _append_user(self, blocks: list[JsonObject], name: str | None = None) -> None:
        if blocks:
            if self._policy.system_turns is SystemTurns.AFTER_USER and self._role() is Role.SYSTEM:
                self._fold_system()
            self._append(Role.USER, blocks, name)

    def _append(
        self, role: Role, blocks: list[JsonObject], name: str | None = None, *, is_result: bool = False
    ) -> None:
        if self._policy.alternates and self._role() is role:
            self._messages[-1].blocks += blocks
        else:
            self._messages.append(HistoryMessage(role, blocks, name, is_result))

    def _role(self, back: int = 1) -> Role | None:
        return self._messages[-back].role if len(self._messages) >= back else None

    def _settle_system(self) -> None:
        """Make an instruction a text of the user's where it does not follow the user."""
        if self._policy.system_turns is not SystemTurns.AFTER_USER or self._role() is not Role.SYSTEM:
            return
        if self._role(2) is not Role.USER:
            self._fold_system()

    def _fold_system(self) -> None:
        self._append(Role.USER, self._messages.pop().blocks)


Position = tuple[int, int]
"""Of a part: the number of its turn, and its number therein."""


class _Identifier(Struct):
    """Where one identifier stands."""

    calls: list[Position] = field(default_factory=list)
    results: list[tuple[Position, ToolResult]] = field(default_factory=list)


class _Pairs:
    """The calls and results of one history."""

    __slots__ = ("_answers", "_calls", "_identifiers", "_used")

    def __init__(self) -> None:
        self._calls: dict[Position, PairedCall] = {}
        self._answers: set[Position] = set()
        """The results that answer a call."""
        self._identifiers: dict[str, _Identifier] = {}
        self._used: set[str] = set()

    def add_call(self, position: Position, call: ToolCall, call_ids: re.Pattern[str]) -> None:
        """Take a call."""
        self._calls[position] = PairedCall(make_unique_id(call.id, self._used, call_ids), call)
        self._identifiers.setdefault(call.id, _Identifier()).calls.append(position)

    def add_result(self, position: Position, result: ToolResult) -> None:
        """Take a result."""
        self._identifiers.setdefault(result.call_id, _Identifier()).results.append((position, result))

    def match(self) -> None:
        """Find the result of each call."""
        for identifier in self._identifiers.values():
            self._match(identifier)

    def parts_at(self, position: Position, part: object) -> tuple[HistoryPart, ...]:
        """Return what stands at the position of a part."""
        if isinstance(part, ToolCall):
            return (self._calls[position],)
        if isinstance(part, ToolResult):
            return () if position in self._answers else orphan_parts(part)
        assert isinstance(part, Text | Media | Thinking | Refusal), "every other part"
        return (part,)

    def _match(self, identifier: _Identifier) -> None:
        results = iter(identifier.results)
        result = next(results, None)
        for call, limit in zip(identifier.calls, _limits(identifier.calls), strict=True):
            while result is not None and result[0] < call:
                result = next(results, None)
            if result is None:
                return
            position, part = result
            if position[0] < limit:
                self._calls[call].result = part
                self._answers.add(position)
                result = next(results, None)


def orphan_parts(result: ToolResult) -> tuple[Text | Media, ...]:
    """Return a result whose call the history does not have, as what the user says."""
    what = "Error" if result.is_error else "Result"
    parts = (Text(f"[{what} of {result.name or result.call_id}]"), *result.parts)
    if result.cache is None or parts[-1].cache is not None:
        return parts
    return (*parts[:-1], replace(parts[-1], cache=result.cache))


def _limits(calls: list[Position]) -> list[float]:
    """Return for each call the number of the next turn that has one of the same identifier."""
    limits: list[float] = []
    limit = inf
    after = inf
    for turn, _ in reversed(calls):
        if turn != after:
            limit, after = after, turn
        limits.append(limit)
    limits.reverse()
    return limits
