"""The order of a history: one step for all families, with a policy for the requirements of each.

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
from typing import Any, Final, Protocol

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

_USER: Final = Role.USER  # a member of an enumeration is looked up in Python's slow way each time
_ASSISTANT: Final = Role.ASSISTANT
_SYSTEM: Final = Role.SYSTEM

BEGIN: Final = "(The conversation begins with the assistant.)"
"""The user's message before a history that begins with the assistant, where the family refuses that."""
CONTINUE: Final = "Go on from exactly where you stopped."
"""The user's message behind a history that ends with the assistant, where the model refuses that."""
SEVERAL: Final = ""
"""The participant's name in a message that joins turns of several."""
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
    joins_neighbours: bool = False
    """Where it does not alternate: the same, but each result is a message of its own."""
    begins_with_user: bool = False
    begin: str = BEGIN
    """What the user says before a history that begins with the assistant, where that is refused."""
    ends_with_user: bool = False


class PairedCall(Struct, gc=False):
    """A call, the identifier that it goes by, and its result; ``None``: the history has none."""

    id: str
    part: ToolCall
    result: ToolResult | None = None


HistoryPart = Text | Media | Thinking | Refusal | PairedCall


class HistoryTurn(Struct, frozen=True, gc=False):
    """A turn whose calls know their results; the results stand nowhere else."""

    role: Role
    parts: tuple[HistoryPart, ...]
    name: str | None = None
    calls: tuple[PairedCall, ...] = ()
    """The calls among the parts, in their order."""


class HistoryMessage(Struct, gc=False):
    """What becomes one message of the request: blocks in the dialect's own form."""

    role: Role
    blocks: list[JsonObject]
    name: str | None = None
    """The participant's; ``SEVERAL``: it joins turns of different ones."""
    is_result: bool = False
    """Whether the turn answers a call and holds nothing else."""


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


def alternating_texts(turns: Sequence[Turn], user: str, assistant: str) -> list[tuple[str, str]] | None:
    """Return who says what in a history of texts alone, which all families take as it is; else ``None``.

    The user and the assistant speak in turn, the user first and last, each turn one visible text and no more.

    :param user: what the family calls the user.
    :param assistant: what it calls the assistant.
    """
    texts: list[tuple[str, str]] = []
    role = _USER
    for turn in turns:
        parts = turn.parts
        if turn.role is not role or len(parts) != 1 or turn.name is not None:
            return None
        part = parts[0]
        if type(part) is not Text or part.cache is not None or part.signature is not None:
            return None
        if not part.text or part.text.isspace():
            return None
        if role is _USER:
            texts.append((user, part.text))
            role = _ASSISTANT
        else:
            texts.append((assistant, part.text))
            role = _USER
    return texts if role is _ASSISTANT else None


def render_history(
    turns: Iterable[HistoryTurn], policy: HistoryPolicy, renderer: TurnRenderer
) -> list[HistoryMessage]:
    """Return the messages of a history in an order that the family takes."""
    history = _History(policy, renderer)
    for turn in turns:
        role = turn.role
        if role is _USER:
            history.add_user(turn)
        elif role is _ASSISTANT:
            history.add_assistant(turn)
        else:
            history.add_system(turn)
    return history.finish()


def pair_calls(turns: Sequence[Turn], call_ids: re.Pattern[str]) -> list[HistoryTurn]:
    """Return the turns with each result beside its call, under identifiers that match ``call_ids``.

    A call gets the first result of its identifier that comes after it and before another call of the same.
    Results without a call become texts.
    """
    pairs = _Pairs(call_ids)
    paired = pairs.turns
    for number, turn in enumerate(turns):
        for part in turn.parts:
            if type(part) in _PAIRED:
                pairs.add(number, turn)
                break
        else:
            unpaired: Any = turn.parts  # Any: there is no call and no result among them
            paired.append(HistoryTurn(turn.role, unpaired, turn.name))
    return pairs.finish()


class _History:
    """The messages so far, and what is due before the next one."""

    __slots__ = (
        "_alternates",
        "_folds_system",
        "_joins_neighbours",
        "_last",
        "_messages",
        "_moved",
        "_policy",
        "_renderer",
        "_unanswered",
    )

    def __init__(self, policy: HistoryPolicy, renderer: TurnRenderer) -> None:
        self._policy = policy
        self._alternates = policy.alternates
        self._joins_neighbours = policy.joins_neighbours
        self._folds_system = policy.system_turns is SystemTurns.AFTER_USER
        self._renderer = renderer
        self._messages: list[HistoryMessage] = []
        self._last: Role | None = None
        """The role of the last message."""
        self._unanswered: list[PairedCall] = []
        self._moved: list[JsonObject] = []
        """Media that wait for the user's next message."""

    def add_assistant(self, turn: HistoryTurn) -> None:
        """Add a turn of the assistant's; its results are due."""
        blocks, moved = self._renderer.render_assistant(turn)
        if self._moved or (self._unanswered and not self._alternates):
            self._settle()
        if blocks:
            self._append(_ASSISTANT, blocks, turn.name)
            if turn.calls:
                self._unanswered += turn.calls
        if moved:
            self._moved += moved

    def add_system(self, turn: HistoryTurn) -> None:
        """Add an instruction, after what is due before it."""
        blocks = self._renderer.render_system(turn)
        self._settle()
        if blocks:
            as_user = self._policy.system_turns is SystemTurns.AS_USER
            self._append(_USER if as_user else _SYSTEM, blocks)

    def add_user(self, turn: HistoryTurn) -> None:
        """Add a turn of the user's, after the results that are due, and with the media that are."""
        blocks = self._renderer.render_user(turn)
        if not blocks and not self._alternates:
            return  # media that move go with the user's next words
        if self._unanswered:
            self._add_results()
        if self._moved:
            blocks, self._moved = self._moved + blocks, []
        if blocks:
            self._append(_USER, blocks, turn.name)

    def finish(self) -> list[HistoryMessage]:
        """Add what is still due, and return all."""
        self._settle()
        if self._last is _SYSTEM and self._folds_system:
            self._place_system(None)
        messages, policy = self._messages, self._policy
        if policy.begins_with_user and messages and messages[0].role is _ASSISTANT:
            messages.insert(0, HistoryMessage(_USER, [self._renderer.render_text(policy.begin)]))
        if policy.ends_with_user and self._last is _ASSISTANT:
            self._append(_USER, [self._renderer.render_text(CONTINUE)])
        return messages

    def _settle(self) -> None:
        """Add the results and media that are due."""
        if self._unanswered:
            self._add_results()
        if self._moved:
            blocks, self._moved = self._moved, []
            self._append(_USER, blocks)

    def _add_results(self) -> None:
        calls, self._unanswered = self._unanswered, []
        for call in calls:
            blocks, moved = self._renderer.render_result(call)
            self._append(_USER, blocks, None, is_result=True)
            if moved:
                self._moved += moved

    def _append(
        self, role: Role, blocks: list[JsonObject], name: str | None = None, *, is_result: bool = False
    ) -> None:
        if self._last is _SYSTEM and self._folds_system:
            self._place_system(role)
        if self._last is role and (self._alternates or (self._joins_neighbours and not is_result)):
            self._join(self._messages[-1], role, blocks, name)
        else:
            self._last = role
            self._messages.append(HistoryMessage(role, blocks, name, is_result))

    def _join(self, last: HistoryMessage, role: Role, blocks: list[JsonObject], name: str | None) -> None:
        if last.is_result and not self._alternates:
            self._messages.append(HistoryMessage(role, blocks, name))
            return
        last.blocks += blocks
        if last.name is None or name is None or last.name == name:
            last.name = last.name or name
        else:
            last.name = SEVERAL

    def _place_system(self, follower: Role | None) -> None:
        """Make an instruction a text of the user's unless it stands between the user and the assistant.

        :param follower: whose the next message is; ``None``: there is none.
        """
        if follower is _SYSTEM:  # both are one message
            return
        before = self._messages[-2].role if len(self._messages) > 1 else None
        if follower is _USER or before is not _USER:
            self._fold_system()

    def _fold_system(self) -> None:
        blocks = self._messages.pop().blocks
        self._last = self._messages[-1].role if self._messages else None
        self._append(_USER, blocks)


_PAIRED: Final = frozenset({ToolCall, ToolResult})
Position = tuple[int, int]
"""The position of a part: the number of its turn, and its number therein."""


class _Identifier(Struct, gc=False):
    """Where one identifier stands."""

    calls: list[Position] = field(default_factory=list)
    results: list[tuple[Position, ToolResult]] = field(default_factory=list)


class _Pairs:
    """The calls and results of one history."""

    __slots__ = ("_answers", "_call_ids", "_calls", "_identifiers", "_used", "_with_results", "turns")

    def __init__(self, call_ids: re.Pattern[str]) -> None:
        self._call_ids = call_ids
        self.turns: list[HistoryTurn] = []
        """All turns so far; those without calls and results are put here as they are."""
        self._with_results: list[tuple[int, Turn]] = []
        """The turns that hold results, by their numbers."""
        self._calls: dict[Position, PairedCall] = {}
        self._answers: set[Position] = set()
        """The results that answer a call."""
        self._identifiers: dict[str, _Identifier] = {}
        self._used: set[str] = set()

    def add(self, number: int, turn: Turn) -> None:
        """Take the next turn."""
        parts: list[Any] = list(turn.parts)  # Any: parts that are about to be paired
        calls: list[PairedCall] = []
        has_results = False
        for index, part in enumerate(turn.parts):
            if type(part) is ToolCall:
                call = PairedCall(make_unique_id(part.id, self._used, self._call_ids), part)
                self._calls[number, index] = parts[index] = call
                self._identifier(part.id).calls.append((number, index))
                calls.append(call)
            elif type(part) is ToolResult:
                has_results = True
                self._identifier(part.call_id).results.append(((number, index), part))
        if has_results:
            self._with_results.append((number, turn))
        self.turns.append(HistoryTurn(turn.role, tuple(parts), turn.name, tuple(calls)))

    def finish(self) -> list[HistoryTurn]:
        """Return the turns with each result at its call, and nowhere else."""
        for identifier in self._identifiers.values():
            self._match(identifier)
        for number, turn in self._with_results:
            paired = self.turns[number]
            parts: list[HistoryPart] = []
            for index, part in enumerate(turn.parts):
                if not isinstance(part, ToolResult):
                    parts.append(paired.parts[index])
                elif (number, index) not in self._answers:
                    parts += orphan_parts(part)
            self.turns[number] = HistoryTurn(turn.role, tuple(parts), turn.name, paired.calls)
        return self.turns

    def _identifier(self, name: str) -> _Identifier:
        found = self._identifiers.get(name)
        if found is None:
            found = self._identifiers[name] = _Identifier()
        return found

    def _match(self, identifier: _Identifier) -> None:
        if len(identifier.calls) == 1:  # as nearly all are
            self._match_one(identifier.calls[0], identifier.results)
            return
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

    def _match_one(self, call: Position, results: list[tuple[Position, ToolResult]]) -> None:
        for position, result in results:
            if position > call:
                self._calls[call].result = result
                self._answers.add(position)
                return


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
